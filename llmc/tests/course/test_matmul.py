"""Lesson 03's references against central differences, its counts against counted ones, and what finds BLAS."""

import functools
import importlib

import numpy as np
import pytest
from numba import njit
from scipy.linalg.blas import sgemm

from llmc.course import gradient_check
from llmc.course.lessons.matmul import exercises
from llmc.course.lessons.matmul.blas import blas_in
from llmc.course.mutation.program import solution_of


def test_backward_is_the_derivative_of_forward():
    rng = np.random.default_rng(4)
    x, w, b, dout = (rng.normal(2, 1.5, size) for size in [(4, 5, 7), (3, 7), (3,), (4, 5, 3)])
    dx, dw, db = exercises.backward(dout, x, w)
    assert gradient_check(lambda x: exercises.forward(x, w, b), x, dx, dout, report=False) < 1e-8
    assert gradient_check(lambda w: exercises.forward(x, w, b), w, dw, dout, report=False) < 1e-8
    assert gradient_check(lambda b: exercises.forward(x, w, b), b, db, dout, report=False) < 1e-8


@pytest.mark.skipif(solution_of("matmul_cost") is None, reason="needs a checkout with the solutions")
def test_our_cost_counts_each_operation_and_each_array_once():
    x, w = np.ones((2, 3, 7)), np.ones((5, 7))
    out = exercises.forward(x, w, None)  # of ones: each entry counts its products
    forward, backward, moved, intensity = solution_of("matmul_cost").function()(2, 3, 7, 5, itemsize=8)
    assert (forward, backward, intensity) == (2 * out.sum(), 2 * forward, forward / moved)
    assert moved == x.nbytes + w.nbytes + out.nbytes


class Rows(list):
    """A learner's own class whose products are sums."""

    def __matmul__(self, w):
        return (np.array(self)[:, None] * w).sum(-1)


kernel, product_in_a_kernel = njit(lambda x, w: (x * w[0]).sum()), njit(lambda x, w: x.dot(w.T))
products = [functools.partial(np.dot)]  # as a learner may rename them


@pytest.mark.parametrize(
    ("product", "name"),
    [
        (lambda x, w: x @ w.T, "@"),
        (lambda x, w: products[0](x, w.T), "dot"),
        (lambda x, w: np.asmatrix(x) * np.asmatrix(w).T, "asmatrix"),
        (lambda x, w: np.einsum("ni,oi->no", x, w, **{"opti" + "mize": True}), "optimize"),
        (lambda x, w: importlib.import_module("scipy.linalg.blas").sgemm(1.0, x, w, trans_b=True), "scipy.linalg.blas"),
        (lambda x, w, multiply=sgemm: multiply(1.0, x, w, trans_b=True), "sgemm"),
        (lambda x, w: product_in_a_kernel(x, w), "dot"),
        *((answer, None) for answer in (lambda x, w: Rows(x) @ w, lambda x, w: kernel(x, w), lambda x, w: 1 / 0)),
    ],
)
def test_blas_is_found_under_any_name(product, name):
    out, x, w, b = (np.ones(size, np.float32) for size in [(68, 70), (68, 66), (70, 66), (70,)])
    found = blas_in(lambda out, x, w, b: np.add(product(x, w), b, out=out), out, x, w, b)
    assert found is None if name is None else name in found
