"""Our products of 16-bit numbers on tensor cores, every version, against float64."""

import numpy as np
import pytest

from llmc import cuda
from llmc.kernels import cublas
from llmc.kernels.mixed import matmul_own
from llmc.precision import bfloat16
from llmc.tests.kernels.sixteen_bits import GAP

SIZES = [(1, 1, 1), (130, 24, 72), (33, 135, 67)]
PRODUCTS = tuple(cublas.PRODUCTS)


def draw(*shape, dtype, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def product(name, M, N, K, dtype, add=False, bias=None, **how):
    """(what a version of ours computes, the product in float64), both (M, N)."""
    a_runs, b_runs, _ = cublas.PRODUCTS[name]
    a, b = draw(M, K, dtype=dtype), draw(K, N, dtype=dtype, seed=1)
    before = draw(M, N, dtype=dtype, seed=3) if add else np.full((M, N), np.nan, dtype)  # may not be read
    wanted = a.astype(np.float64) @ b.astype(np.float64) + (before.astype(np.float64) if add else 0.0)
    wanted += 0.0 if bias is None else bias.astype(np.float64)
    there = [cuda.asarray(np.ascontiguousarray(each)) for each in (before, a if a_runs else a.T, b.T if b_runs else b)]
    bias = None if bias is None else cuda.asarray(bias)
    matmul_own.multiply(name, *there, M, N, K, add=add, bias=bias, **how)
    return cuda.asnumpy(there[0]).astype(np.float64), wanted


def close(got, wanted, dtype) -> bool:
    """Whether each number is rounded to one of its neighbours, but for what float32 loses in a sum."""
    allowed = 0.51 * GAP[np.dtype(dtype).name] * np.abs(wanted) + 1e-5 * np.abs(wanted).max()
    return np.isfinite(got).all() and (np.abs(got - wanted) <= allowed).all()


WAYS = [("bfloat16", version, name) for version in matmul_own.FILES for name in PRODUCTS]
WAYS += [("float16", version, PRODUCTS[0]) for version in (2, 6)]  # the text is the same but for two instructions


@pytest.mark.parametrize("M, N, K", SIZES)
@pytest.mark.parametrize("dtype, version, name", WAYS)
def test_products(monkeypatch, dtype, version, name, M, N, K):
    monkeypatch.setenv("LLMC_CHECK", "1")
    dtype, add = bfloat16() if dtype == "bfloat16" else np.dtype(dtype), name == "matmul_backward_weight"
    bias = draw(N, dtype=dtype, seed=2) if name == "matmul_forward" else None
    assert close(*product(name, M, N, K, dtype, version=version, add=add, bias=bias), dtype)
