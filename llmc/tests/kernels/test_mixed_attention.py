"""Attention in 16 bits on tensor cores, version 2, on the GPU if there is one, else on the emulator's imitation.

Version 1 is held to the last place in test_mixed.py. Version 2 rounds factors that are not inputs, probabilities and
their gradients, before tensor cores multiply them; PyTorch and cuDNN do so, too. A rounding is off by half a gap at
most, and by much less on the average: rounding the exact results alone costs 0.2 of a gap in Euclidean length, which
version 1 makes 0.23, and version 2 0.32. Allowed are 0.5, and for a single number a gap of the largest.
"""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import get_backend, mixed, reference
from llmc.errors import UserError
from llmc.kernels import tensor_cores
from llmc.kernels.mixed import attention, attention_hopper
from llmc.precision import bfloat16, find_precision

if not tensor_cores.has_tf32(cuda.device()):
    pytest.skip("needs a GPU with tensor cores for both types, or the emulator", allow_module_level=True)

GAP = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # from 1 to the next number
on_gpu = cuda.device() == "gpu"


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """On the emulator a launch that does anything wrong raises."""
    if cuda.device() == "emulator":
        monkeypatch.setenv("LLMC_CHECK", "1")


def draw(*shape, dtype, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def nans(*shape, dtype=np.float32):
    """An array that must be written and may not be read."""
    return cuda.asarray(np.full(shape, np.nan, dtype))


def run(qkv, dout, NH, version, by="own"):
    """(out, stats, dqkv) on the host."""
    B, T, C = dout.shape
    qkv, dout = cuda.asarray(qkv), cuda.asarray(dout)
    out, stats, dqkv = nans(B, T, C, dtype=qkv.dtype), nans(B, NH, T), nans(B, T, 3 * C, dtype=qkv.dtype)
    attention.attention_forward(out, stats, qkv, NH, version, by)
    attention.attention_backward(dqkv, dout, out, stats, qkv, NH, version, by)
    return cuda.asnumpy(out), cuda.asnumpy(stats), cuda.asnumpy(dqkv)


def expected(qkv, dout, NH):
    """The same in float64."""
    B, T, C = dout.shape
    qkv, dout = qkv.astype(np.float64), dout.astype(np.float64)
    out, p, dqkv = np.empty((B, T, C)), np.empty((B, NH, T, T)), np.empty((B, T, 3 * C))
    reference.attention_forward(out, p, qkv, NH)
    reference.attention_backward(dqkv, dout, out, p, qkv, NH)
    q, k, _ = qkv.reshape(B, T, 3, NH, C // NH).transpose(2, 0, 3, 1, 4)  # (B, NH, T, hs) each
    scores = q @ k.swapaxes(-1, -2) * (C // NH) ** -0.5  # (B, NH, T, T)
    scores[..., np.triu(np.ones((T, T), bool), 1)] = -np.inf
    return out, np.logaddexp.reduce(scores, axis=-1), dqkv


def close(got, wanted):
    """To half a gap in length, and in every number to a gap of the largest; nothing is NaN."""
    gap, off = GAP[got.dtype.name], got.astype(np.float64) - wanted.astype(np.float64)
    assert np.linalg.norm(off) <= gap / 2 * np.linalg.norm(wanted.astype(np.float64))
    assert np.abs(off).max() <= gap * np.abs(wanted.astype(np.float64)).max()


HOPPER_SIZES = [
    (2, 31, 3, 32, (128, 3, 2, 1, 4)),
    (1, 300, 2, 64, ()),
    (1, 400, 1, 64, (64, 3, 3, 0)),
    (1, 131, 1, 128, (64, 2)),
]
SIZES = [(1, 1, 1, 8), (2, 31, 3, 32), (1, 131, 1, 40), (1, 200, 2, 64), (1, 70, 1, 128)]  # B, T, NH, hs


@pytest.mark.parametrize("B, T, NH, hs", SIZES)
def test_near_float64_and_the_numpy_backend(low, B, T, NH, hs):
    C = NH * hs
    qkv, dout = draw(B, T, 3 * C, dtype=low), draw(B, T, C, seed=1, dtype=low)
    out, stats, dqkv = run(qkv, dout, NH, 2)
    exact = expected(qkv, dout, NH)
    close(out, exact[0]), close(dqkv, exact[2])
    assert np.abs(stats - exact[1]).max() <= 1e-5 * max(1, np.abs(exact[1]).max())  # of sums that are not rounded
    referee, p = mixed.Mixed(reference), np.empty((B, NH, T, T), np.float32)
    theirs, gradient = np.empty_like(out), np.empty_like(dqkv)
    referee.attention_forward(theirs, p, qkv, NH)
    referee.attention_backward(gradient, dout, theirs, p, qkv, NH)
    close(out, theirs), close(dqkv, gradient)


@pytest.mark.parametrize("B, T, NH, hs, tile", HOPPER_SIZES)
def test_hoppers_forward_pass(B, T, NH, hs, tile):
    qkv = draw(B, T, 3 * NH * hs, dtype=bfloat16())
    out, stats = nans(B, T, NH * hs, dtype=qkv.dtype), nans(B, NH, T)
    there = cuda.asarray(qkv)
    if not attention_hopper.fits(out, there, NH):
        pytest.skip("needs a Hopper GPU, or the emulator")
    attention_hopper.attention_forward(out, stats, there, NH, attention_hopper.Tile(*tile))
    exact = expected(qkv, draw(B, T, NH * hs, dtype=qkv.dtype), NH)
    close(cuda.asnumpy(out), exact[0])
    assert np.abs(cuda.asnumpy(stats) - exact[1]).max() <= 1e-5 * max(1, np.abs(exact[1]).max())


@pytest.mark.parametrize("B, T, NH, hs", [(2, 31, 3, 32), (1, 300, 2, 64), (1, 129, 1, 64)])
def test_hoppers_backward_pass(B, T, NH, hs):
    qkv, dout = draw(B, T, 3 * NH * hs, dtype=bfloat16()), draw(B, T, NH * hs, seed=1, dtype=bfloat16())
    if not attention_hopper.fits(cuda.asarray(dout), cuda.asarray(qkv), NH):
        pytest.skip("needs a Hopper GPU, or the emulator")
    exact = expected(qkv, dout, NH)
    close(run(qkv, dout, NH, 3)[2], exact[2])


def test_equal_runs_give_equal_bits(low):
    qkv, dout = draw(1, 131, 3 * 64, dtype=low), draw(1, 131, 64, seed=1, dtype=low)
    for a, b in zip(run(qkv, dout, 1, 2), run(qkv, dout, 1, 2)):
        assert a.tobytes() == b.tobytes()


def test_huge_scores_and_nan(low):
    qkv, dout = draw(1, 70, 3 * 64, dtype=low) * low.type(100), draw(1, 70, 64, seed=1, dtype=low)
    assert all(np.isfinite(each.astype(np.float32)).all() for each in run(qkv, dout, 1, 2))
    qkv[0, 3, 0] = np.nan
    assert not np.isfinite(run(qkv, dout, 1, 2)[0].astype(np.float32)).all()


# ------------------------------------------------------------------------------------------------------------- cuDNN


@pytest.fixture
def cudnn():
    pytest.importorskip("cudnn", reason="needs the extra [cudnn]")
    if not on_gpu:
        pytest.skip("needs a GPU")


@pytest.mark.parametrize("B, T, NH, hs", SIZES[1:])
def test_cudnn_is_as_near(low, cudnn, B, T, NH, hs):
    qkv, dout = draw(B, T, 3 * NH * hs, dtype=low), draw(B, T, NH * hs, seed=1, dtype=low)
    out, stats, dqkv = run(qkv, dout, NH, None, "cudnn")
    exact = expected(qkv, dout, NH)
    close(out, exact[0]), close(dqkv, exact[2])
    assert np.abs(stats - exact[1]).max() <= 1e-5 * max(1, np.abs(exact[1]).max())


@pytest.mark.parametrize("T, hs", [(5, 20), (1, 8)])
def test_cudnn_refuses_in_one_sentence(low, cudnn, T, hs):
    with pytest.raises(UserError, match=f"T={T} tokens with heads of {hs} numbers on this GPU .*; use --attention own"):
        run(draw(1, T, 3 * hs, dtype=low), draw(1, T, hs, dtype=low), 1, None, "cudnn")


@pytest.mark.skipif(on_gpu, reason="there is a GPU")
def test_cudnn_needs_a_gpu():
    with pytest.raises(UserError, match="needs a GPU; use --attention own"):
        get_backend("cuda", find_precision("bf16")).choose(attention="cudnn")


@pytest.mark.parametrize("backend, precision", [("cuda", "fp32"), ("cpu", "bf16"), ("numpy", "fp16")])
def test_cudnn_is_for_16_bits_on_a_gpu(backend, precision):
    with pytest.raises(UserError, match="for --backend cuda with --precision bf16 or fp16"):
        get_backend(backend, find_precision(precision)).choose(attention="cudnn")
    get_backend(backend, find_precision(precision)).choose(attention="own")
    with pytest.raises(UserError, match="attention is own or cudnn, not 'flash'"):
        get_backend(backend, find_precision(precision)).choose(attention="flash")


# ------------------------------------------------------------------------------------------------ which version runs


@pytest.mark.parametrize(
    "capability, hs, asked, version",
    [
        (90, 64, None, 2),
        (80, 128, None, 2),
        (75, 64, None, 1),  # multiplies float16 only
        (0, 64, None, 1),  # the emulator
        (90, 64, 1, 1),
        (90, 136, None, 1),
        (90, 20, None, 1),  # rows that do not consist of 128-bit words
    ],
)
def test_which_version_runs(capability, hs, asked, version, low, monkeypatch):
    monkeypatch.setattr(tensor_cores, "compute_capability", lambda kind: capability)
    found, arrays = [], [np.zeros((1, 5, n * hs), low) for n in (1, 3)]
    monkeypatch.setattr(attention, "_launch", lambda name, *_: found.append(name))
    monkeypatch.setattr(attention, "_hoppers", lambda version: False)  # whatever the machine has
    attention.attention_forward(arrays[0], None, arrays[1], 1, asked)
    assert found == [f"attention_forward_v{version}"]


@pytest.mark.parametrize(
    "hs, room, forward, backward",
    [
        (64, 227, 2, 2),  # KB of shared memory: H100
        (64, 99, 2, 2),  # RTX 3090
        (64, 64, 2, 1),
        (128, 163, 2, 2),  # A100
        (128, 99, 2, 1),
        (128, 64, 1, 1),
    ],
)
def test_heads_that_do_not_fit_in_shared_memory_give_way(hs, room, forward, backward, monkeypatch):
    monkeypatch.setattr(attention, "most_shared_memory", lambda kind: room * 1024)
    needed = (attention._forward_bytes,), (attention._query_bytes, attention._key_bytes)
    assert [attention._fitting(2, hs, (), each) for each in needed] == [forward, backward]


def test_arrays_that_are_not_aligned(low):
    qkv, dout = draw(1, 40, 3 * 32, dtype=low), draw(1, 40, 32, seed=1, dtype=low)

    def shifted(array):
        flat = cuda.xp.empty(array.size + 1, low)  # (n + 1,)
        flat[1:] = cuda.asarray(array.ravel())  # (n,)
        return flat[1:].reshape(array.shape)

    out, stats, dqkv = shifted(np.full_like(dout, np.nan)), nans(1, 1, 40), shifted(np.full_like(qkv, np.nan))
    attention.attention_forward(out, stats, shifted(qkv), 1, 2)
    attention.attention_backward(dqkv, shifted(dout), out, stats, shifted(qkv), 1, 2)
    for mine, first in zip((out, stats, dqkv), run(qkv, dout, 1, 1)):
        assert cuda.asnumpy(mine).tobytes() == first.tobytes()


@pytest.mark.skipif(not on_gpu, reason="the emulator takes minutes")
def test_65_536_heads(low, monkeypatch):
    """More heads than a grid may have rows of blocks."""
    monkeypatch.delenv("LLMC_CHECK", raising=False)  # which is the emulator's, too
    qkv, dout = draw(65_539, 1, 3 * 8, dtype=low), draw(65_539, 1, 8, seed=1, dtype=low)
    out, _, dqkv = run(qkv, dout, 1, 2)
    assert np.array_equal(out, qkv[..., 16:]) and np.array_equal(dqkv[..., 16:], dout)  # one key: its value
