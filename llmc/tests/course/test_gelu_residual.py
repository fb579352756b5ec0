"""Lesson 04's references against central differences and each other: nothing of llmc.backends is used in them."""

import numpy as np

from llmc.course import gradient_check
from llmc.course.lessons.gelu_residual import gelu, residual

RNG = np.random.default_rng(4)
X, DOUT = RNG.normal(0.5, 1.5, (4, 5, 7)), RNG.normal(1, 1, (4, 5, 7))
W1, W2 = RNG.normal(0, 0.4, (9, 7)), RNG.normal(0, 0.4, (7, 9))


def test_gelu_is_the_tanh_form_and_backward_its_derivative():
    u = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    assert np.allclose(gelu.forward(X), 0.5 * X * (1 + np.tanh(u)), rtol=1e-14, atol=1e-15)
    assert gradient_check(gelu.forward, X, gelu.backward(DOUT, X), DOUT, report=False) < 1e-8
    assert np.array_equal(gelu.forward(np.array([-1e4, 0.0, 1e4])), [0.0, 0.0, 1e4])


def test_dtype_follows_x():
    x = X.astype(np.float32)
    assert gelu.forward(x).dtype == gelu.backward(DOUT, x).dtype == np.float32


def test_block_backward_is_the_derivative():
    dx, dw1, dw2 = residual.block_backward(DOUT, X, W1, W2)
    assert gradient_check(lambda x: residual.block_forward(x, W1, W2), X, dx, DOUT, report=False) < 1e-8
    assert gradient_check(lambda w: residual.block_forward(X, w, W2), W1, dw1, DOUT, report=False) < 1e-8
    assert gradient_check(lambda w: residual.block_forward(X, W1, w), W2, dw2, DOUT, report=False) < 1e-8


def test_stream_backward_is_the_derivative():
    x0, dout, w = X[0], DOUT[0], RNG.normal(0, 0.3, (4, 7, 7))
    d = residual.stream_backward(dout, residual.stream_forward(x0, w)[:-1], w)
    for k in range(5):
        x = residual.stream_forward(x0, w)[k]
        assert gradient_check(lambda x, w=w[k:]: residual.stream_forward(x, w)[-1], x, d[k], dout, report=False) < 1e-8


def test_every_known_mistake_is_wrong_and_unlike_the_others():
    tail = -2 - np.abs(X) % 1
    w = RNG.normal(0, 0.3, (4, 7, 7))
    x = residual.stream_forward(X[0], w)[:-1]
    block = residual.block_backward(DOUT, X, W1, W2)._asdict()
    tables = [
        (gelu.forward(X), gelu.forward_mistakes(X)),
        (gelu.forward(tail), gelu.tail_mistakes(tail)),
        (gelu.backward(DOUT, X), gelu.backward_mistakes(DOUT, X) | gelu.in_place_mistakes(DOUT, X)),
        (gelu.backward(DOUT, X), gelu.held_mistakes(DOUT[::-1], X)),
        (residual.stream_backward(DOUT[0], x, w), residual.stream_mistakes(DOUT[0], x, w)),
        *((block[name], wrong) for name, wrong in residual.block_mistakes(DOUT, X, W1, W2).items()),
    ]
    for right, wrongs in tables:
        arrays = [right, *(array for array, _ in wrongs.values())]
        for i, one in enumerate(arrays):
            assert one.shape == right.shape
            for other in arrays[:i]:
                assert np.abs(one - other).max() > 3e-4 * np.abs(one).max(), [None, *wrongs][i]


def test_loop_mistakes_look_at_where_the_gradients_are_right():
    w = RNG.normal(0, 0.3, (4, 7, 7))
    right = residual.stream_backward(DOUT[0], residual.stream_forward(X[0], w)[:-1], w)
    early, upward, other = right.copy(), right.copy(), right.copy()
    early[0], upward[:-2], other[:2] = 0.0, 7.0, 0.0
    assert ["stops before k = 0" in text for text in residual.loop_mistakes(early, right)] == [True]
    assert ["at d[N - 1] and d[N] only" in text for text in residual.loop_mistakes(upward, right)] == [True]
    assert all(residual.loop_mistakes(d, right) == {} for d in (right, other, 2 * right, right[:-1], None))
