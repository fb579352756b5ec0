"""Softmax and layernorm kernels: every version against float64 on awkward rows, and without a diagnosis."""

import numpy as np
import pytest

from llmc.backends import reference
from llmc.cuda import asarray, asnumpy, empty
from llmc.kernels import kernel, ladder, layernorm, reductions

COUNTS = {**ladder.VERSIONS, **layernorm.VERSIONS}
EACH = {name: range(1, last + 1) for name, last in COUNTS.items()}
ROWS = 2, 5  # (B, T): ten rows, not a multiple of the eight in a block of warps


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(1, 3, shape).astype(np.float32)


def softmax64(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))  # (…, C)
    return e / e.sum(axis=-1, keepdims=True)


def run_softmax(x, version):
    out = empty(x.shape, np.float32)
    ladder.softmax_forward(out, asarray(x), version=version)
    return asnumpy(out)


def run_layernorm(x, w, b, version):
    out, mean, rstd = empty(x.shape, np.float32), empty(x.shape[:-1], np.float32), empty(x.shape[:-1], np.float32)
    layernorm.layernorm_forward(out, mean, rstd, *map(asarray, (x, w, b)), version=version)
    return [asnumpy(array) for array in (out, mean, rstd)]


def layernorm64(x, w, b):
    out, mean, rstd = np.empty(x.shape), np.empty(x.shape[:-1]), np.empty(x.shape[:-1])
    reference.layernorm_forward(out, mean, rstd, *(array.astype(np.float64) for array in (x, w, b)))
    return out, mean, rstd


@pytest.mark.parametrize("C", [1, 7, 33, 127, 129, 768, 1600])
@pytest.mark.parametrize("version", EACH["softmax_forward"])
def test_softmax(version, C):
    x = random(*ROWS, C)  # (B, T, C)
    x[0, 1] *= 100  # exp overflows without the maximum
    x[1, 2, : C // 2] = -np.inf  # masked
    assert np.allclose(run_softmax(x, version), softmax64(x), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("C", [50257, 50304])
@pytest.mark.parametrize("version", EACH["softmax_forward"])
def test_softmax_of_a_vocabulary(version, C):
    x = random(2, C)  # (N, C)   rows too long to be kept; the second starts where no quad can start
    assert np.allclose(run_softmax(x, version), softmax64(x), rtol=5e-5, atol=1e-9)


@pytest.mark.parametrize("version", EACH["softmax_forward"])
def test_softmax_in_place_and_nan_stays_in_its_row(version):
    x = random(3, 129)  # (N, C)
    x[1, 40] = np.nan
    array = asarray(x.copy())
    ladder.softmax_forward(array, array, version=version)
    out = asnumpy(array)
    assert np.isnan(out[1]).all() and np.allclose(out[::2], softmax64(x[::2]), rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("C", [1, 7, 33, 127, 129, 768, 1600, reductions.KEPT + 4])
@pytest.mark.parametrize("version", EACH["layernorm_forward"])
def test_layernorm(version, C):
    x, w, b = random(*ROWS, C), random(C, seed=1), random(C, seed=2)  # (B, T, C), (C,), (C,)
    for got, expected in zip(run_layernorm(x, w, b, version), layernorm64(x, w, b)):
        assert np.allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("version", EACH["layernorm_forward"])
def test_a_large_mean_does_not_cancel(version):
    x, w, b = random(3, 768) + 3000, np.ones(768, np.float32), np.zeros(768, np.float32)  # (N, C), (C,), (C,)
    for got, expected in zip(run_layernorm(x, w, b, version), layernorm64(x, w, b)):
        assert np.allclose(got, expected, rtol=1e-3, atol=1e-3)  # E[x²] - E[x]² would be off by the whole variance


@pytest.mark.parametrize("C", [1, 7, 129, 768, 1600, reductions.KEPT + 4])
@pytest.mark.parametrize("version", EACH["residual_layernorm_forward"])
def test_residual_layernorm(version, C):
    x1, x2, w, b = random(*ROWS, C), random(*ROWS, C, seed=3), random(C, seed=1), random(C, seed=2)
    residual, out = empty(x1.shape, np.float32), empty(x1.shape, np.float32)  # (B, T, C) each
    mean, rstd = empty(ROWS, np.float32), empty(ROWS, np.float32)  # (B, T) each
    layernorm.residual_layernorm_forward(residual, out, mean, rstd, *map(asarray, (x1, x2, w, b)), version=version)
    assert np.array_equal(asnumpy(residual), x1 + x2)
    for got, expected in zip((out, mean, rstd), layernorm64(x1 + x2, w, b)):
        assert np.allclose(asnumpy(got), expected, rtol=2e-5, atol=2e-5)


def test_rows_at_odd_addresses_are_read_number_by_number():
    flat = asarray(random(3 * 768 + 1))  # rows of 768, starting at the second number
    x, out = flat[1:].reshape(3, 768), empty((3, 768), np.float32)  # (N, C) each
    ladder.softmax_forward(out, x)
    assert np.allclose(asnumpy(out), softmax64(asnumpy(x)), rtol=2e-5, atol=1e-9)
    w, b, mean, rstd = asarray(random(768)), asarray(random(768)), empty(3, np.float32), empty(3, np.float32)
    layernorm.layernorm_forward(out, mean, rstd, x, w, b)
    assert np.allclose(asnumpy(out), layernorm64(*map(asnumpy, (x, w, b)))[0], rtol=2e-5, atol=2e-5)


class Watched:
    """Replaces `kernel(layer, name, defines)`, so that what the wrapper launches goes through `inspect`."""

    def __init__(self, which, seen):
        self.launch, self.seen = kernel(*which), seen

    def __call__(self, grid, block, args, shared_mem=0):
        from llmc.cuda import inspect

        self.seen.append(inspect(self.launch, grid, block, args, shared_mem=shared_mem, outputs=("out",)))


LADDER = [(name, version) for name in EACH for version in EACH[name]]


@pytest.mark.parametrize(("name", "version"), LADDER, ids=[f"{name}_v{version}" for name, version in LADDER])
def test_no_kernel_has_a_problem(name, version, monkeypatch):
    seen = []
    for layer in (ladder, layernorm):
        monkeypatch.setattr(layer, "kernel", lambda *which: Watched(which, seen))
    for C in (7, 127, 768):
        x, out = random(9, C), np.empty((9, C), np.float32)  # (N, C) each
        rows, weights = [np.empty(9, np.float32) for _ in range(2)], [random(C), random(C)]  # (N,), (C,) each
        if name in ladder.VERSIONS:
            ladder.softmax_forward(out, x, version=version)
        elif name == "layernorm_forward":
            layernorm.layernorm_forward(out, *rows, x, *weights, version=version)
        else:
            layernorm.residual_layernorm_forward(x.copy(), out, *rows, x, x.copy(), *weights, version=version)
    assert len(seen) == 3
    for report in seen:
        assert report.ok and not report.bank_conflicts, str(report)
