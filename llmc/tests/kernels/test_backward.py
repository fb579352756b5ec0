"""The backward kernels of lesson 14, the norm and AdamW by settings: against float64 on awkward sizes; their bits."""

import numpy as np
import pytest

from llmc import cuda
from llmc.backends import reference
from llmc.errors import UserError
from llmc.kernels import adamw, bias_backward, encoder, layernorm, norm

TOLERANCE = 1e-5
LAYERNORM = range(1, layernorm.VERSIONS["layernorm_backward"] + 1)
BIAS = range(1, bias_backward.VERSIONS["bias_backward"] + 1)
ENCODER = range(1, encoder.VERSIONS["encoder_backward"] + 1)


def draw(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def close(got, expected):
    """Equal to TOLERANCE of the largest element; a NaN is never equal."""
    assert np.abs(cuda.asnumpy(got) - expected).max() <= TOLERANCE * np.abs(expected).max()


def doubles(*arrays):
    return [array.astype(np.float64) if array.dtype == np.float32 else array for array in arrays]


def there(*arrays):
    return [cuda.asarray(array.copy()) for array in arrays]


def layernorm_arguments(B, T, C):
    x, mean, rstd = draw(B, T, C) + 2, np.empty((B, T), np.float32), np.empty((B, T), np.float32)
    reference.layernorm_forward(np.empty_like(x), mean, rstd, x, np.ones(C), np.zeros(C))
    return (
        draw(B, T, C, seed=1),
        draw(C, seed=2),
        draw(C, seed=3),
        draw(B, T, C, seed=4),
        x,
        draw(C, seed=5),
        mean,
        rstd,
    )


# 1,668 numbers do not fit in the registers of version 5; of 65 rows, each of its warps on the emulator has several
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 5, 7), (5, 13, 128), (3, 3, 132), (1, 9, 1600), (1, 3, 1668)], ids=str
)
@pytest.mark.parametrize("version", LAYERNORM)
def test_layernorm_backward(version, shape):
    arguments = layernorm_arguments(*shape)
    got, expected = there(*arguments), doubles(*arguments)
    layernorm.layernorm_backward(*got, version=version)
    reference.layernorm_backward(*expected)
    for mine, its in zip(got[:3], expected[:3]):
        close(mine, its)
    for mine, given in zip(got[3:], arguments[3:]):
        assert np.array_equal(cuda.asnumpy(mine), given)  # inputs stay as they are


def test_layernorm_backward_at_odd_addresses():
    arguments = layernorm_arguments(1, 3, 128)
    got, expected = there(*arguments), doubles(*arguments)
    whole = cuda.xp.zeros(arguments[0].size + 1, np.float32)  # (n + 1,)
    got[0] = whole[1:].reshape(arguments[0].shape)
    got[0][...] = cuda.asarray(arguments[0])
    layernorm.layernorm_backward(*got)
    reference.layernorm_backward(*expected)
    close(got[0], expected[0])
    assert float(whole[0]) == 0


@pytest.mark.parametrize("version", [2, 3])
def test_layernorm_backward_refuses_rows_that_shared_memory_cannot_hold(version):
    with pytest.raises(UserError, match=f"version {version} takes rows of up to 6144, not 6145; use version 4"):
        layernorm.layernorm_backward(*there(*layernorm_arguments(1, 1, 6145)), version=version)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (2, 67, 129), (2, 67, 132), (1, 5, 3072)], ids=str)
@pytest.mark.parametrize("version", BIAS)
def test_bias_backward(version, shape):
    db, dout = draw(shape[-1]), draw(*shape, seed=1)
    (got,) = there(db)
    bias_backward.bias_backward(got, cuda.asarray(dout), version=version)
    close(got, db + dout.astype(np.float64).sum(axis=(0, 1)))


# more positions than one block sorts, tokens whose run covers several segments, one token only, all different
@pytest.mark.parametrize(
    "shape, V", [((1, 1, 1), 1), ((3, 5, 7), 2), ((2, 40, 130), 3), ((2, 40, 132), 3), ((3, 1000, 4), 7)], ids=str
)
@pytest.mark.parametrize("version", ENCODER)
def test_encoder_backward(version, shape, V):
    B, T, C = shape
    tokens = np.random.RandomState(1).randint(0, V, (B, T)).astype(np.int32)
    for ids in (tokens, np.full_like(tokens, V - 1), np.arange(B * T, dtype=np.int32).reshape(B, T)[::-1]):
        arguments = draw(B * T + V, C), draw(T + 2, C, seed=1), draw(B, T, C, seed=2), np.ascontiguousarray(ids)
        got, expected = there(*arguments), doubles(*arguments)
        encoder.encoder_backward(*got, version=version)
        reference.encoder_backward(*expected)
        close(got[0], expected[0])
        close(got[1], expected[1])


