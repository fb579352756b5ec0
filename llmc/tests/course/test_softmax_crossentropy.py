"""Lesson 05's references and known mistakes, against each other: nothing of llmc.backends is used in them."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons import softmax_crossentropy as lesson

RNG = np.random.default_rng(5)
Z, DP = RNG.normal(2, 1.5, (4, 5, 7)), RNG.normal(1, 1, (4, 5, 7))
TARGETS = lesson.targets(RNG, 4, 5, 7)


def test_backward_is_the_derivative_of_forward():
    dz = lesson.softmax_backward(DP, lesson.softmax(Z))
    assert gradient_check(lesson.softmax, Z, dz, DP, report=False) < 1e-8
    dlogits = lesson.classifier(Z, TARGETS, 0.5, 7).dlogits
    losses = gradient_check(
        lambda z: lesson.cross_entropy(z, TARGETS).losses, Z, dlogits, np.full((4, 5), 0.5), report=False
    )
    assert losses < 1e-8


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    p, right = lesson.softmax(Z), lesson.cross_entropy(Z, TARGETS)
    known = lesson.cross_entropy_mistakes(Z, TARGETS)
    wide = np.concatenate([Z, 5 + Z[..., :4]], axis=-1)
    both = lesson.classifier(wide, TARGETS, 0.37, 7)
    tables = [
        (p, lesson.softmax_mistakes(Z)),
        (right.lse, known["lse"]),
        (right.losses, known["losses"]),
        (lesson.softmax_backward(DP, p), lesson.softmax_backward_mistakes(DP, p)),
        (both.dlogits[..., :7], lesson.classifier_mistakes(wide, TARGETS, 0.37, 7)["dlogits"]),
        (np.asarray(lesson.fresh_loss(100, 300, 0.1)), lesson.fresh_loss_mistakes(100, 300, 0.1)),
    ]
    for expected, wrongs in tables:
        arrays = [expected, *(np.asarray(array) for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == expected.shape
            for other in arrays[:i]:
                assert np.abs(one - other).max() > 3e-4 * np.abs(one).max(), [None, *wrongs][i]


def test_a_small_number_is_found_however_small():
    e = np.exp(Z - Z.max(axis=-1, keepdims=True))
    total, right = e.sum(axis=-1, keepdims=True), lesson.cross_entropy(Z, TARGETS)
    p_target = np.exp(-right.losses)
    for eps in (1e-12, 1e-9, 1e-5, 1e-3):
        assert lesson.safe_sum(e / (total + eps), Z) and lesson.safe_sum((e + eps) / total, Z)
        assert lesson.safe_lse(Z.max(axis=-1) + np.log(total[..., 0] + eps), right.lse, Z)
        assert lesson.safe_log(-np.log(p_target + eps), right.losses)
    far = np.array([[0.3, 200.0], [300.0, 0.1]])
    assert lesson.safe_log(-np.log(np.maximum(np.exp(-far), 1e-9)), far)


def test_right_and_otherwise_wrong_answers_are_not_taken_for_it():
    p, right = lesson.softmax(Z), lesson.cross_entropy(Z, TARGETS)
    other = np.exp(Z - np.logaddexp.reduce(Z, axis=-1, keepdims=True))
    for answer in (p, other, p.astype(np.float32), np.exp(Z), np.ones_like(Z), Z):
        assert not lesson.safe_sum(answer, Z)
    for answer in (right.losses, right.losses.astype(np.float32), right.losses + 1e-7, right.losses * 0, right.lse):
        assert not lesson.safe_log(answer, right.losses)
    assert not lesson.safe_lse(np.logaddexp.reduce(Z, axis=-1), right.lse, Z)
