"""Lesson 02's references against central differences, and its tokens; they use nothing from llmc.backends."""

import numpy as np
import pytest

from llmc.course import gradient_check
from llmc.course.lessons.embeddings import references as lesson

SHAPES = [(3, 5, 7, 11, 16), (2, 4, 3, 9, 4), (3, 6, 5, 4, 8), (1, 2, 3, 5, 3)]  # B, T, C, V, maxT


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backward_is_the_derivative_of_forward(shape):
    B, T, C, V, maxT = shape
    rng = np.random.default_rng(4)
    tokens = lesson.awkward_tokens(rng, B, T, V)
    dout, wte, wpe = (rng.normal(2, 1.5, each) for each in [(B, T, C), (V, C), (maxT, C)])
    dwte, dwpe = lesson.backward(dout, tokens, V, maxT)
    assert gradient_check(lambda w: lesson.forward(tokens, w, wpe), wte, dwte, dout, report=False) < 1e-8
    assert gradient_check(lambda w: lesson.forward(tokens, wte, w), wpe, dwpe, dout, report=False) < 1e-8