def test_rows_of_a_token_are_added_in_the_order_of_their_positions():
    dout = np.float32([2.0**30, 1, 1, -(2.0**30), 1] * 8).reshape(1, 40, 1)  # (B, T, C)   the order decides the sum
    tokens = np.zeros((1, 40), np.int32)  # (B, T)
    for version, size in ((2, 40), (3, encoder.SEGMENT)):
        dwte, dwpe = there(np.zeros((1, 1), np.float32), np.zeros((40, 1), np.float32))
        encoder.encoder_backward(dwte, dwpe, cuda.asarray(dout), cuda.asarray(tokens), version=version)
        total = np.float32(0)
        for start in range(0, 40, size):  # the sums of the segments, from the first to the last
            share = np.float32(0)
            for value in dout[0, start : start + size, 0]:
                share += value
            total += share
        assert float(dwte[0, 0]) == total


# ------------------------------------------------------------------------------------------------ norm and AdamW


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("n", [1, 1023, 40_001])
def test_global_norm_stays_on_the_device(n, version):
    grads = draw(n)
    found = norm.global_norm(cuda.asarray(grads), version=version)
    assert found.shape == (1,) and found.dtype == np.float64 and isinstance(found, cuda.xp.ndarray)
    assert float(found[0]) == pytest.approx(np.linalg.norm(grads.astype(np.float64)), rel=1e-6)
    norm.global_norm(cuda.asarray(2 * grads), version=version)  # nothing of the call before is left in the sum
    assert float(found[0]) == pytest.approx(2 * np.linalg.norm(grads.astype(np.float64)), rel=1e-6)


@pytest.mark.parametrize("decayed", [True, False])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("largest", [0.5, 1e9])
def test_a_clipped_step_on_the_device_has_the_bits_of_one_by_the_host(largest, clear, decayed):
    """clip_factor and adamw_update_by, against global_norm, scale and adamw_update."""
    arrays = draw(1001), draw(1001, seed=1), draw(1001, seed=2), np.square(draw(1001, seed=3))
    numbers = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, t=3)
    mine, its = there(*arrays), there(*arrays)
    settings = cuda.asarray(adamw.settings(**numbers, weight_decay=0.1))
    norm.clip_factor(settings[adamw.FACTOR :], norm.global_norm(mine[1]), largest)
    adamw.adamw_update_by(*mine, settings, decayed=decayed, clear=clear)
    size = float(norm.global_norm(its[1])[0])
    if size > largest:
        norm.scale(its[1], largest / (size + 1e-6))
    adamw.adamw_update(*its, **numbers, weight_decay=0.1 * decayed, clear=clear)
    for name, one, other in zip(("params", "grads", "m", "v"), mine, its):
        if name != "grads" or clear:
            assert np.array_equal(cuda.asnumpy(one), cuda.asnumpy(other)), name


# ------------------------------------------------------------------------------------------------- equal bits


def calls():
    """{name: (function, arguments)} of what sums over positions, with arrays large enough for many blocks."""
    tokens = np.random.RandomState(0).randint(0, 5, (2, 300)).astype(np.int32)  # (B, T)
    return {
        "layernorm_backward": (layernorm.layernorm_backward, layernorm_arguments(2, 300, 68)),
        "bias_backward": (bias_backward.bias_backward, (draw(68), draw(2, 300, 68))),
        "encoder_backward": (
            encoder.encoder_backward,
            (draw(5, 68), draw(300, 68), draw(2, 300, 68), tokens),
        ),
        "global_norm": (lambda grads: norm.global_norm(grads), (draw(100_003),)),
    }


@pytest.mark.parametrize("name", calls())
def test_what_llmc_uses_gives_equal_bits(name, monkeypatch):
    monkeypatch.setenv("LLMC_EMULATOR_THREADS", "2")
    function, arguments = calls()[name]
    found = []
    for _ in range(3):
        given = there(*arguments)
        returned = function(*given)
        found.append([cuda.asnumpy(a).copy() for a in (*given, *([] if returned is None else [returned]))])
    for again in found[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(found[0], again))
