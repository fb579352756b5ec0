"""What sampling launches in 16 bits: the linear layer for a few rows, and attention with a cache; against float64."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import get_backend, reference
from llmc.kernels.mixed import layernorm, matvec
from llmc.kernels.mixed.matvec import Way
from llmc.precision import bfloat16, find_precision
from llmc.tests.kernels.mixed import GAP, agree, backend, call, draw, nans


@pytest.fixture
def checked(monkeypatch):
    """On the emulator every launch is checked: races, bounds, what nothing has written."""
    monkeypatch.setenv("LLMC_CHECK", "1")


def close(got, wanted) -> bool:
    """Whether each number is rounded to one of its neighbours, but for what float32 loses in a sum."""
    exact = cuda.asnumpy(got).astype(np.float64)
    allowed = 0.51 * GAP[got.dtype.name] * np.abs(wanted) + 1e-6 * np.abs(wanted).max()
    return np.isfinite(exact).all() and (np.abs(exact - wanted) <= allowed).all()


WAYS = [  # M, N, K, and how: every number of warps, columns and shares, with rests of all kinds
    *[(1, 1, 8, None), (1, 37, 264, Way(8, 2, 1)), (2, 9, 1032, Way(4, 3, 2)), (5, 70, 72, Way(1, 4, 1))],
    *[(8, 33, 2056, Way(8, 1, 8)), (8, 19, 1160, None)],
]


@pytest.mark.parametrize("M, N, K, how", WAYS)
def test_a_few_rows(checked, M, N, K, how):
    low = bfloat16()
    x, w, b = draw(M, K, dtype=low), draw(N, K, seed=1, dtype=low), draw(N, seed=2, dtype=low)
    product = x.astype(np.float64) @ w.astype(np.float64).T
    there = [cuda.asarray(each) for each in (x, w, b)]
    for bias in (True, False):
        out, gelu_out = (cuda.asarray(nans(M, N, dtype=low)) for _ in range(2))
        matvec.matvec(out, *there[:2], there[2] if bias else None, how=how)
        wanted = product + b.astype(np.float64) * bias
        assert close(out, wanted)
        again = cuda.asarray(nans(M, N, dtype=low))
        matvec.matvec(again, *there[:2], there[2] if bias else None, gelu_out, how=how)
        assert (cuda.asnumpy(again) == cuda.asnumpy(out)).all()
        gelu = np.zeros((M, N))
        reference.gelu_forward(gelu, cuda.asnumpy(out).astype(np.float64))
        assert close(gelu_out, gelu)


def test_the_bits_of_a_row_are_its_own(low):
    """Whatever rows are multiplied with it."""
    x, w = draw(8, 264, dtype=low), cuda.asarray(draw(19, 264, seed=1, dtype=low))
    found = {}
    for M in (1, 3, 8):
        found[M] = cuda.asarray(nans(M, 19, dtype=low))
        matvec.matvec(found[M], cuda.asarray(x[:M].copy()), w)
    assert all((cuda.asnumpy(found[M])[0] == cuda.asnumpy(found[8])[0]).all() for M in (1, 3))


@pytest.mark.parametrize("N, K", [(2304, 768), (768, 768), (768, 3072), (50304, 768), (6400, 1600), (1600, 6400)])
def test_ways_of_gpt2(N, K):
    how = matvec.way(N, K)
    assert how.WARPS % how.SHARE == 0 and how.WARPS // how.SHARE * how.COLUMNS * matvec.MOST <= 32 * how.WARPS
    assert K <= matvec.AHEAD * how.SHARE  # a single round of loads


def test_which_layers_take_it(low, monkeypatch):
    counted = []
    launch = matvec.matvec
    monkeypatch.setattr(matvec, "matvec", lambda *a, **named: (counted.append(len(a)), launch(*a, **named)))
    w, b, out, x = draw(24, 40, dtype=low), draw(24, dtype=low), nans(2, 2, 24, dtype=low), draw(2, 2, 40, dtype=low)
    agree("matmul_forward", out, x, w, b)
    agree("matmul_gelu_forward", out, out.copy(), x, w, b)
    both = [call(getattr(backend, f"matmul_gelu_forward{how}"), out, out.copy(), x, w, b) for how in ("", "_once")]
    assert all((one == other).all() for one, other in zip(*both, strict=True))
    assert len(counted) == 4
    agree("matmul_forward", nans(1, 5, 24, dtype=low), draw(1, 5, 40, dtype=low), w, b)  # too many rows
    agree("matmul_forward", out, draw(2, 2, 39, dtype=low), draw(24, 39, dtype=low), b)  # of odd length
    backend.choose("cublas")
    try:
        agree("matmul_forward", out, x, w, b)
    finally:
        backend.choose()
    assert len(counted) == 4


@pytest.mark.parametrize("N, C", [(1, 8), (2, 264), (3, 768), (8, 1792)])
def test_layernorm_of_a_few_rows(checked, low, stream, N, C):
    """The bits of the launch for many rows."""
    x1, x2 = cuda.asarray(draw(N, 1, C, centre=3.0, dtype=stream)), cuda.asarray(draw(N, 1, C, seed=1, dtype=low))
    w, b = (cuda.asarray(draw(C, seed=seed, dtype=low)) for seed in (2, 3))
    found = []
    for FEW in (8, 0):
        mean, rstd = (cuda.asarray(nans(N, 1)) for _ in range(2))
        results = *(cuda.asarray(nans(N, 1, C, dtype=dtype)) for dtype in (stream, low)), mean, rstd
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(layernorm, "FEW_ROWS", FEW)
            layernorm.residual_layernorm_forward(*results, x1, x2, w, b)
        found.append([cuda.asnumpy(each) for each in results])
    assert all((one == other).all() and np.isfinite(one.astype(np.float32)).all() for one, other in zip(*found))


@pytest.mark.parametrize("precision, C", [("fp32", 7), ("fp32", 132), ("bf16", 264)])
def test_the_encoder_of_one_position(checked, precision, C):
    """The bits of that for whole sequences."""
    low, be = find_precision(precision).weights, get_backend("cuda", find_precision(precision))
    ids, start = np.int32([2, 0, 4]), 3
    wte, wpe = cuda.asarray(draw(5, C, dtype=low)), cuda.asarray(draw(9, C, seed=1, dtype=low))
    out, wanted = (cuda.asarray(nans(3, 1, C)) for _ in range(2))
    be.encoder_forward_at(out, cuda.asarray(ids), wte, wpe, cuda.asarray(np.int32([start])))
    be.encoder_forward(wanted, cuda.asarray(ids[:, None]), wte, wpe[start:])
    assert (cuda.asnumpy(out) == cuda.asnumpy(wanted)).all()


@pytest.mark.parametrize("hs, T", [(8, 1), (64, 2), (64, 200), (256, 70), (80, 130)])
def test_attention_of_one_position(checked, hs, T):
    """Against float64, where a block's groups have several keys each, or none; what is not in the cache yet is NaN."""
    low, NH, B = bfloat16(), 2, 2
    qkv = draw(B, T, 3, NH, hs, dtype=low)
    q, k, v = (qkv[:, :, part].astype(np.float64).swapaxes(1, 2) for part in range(3))  # (B, NH, T, hs)
    p = np.exp(q[:, :, -1:] @ k.swapaxes(-1, -2) * hs**-0.5)  # (B, NH, 1, T)
    wanted = (p @ v / p.sum(axis=-1, keepdims=True)).reshape(B, 1, NH * hs)
    cache = nans(2, B, NH, T + 3, hs, dtype=low)
    cache[:, :, :, : T - 1] = qkv[:, :-1, 1:].transpose(2, 0, 3, 1, 4)
    kept, out = cuda.asarray(cache), cuda.asarray(nans(B, 1, NH * hs, dtype=low))
    newest = cuda.asarray(np.ascontiguousarray(qkv[:, -1:].reshape(B, 1, 3 * NH * hs)))
    backend.attention_cached(out, kept, newest, NH, cuda.asarray(np.int32([T - 1])))
    assert close(out, wanted)
    cache[:, :, :, T - 1] = qkv[:, -1, 1:].transpose(1, 0, 2, 3)
    assert (cuda.asnumpy(kept).view(np.uint16) == cache.view(np.uint16)).all()
