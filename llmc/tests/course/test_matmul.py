"""Lesson 03's references against central differences, and what each known mistake says; llmc.backends is not used."""

import numpy as np
import pytest
from numba import njit
from scipy.linalg.blas import sgemm

from llmc.course import WrongAnswer, gradient_check
from llmc.course.lessons import matmul as lesson

SHAPES = [((4, 3, 6), 6), ((2, 3, 5), 6), ((4, 5, 7), 3), ((2, 3, 7), 3), ((5,), 4)]  # of x; C_out


@pytest.fixture(params=SHAPES, ids=str)
def case(request):
    shape, C_out = request.param
    rng = np.random.default_rng(4)
    return [rng.normal(2, 1.5, s) for s in (shape, (C_out, shape[-1]), (C_out,), (*shape[:-1], C_out))]


def test_backward_is_the_derivative_of_forward(case):
    x, w, b, dout = case
    dx, dw, db = lesson.backward(dout, x, w)
    assert gradient_check(lambda x: lesson.forward(x, w, b), x, dx, dout, report=False) < 1e-8
    assert gradient_check(lambda w: lesson.forward(x, w, b), w, dw, dout, report=False) < 1e-8
    assert gradient_check(lambda b: lesson.forward(x, w, b), b, db, dout, report=False) < 1e-8


def test_every_known_mistake_is_wrong(case):
    x, w, b, dout = case
    right = lesson.backward(dout, x, w)._asdict() | {"out": lesson.forward(x, w, b)}
    for name, wrongs in (lesson.backward_mistakes(dout, x, w) | lesson.forward_mistakes(x, w, b)).items():
        for text, (wrong, _) in wrongs.items():
            assert wrong.shape == right[name].shape, (name, text)
            if x.ndim > 1:  # with a single row, some mistakes give the right result
                assert np.abs(wrong - right[name]).max() > 1e-3, (name, text)


def test_cost_counts_each_operation_and_each_array_once():
    x, w = np.ones((2, 3, 7)), np.ones((5, 7))
    out = lesson.forward(x, w, None)  # of ones: each entry counts its products
    right = lesson.cost(2, 3, 7, 5, itemsize=8)
    assert right.forward_flops == 2 * out.sum() and right.backward_flops == 2 * right.forward_flops
    assert right.forward_bytes == x.nbytes + w.nbytes + out.nbytes
    for name, wrongs in lesson.cost_mistakes(2, 3, 7, 5, itemsize=8).items():
        assert all(wrong != getattr(right, name) for wrong, _ in wrongs.values()), name


def test_gradients_in_another_order():
    expected = lesson.Gradients(np.zeros((2, 3)), np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(WrongAnswer, match=r"returned as dx has the shape of dw, \(4, 3\): return dx, dw, db"):
        lesson.gradients_of((expected.dw, expected.dx, expected.db), expected)


def inner_product(x, w):
    return np.inner(x, w)


product = np.matmul  # as a learner may rename it


def dot(row, other):
    """A learner's own helper with the name of one of BLAS's."""
    return (row * other).sum()


def named_dot(out, x, w, b):
    for n, o in np.ndindex(out.shape):
        out[n, o] = dot(x[n], w[o]) + b[o]


class Rows:
    """A learner's own class whose products are sums."""

    def __init__(self, rows):
        self.rows = rows

    def dot(self, w):
        return (self.rows[:, None] * w).sum(-1)

    def __matmul__(self, w):
        return self.dot(w)


class Hidden:
    def product(self, x, w):
        return np.asarray(x).dot(np.asarray(w).T)


Rows.__module__ = Hidden.__module__ = "__main__"  # as in a notebook


@njit("(float32[:,::1], float32[:,::1], float32[:,::1], float32[::1])")
def with_signature(out, x, w, b):
    for n in range(out.shape[0]):
        for o in range(out.shape[1]):
            out[n, o] = (x[n] * w[o]).sum() + b[o]


@njit
def product_in_a_kernel(out, x, w, b):
    out[:, :] = x.dot(w.T) + b


def by_own_method(out, x, w, b):
    out[...] = Rows(x).dot(w) + b


def by_own_operator(out, x, w, b):
    out[...] = Rows(x) @ w + b


def kernel_and_an_own_dot(out, x, w, b):
    with_signature(out, x, w, b)
    return {"dot": Rows(x).dot(w)}


def in_a_class(out, x, w, b):
    out[...] = Hidden().product(x, w) + b


def only_when_large(out, x, w, b):
    out[...] = (getattr(np, "do" + "t")(x, w.T) if len(x) > 20 else np.einsum("ni,oi->no", x, w)) + b


def without_watched_arrays(out, x, w, b):
    out[...] = x.view(np.ndarray).dot(w.view(np.ndarray).T) + b


def by_a_module(out, x, w, b):
    import importlib

    out[...] = importlib.import_module("scipy.linalg.blas").sgemm(1.0, x, w, trans_b=True) + b


def imported(out, x, w, b):
    import operator

    out[...] = operator.matmul(x, w.T) + b


def test_blas_is_found_in_helpers_and_not_in_plain_loops():
    assert lesson.uses_blas(lambda x, w: x @ w) == "@"
    assert lesson.uses_blas(lambda x, w: inner_product(x, w)) == "inner"
    assert lesson.uses_blas(lambda x, w: sum(x[i] * w[i] for i in range(len(x)))) is None


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda out, x, w, b: np.add(product(x, w.T), b, out=out), "product"),
        (lambda out, x, w, b: np.add(getattr(np, "mat" + "mul")(x, w.T), b, out=out), "matmul"),
        (lambda out, x, w, b: np.add(getattr(np, "".join(("mat", "mul")))(x, w.T), b, out=out), "matmul"),
        (lambda out, x, w, b, multiply=np.dot: np.add(multiply(x, w.T), b, out=out), "dot"),
        (lambda out, x, w, b: np.add(x.dot(w.T), b, out=out), "dot"),
        (lambda out, x, w, b: np.add(np.asmatrix(x) * np.asmatrix(w).T, b, out=out), "asmatrix"),
        (lambda out, x, w, b: np.add(np.einsum("ni,oi->no", x, w, **{"opti" + "mize": True}), b, out=out), "optimize"),
        (imported, "matmul"),
        (product_in_a_kernel, "dot"),
        (in_a_class, "dot"),
        (only_when_large, "dot"),
        (without_watched_arrays, "dot"),
        (by_a_module, "scipy.linalg.blas"),
        (lambda out, x, w, b, multiply=sgemm: np.add(multiply(1.0, x, w, trans_b=True), b, out=out), "sgemm"),
    ],
)
def test_blas_is_found_under_any_name(answer, name):
    assert name in lesson.uses_blas(answer)


@pytest.mark.parametrize(
    "answer",
    [
        named_dot,
        by_own_method,
        by_own_operator,
        with_signature,
        kernel_and_an_own_dot,
        lambda out, x, w, b: np.add(np.einsum("ni,oi->no", x, w), b, out=out),
        lambda out, x, w, b: np.add(np.einsum("ni,oi->no", x, w, optimize=False), b, out=out),
        lambda out, x, w, b: np.add((x[:, None] * w).sum(-1), b, out=out),
        lambda out, x, w, b: 1 / 0,
    ],
)
def test_what_is_not_blas_passes(answer):
    assert lesson.uses_blas(answer) is None
