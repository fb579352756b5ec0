"""Lesson 05's references, against each other, and the rules that find a small number in a result."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons.softmax_crossentropy import exercises, references

RNG = np.random.default_rng(5)
Z, DP = RNG.normal(2, 1.5, (4, 5, 7)), RNG.normal(1, 1, (4, 5, 7))
TARGETS = RNG.integers(0, 7, (4, 5))


def test_backward_is_the_derivative_of_forward():
    dz = references.softmax_backward(DP, references.softmax(Z))
    assert gradient_check(references.softmax, Z, dz, DP, report=False) < 1e-8
    dlogits = references.classifier(Z, TARGETS, 0.5, 7).dlogits
    dlosses = np.full((4, 5), 0.5)
    assert (
        gradient_check(lambda z: references.cross_entropy(z, TARGETS).losses, Z, dlogits, dlosses, report=False) < 1e-8
    )


def test_a_small_number_is_found_however_small():
    e = np.exp(Z - Z.max(axis=-1, keepdims=True))
    total, losses = e.sum(axis=-1, keepdims=True), references.cross_entropy(Z, TARGETS).losses
    for eps in (1e-12, 1e-3):
        assert exercises.of_sum(e / (total + eps), Z) and exercises.of_sum((e + eps) / total, Z)
        assert exercises.of_loss(-np.log(np.exp(-losses) + eps), losses)
    far = np.array([[0.3, 200.0], [300.0, 0.1]])
    assert exercises.of_loss(-np.log(np.maximum(np.exp(-far), 1e-9)), far)


def test_right_and_otherwise_wrong_answers_are_not_taken_for_it():
    p, right = references.softmax(Z), references.cross_entropy(Z, TARGETS)
    for answer in (p, p.astype(np.float32), np.exp(Z), np.ones_like(Z)):
        assert not exercises.of_sum(answer, Z)
    for answer in (right.losses, right.losses.astype(np.float32), right.losses * 0, right.lse):
        assert not exercises.of_loss(answer, right.losses)
