"""Lesson 06's references, against each other: nothing of llmc.backends is used in them."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons.attention import heads as lesson
from llmc.course.lessons.attention import lean

NH = 4  # with 3, 3C / NH would be C
RNG = np.random.default_rng(3)
QKV, DOUT = RNG.normal(1, 1, (2, 5, 3 * 24)), RNG.normal(size=(2, 5, 24))
DP = RNG.normal(size=(2, NH, 5, 5))
Q, K = RNG.normal(1, 1, (2, 5, 4))


def test_backward_is_the_derivative_of_forward():
    dqkv = lesson.backward(DOUT, QKV, NH)
    assert gradient_check(lambda qkv: lesson.forward(qkv, NH).out, QKV, dqkv, DOUT, report=False) < 1e-8


def test_dtype_follows_the_input():
    qkv, dout = QKV.astype(np.float32), DOUT.astype(np.float32)
    arrays = [*lesson.forward(qkv, NH), lesson.backward(dout, qkv, NH), lesson.scores(qkv[0], qkv[1])]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    forward = lesson.forward(QKV, NH)
    right = dict(zip(("dq", "dk", "dv"), np.split(lesson.backward(DOUT, QKV, NH), 3, axis=-1))) | forward._asdict()
    right["ds"] = lesson.softmax_backward(DP, forward.probabilities)
    q, k = np.random.default_rng(4).normal(size=(2, 5, 7))  # (5, 7) each; where hs is 4, hs / 2 is its root
    right["scores"] = np.where(lesson.seen(5), lesson.scores(q, k), 0)
    known = lesson.backward_mistakes(DOUT, QKV, NH) | lesson.forward_mistakes(QKV, NH)
    known["ds"] = lesson.softmax_backward_mistakes(DP, forward.probabilities)
    known["scores"] = lesson.scores_mistakes(q, k)
    for name, wrongs in known.items():
        arrays = [right[name], *(array for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == right[name].shape
            assert all(np.abs(one - other).max() > 1e-3 * np.abs(one).max() for other in arrays[:i]), (name, i)


def test_mistakes_of_blocks_are_found_for_any_block_length():
    q, k, v = lesson.split(QKV, NH)
    s, t = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, np.arange(5)  # (B, NH, T, T), (T,)
    for n in (2, 3):
        inside = t < (t // n * n + n)[:, None]  # (T, T)   no mask inside a block
        last = lesson.seen(5) & (t >= (t // n * n)[:, None])  # (T, T)   the last block alone
        for keys, said in ((inside, f"no mask inside blocks of {n}"), (last, f"the last block of {n} keys alone")):
            out = lesson.merge(lesson.softmax(np.where(keys, s, -np.inf)) @ v)  # (B, T, C)
            known = lean.mistakes(out, QKV, NH)
            assert any(said in text and np.allclose(array, out) for text, (array, _) in known.items()), said
