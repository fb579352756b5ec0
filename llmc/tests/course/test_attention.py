"""Lesson 06's references, against each other: nothing of llmc.backends is used in them."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons.attention import references as lesson

RNG = np.random.default_rng(3)
QKV = RNG.normal(1, 1, (2, 5, 3 * 24))


def test_softmax_backward_is_the_derivative_of_softmax():
    scores, dp = RNG.normal(size=(2, 2, 4, 5, 5))
    ds = lesson.softmax_backward(dp, lesson.softmax(scores))
    assert gradient_check(lesson.softmax, scores, ds, dp, report=False) < 1e-8


def test_dtype_follows_the_input():
    qkv = QKV.astype(np.float32)
    arrays = [*lesson.forward(qkv, 4), lesson.scores(qkv[0], qkv[1])]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
