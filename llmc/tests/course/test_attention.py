"""Lesson 06's reference: nothing of llmc.backends is used in it."""

import numpy as np

from llmc.course.lessons.attention import references as lesson


def test_dtype_follows_the_input():
    qkv = np.random.default_rng(3).normal(1, 1, (2, 5, 3 * 24)).astype(np.float32)
    arrays = [*lesson.forward(qkv, 4), lesson.scores(qkv[0], qkv[1])]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
