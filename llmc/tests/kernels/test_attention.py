"""Every version of the attention kernels against NumPy in float64, on the GPU if there is one, else on the emulator.

Versions that multiply in TF32 may be wrong by as much as PyTorch with TF32 is, 1e-3.
"""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import reference
from llmc.errors import KernelError, UserError
from llmc.kernels import attention, attention_cached, tensor_cores

on_gpu = cuda.device() == "gpu"
EXACT, TF32 = 1e-5, 2e-3  # of the largest element
FORWARD, BACKWARD = range(1, 8), range(1, 6)


def draw(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def nans(*shape):
    """An array that must be written and may not be read."""
    return cuda.asarray(np.full(shape, np.nan, np.float32))


def expected(qkv, dout, NH):
    """(out, stats, dqkv) in float64; stats is the logarithm of the sum of exponentials."""
    B, T, C = dout.shape
    qkv, dout = qkv.astype(np.float64), dout.astype(np.float64)
    out, p, dqkv = np.empty((B, T, C)), np.empty((B, NH, T, T)), np.empty((B, T, 3 * C))
    reference.attention_forward(out, p, qkv, NH)
    reference.attention_backward(dqkv, dout, out, p, qkv, NH)
    q, k, _ = qkv.reshape(B, T, 3, NH, C // NH).transpose(2, 0, 3, 1, 4)  # (B, NH, T, hs) each
    scores = q @ k.swapaxes(-1, -2) * (C // NH) ** -0.5  # (B, NH, T, T)
    scores[..., np.triu(np.ones((T, T), bool), 1)] = -np.inf
    return out, np.logaddexp.reduce(scores, axis=-1), dqkv


def forward(qkv, NH, version=None):
    """(out, stats) where kernels run."""
    B, T, C3 = qkv.shape
    out, stats = nans(B, T, C3 // 3), nans(B, NH, T)
    attention.attention_forward(out, stats, qkv, NH, version=version)
    return out, stats


def backward(qkv, dout, NH, version=None):
    """dqkv on the host, from a forward pass of the version that the engine takes."""
    qkv, dout = cuda.asarray(qkv), cuda.asarray(dout)
    out, stats = forward(qkv, NH)
    dqkv = nans(*qkv.shape)
    attention.attention_backward(dqkv, dout, out, stats, qkv, NH, version)
    return cuda.asnumpy(dqkv)


def close(got, wanted, tolerance=EXACT):
    """Equal to `tolerance` of the largest element; nothing is NaN."""
    assert np.abs(cuda.asnumpy(got) - wanted).max() <= tolerance * np.abs(wanted).max()


SHAPES = [(1, 1), (2, 31), (1, 130)]  # (B, T): one query, less than a tile, tiles that are not full


@pytest.mark.parametrize("hs", [7, 32, 48, 64])
@pytest.mark.parametrize("B, T", SHAPES)
def test_every_version(B, T, hs):
    NH = 2
    qkv, dout = draw(B, T, 3 * NH * hs), draw(B, T, NH * hs, seed=1)
    out, stats, dqkv = expected(qkv, dout, NH)
    for version in FORWARD:
        mine, logsum = forward(cuda.asarray(qkv), NH, version)
        close(mine, out, TF32 if version == 7 else EXACT)
        close(logsum, stats, TF32 if version == 7 else EXACT)
    for version in BACKWARD:
        close(backward(qkv, dout, NH, version), dqkv, TF32 if version == 5 else EXACT)


@pytest.mark.parametrize("hs", [80, 128, 160])
def test_large_heads_take_the_versions_that_hold_them(hs):
    qkv, dout = draw(1, 67, 3 * hs), draw(1, 67, hs, seed=1)
    out, stats, dqkv = expected(qkv, dout, 1)
    for version in (None, 3, 4):
        mine, logsum = forward(cuda.asarray(qkv), 1, version)
        close(mine, out), close(logsum, stats)
    close(backward(qkv, dout, 1), dqkv)
    close(backward(qkv, dout, 1, 2), dqkv)


def test_arrays_that_are_not_aligned():
    qkv, dout = draw(1, 70, 3 * 64), draw(1, 70, 64, seed=1)
    out, _, dqkv = expected(qkv, dout, 1)

    def shifted(array):
        flat = cuda.xp.empty(array.size + 1, np.float32)  # (n + 1,)
        flat[1:] = cuda.asarray(array.ravel())  # (n,)
        return flat[1:].reshape(array.shape)

    there = shifted(qkv)
    mine, stats = shifted(np.full_like(dout, np.nan)), nans(1, 1, 70)
    attention.attention_forward(mine, stats, there, 1)
    close(mine, out)
    gradient = shifted(np.full_like(qkv, np.nan))
    attention.attention_backward(gradient, shifted(dout), mine, stats, there, 1)
    close(gradient, dqkv)


@pytest.mark.parametrize("version", FORWARD)
def test_huge_scores_and_nan(version):
    qkv = 1e3 * draw(1, 70, 3 * 64)
    for poison in (0.0, np.nan):
        qkv[0, 3, 0] += poison
        out = cuda.asnumpy(forward(cuda.asarray(qkv), 1, version)[0])
        assert np.isfinite(out).all() == (poison == 0.0)


def test_equal_runs_give_equal_bits():
    qkv, dout = draw(2, 150, 3 * 128), draw(2, 150, 128, seed=1)
    for version in BACKWARD:
        np.testing.assert_array_equal(*(backward(qkv, dout, 2, version) for _ in range(2)))


@pytest.mark.skipif(not on_gpu, reason="the emulator takes minutes")
def test_long_sums_stay_accurate():
    """Values with a mean add up; what tensor cores cut from each addition must not."""
    qkv, dout = draw(1, 3001, 3 * 64) + 1, draw(1, 3001, 64, seed=1) + 1
    out, stats, dqkv = expected(qkv, dout, 1)
    mine, logsum = forward(cuda.asarray(qkv), 1)
    close(mine, out), close(logsum, stats)
    close(backward(qkv, dout, 1), dqkv)


# ------------------------------------------------------------------------------------------------ which version runs


def test_which_version_takes_tensor_cores(monkeypatch):
    monkeypatch.setattr(tensor_cores, "available", lambda kind: kind == "gpu")
    which = [[tensor_cores.newest(5, (6, 7), kind, tf32) for kind in ("emulator", "gpu")] for tf32 in (False, True)]
    assert which == [[5, 6], [7, 7]]


@pytest.mark.parametrize(
    "hs, room, forward, backward",
    [
        (64, 227, [4, 5, 6, 7], [2, 3, 4, 5]),  # KB of shared memory: H100
        (64, 99, [4, 5, 6, 7], [2, 2, 4, 4]),  # RTX 3090
        (64, 64, [4, 4, 4, 4], [2, 2, 2, 2]),  # T4
        (80, 227, [4, 4, 4, 4], [2, 2, 2, 2]),
        (128, 99, [4, 4, 4, 4], [1, 1, 1, 1]),
        (160, 227, [3, 3, 3, 3], [1, 1, 1, 1]),
    ],
)
def test_a_version_that_does_not_fit_gives_way(hs, room, forward, backward, monkeypatch):
    monkeypatch.setattr(attention, "most_shared_memory", lambda kind: room * 1024)
    monkeypatch.setattr(tensor_cores, "available", lambda kind: True)
    for shared, flash, expected in ((attention._SHARED, 5, forward), (attention._SHARED_BACK, 3, backward)):
        versions = range(flash - 1, flash + 3)
        assert [attention._fitting(v, flash, hs, (), shared) for v in versions] == expected


# -------------------------------------------------------------------------------------------------------- how much fits


@pytest.mark.parametrize("version", [3, 4, 5] if on_gpu else [3])  # the others would take the emulator a minute each
def test_65_536_heads(version):
    """More heads than a grid may have rows of blocks."""
    heads = 65_536 + 3
    there, dout = cuda.asarray(draw(heads, 1, 3)), cuda.asarray(draw(heads, 1, 1, seed=1))
    qkv = cuda.asnumpy(there)
    out, stats = forward(there, 1, version)
    assert np.array_equal(cuda.asnumpy(out), qkv[..., 2:])  # one key: its value
    close(stats, qkv[..., :1] * qkv[..., 1:2])
    gradient = nans(heads, 1, 3)
    attention.attention_backward(gradient, dout, out, stats, there, 1, version - 2)
    assert np.array_equal(cuda.asnumpy(gradient)[..., 2:], cuda.asnumpy(dout))


@pytest.mark.parametrize("version", [1, 2, 3] if on_gpu else [1])
def test_65_536_heads_with_a_cache(version):
    heads = 65_536 + 3
    qkv = draw(heads, 1, 3)
    out, cache = nans(heads, 1, 1), nans(2, heads, 1, 2, 1)
    attention_cached.attention_cached(out, cache, cuda.asarray(qkv), 1, 0, version=version)
    assert np.array_equal(cuda.asnumpy(out), qkv[..., 2:])
    assert np.array_equal(cuda.asnumpy(cache)[1, :, :, 0], qkv[..., 2:])


def huge(*shape):
    """An array of that shape that takes no memory."""
    return np.broadcast_to(np.float32(0), shape)


def test_what_does_not_fit_is_refused_in_one_sentence():
    B, T = 2**20, 2**11
    arrays = huge(B, T, 4), huge(B, 1, T), huge(B, T, 12)
    with pytest.raises(UserError, match=r"at most 2,147,483,647 queries, B·NH·T, not 2,147,483,648; use a smaller"):
        attention.attention_forward(*arrays, 1)
    with pytest.raises(UserError, match="use a smaller batch"):
        attention.attention_backward(huge(B, T, 12), huge(B, T, 4), *arrays, 1)
    with pytest.raises(UserError, match="use a smaller batch"):
        attention_cached.attention_cached(huge(B, T, 4), huge(2, B, 1, T, 4), huge(B, T, 12), 1, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_too_many_probabilities_are_refused_in_one_sentence(version):
    T = 46_341  # whose square is the first above 2^31
    with pytest.raises(UserError, match=r"keep B·NH·T² = 2,147,488,281 probabilities.*use a later version"):
        attention.attention_forward(huge(1, T, 4), huge(1, 1, T), huge(1, T, 12), 1, version=version)


# ------------------------------------------------------------------------------------------------------- with a cache


@pytest.mark.parametrize("hs", [7, 16, 64])
@pytest.mark.parametrize("sizes", [[9], [1] * 9, [4, 1, 3, 1], [70, 1, 3, 1], [63, 1, 1]], ids=str)
def test_attention_with_a_cache_is_attention(sizes, hs):
    B, T, NH = 2, sum(sizes), 2
    C = NH * hs
    qkv = draw(B, T, 3 * C)
    out = expected(qkv, draw(B, T, C), NH)[0]
    for version in (1, 2, 3):
        cache, start = nans(2, B, NH, T + 2, hs), 0
        for n in sizes:
            piece, mine = cuda.asarray(np.ascontiguousarray(qkv[:, start : start + n])), nans(B, n, C)
            attention_cached.attention_cached(mine, cache, piece, NH, start, version=version)
            close(mine, out[:, start : start + n])
            start += n
        kept = qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4)[1:]  # (2, B, NH, T, hs)
        assert np.array_equal(cuda.asnumpy(cache)[:, :, :, :T], kept)
        assert np.isnan(cuda.asnumpy(cache)[:, :, :, T:]).all()


def cached_case(B, NH, T):
    """(cache with T - 1 positions, qkv of the last one, what attention to all of them gives); hs = 1."""
    qkv = draw(B, T, 3 * NH)
    kept = np.full((2, B, NH, T, 1), np.nan, np.float32)
    kept[:, :, :, :-1] = qkv.reshape(B, T, 3, NH, 1).transpose(2, 0, 3, 1, 4)[1:, :, :, :-1]
    return cuda.asarray(kept), cuda.asarray(np.ascontiguousarray(qkv[:, -1:])), expected(qkv, draw(B, T, NH), NH)[0]


def test_with_many_queries_a_block_has_more_keys(monkeypatch):
    monkeypatch.setattr(attention_cached, "BLOCKS", 12)
    cache, newest, out = cached_case(B=2, NH=3, T=200)  # six queries: two splits of 128 keys in place of four of 64
    for _ in range(2):  # the counters are back at zero after the first launch
        mine = nans(2, 1, 3)
        attention_cached.attention_cached(mine, cache, newest, 3, 199, version=3)
        close(mine, out[:, -1:])


@pytest.mark.skipif(on_gpu, reason="only the emulator stops a launch halfway")
def test_a_launch_that_was_stopped_leaves_no_counts_behind(monkeypatch):
    cache, newest, out = cached_case(B=1, NH=2, T=130)
    mine, short = nans(1, 1, 2), nans(2, 1, 2, 70, 1)  # positions 70 and later are not there
    monkeypatch.setenv("LLMC_CHECK", "1")
    with pytest.raises(KernelError, match="out of bounds"):
        attention_cached.attention_cached(mine, short, newest, 2, 129, version=3)
    attention_cached.attention_cached(mine, cache, newest, 2, 129, version=3)
    close(mine, out[:, -1:])
