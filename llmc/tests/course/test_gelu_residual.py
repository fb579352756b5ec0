"""Lesson 04's GELU and our gradients against central differences; where a rule says nothing."""

import numpy as np

from llmc.course import check, gradient_check
from llmc.course.checks.check import Tried
from llmc.course.lessons.gelu_residual import exercises, gelu
from llmc.course.mutation.program import solution_of

RNG = np.random.default_rng(4)
X, DOUT = RNG.normal(0.5, 1.5, (4, 5, 7)), RNG.normal(1, 1, (4, 5, 7))
W1, W2 = RNG.normal(0, 0.4, (9, 7)), RNG.normal(0, 0.4, (7, 9))


def test_gelu_is_the_tanh_form_and_backward_its_derivative():
    u = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    assert np.allclose(gelu.forward(X), 0.5 * X * (1 + np.tanh(u)), rtol=1e-14, atol=1e-15)
    assert gradient_check(gelu.forward, X, gelu.backward(DOUT, X), DOUT, report=False) < 1e-8
    assert np.array_equal(gelu.forward(np.array([-1e4, 0.0, 1e4])), [0.0, 0.0, 1e4])


def test_our_residual_block_backward_is_the_derivative():
    dx, dw1, dw2 = (np.zeros(array.shape) for array in (X, W1, W2))
    solution_of("residual_block_backward").function()(dx, dw1, dw2, DOUT, X, W1, W2)
    assert gradient_check(lambda x: exercises.block_forward(x, W1, W2), X, dx, DOUT, report=False) < 1e-8
    assert gradient_check(lambda w: exercises.block_forward(X, w, W2), W1, dw1, DOUT, report=False) < 1e-8
    assert gradient_check(lambda w: exercises.block_forward(X, W1, w), W2, dw2, DOUT, report=False) < 1e-8


def test_our_stream_backward_is_the_derivative():
    x0, dout, w = X[0], DOUT[0], RNG.normal(0, 0.3, (4, 7, 7))
    stream = exercises.stream_forward(x0, w)
    d = solution_of("residual_stream_backward").function()(dout, stream[:-1], w)
    for k, x in enumerate(stream):
        assert gradient_check(lambda x, w=w[k:]: exercises.stream_forward(x, w)[-1], x, d[k], dout, report=False) < 1e-8


def test_right_near_0_is_said_only_of_what_is_wrong_farther_out():
    x = np.linspace(-9, 9, 181)
    right, c = gelu.forward(x), check("gelu_forward")
    told, *nothing = (
        exercises.right_near_0(Tried(c, None, {"x": x}, {"out": got}, {"out": right}))
        for got in (np.where(np.abs(x) < 2.05, right, x), right, 2 * right, np.maximum(x, 0), None)
    )
    assert told.startswith("out is right up to |x| = 2, and wrong at x = -2.1:") and not any(nothing)
