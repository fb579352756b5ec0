"""attention_cached, in every backend, against attention_forward over the whole sequence."""

import numpy as np
import pytest

B, T, NH, C, ROOM = 2, 9, 3, 21, 12  # the cache has room for more positions than there are
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.fixture
def qkv(dtype):
    """(B, T, 3C), with scores so large that the softmax is far from uniform."""
    return (2 * np.random.RandomState(0).standard_normal((B, T, 3 * C))).astype(dtype)


def whole(backend, qkv):
    out = np.empty((B, T, C), qkv.dtype)
    stats = np.empty(backend.attention_stats_shape(B, T, NH), qkv.dtype)
    backend.attention_forward(out, stats, qkv, NH)
    return out


def in_pieces(backend, qkv, sizes):
    """(out, cache) after one piece of the positions after the other. Whatever is not there yet is NaN."""
    cache = np.full((2, B, NH, ROOM, C // NH), np.nan, qkv.dtype)
    out, start = [], 0
    for n in sizes:
        piece = np.ascontiguousarray(qkv[:, start : start + n])
        piece.flags.writeable = False
        out.append(np.full((B, n, C), np.nan, qkv.dtype))
        backend.attention_cached(out[-1], cache, piece, NH, start)
        start += n
    return np.concatenate(out, axis=1), cache


@pytest.mark.parametrize("sizes", [[T], [1] * T, [4, 1, 1, 1, 2], [1, 8], [8, 1]], ids=str)
def test_equals_attention_over_the_whole(backend, qkv, sizes):
    out, _ = in_pieces(backend, qkv, sizes)
    assert np.abs(out - whole(backend, qkv)).max() < TOLERANCE[qkv.dtype]


@pytest.mark.parametrize("sizes", [[T], [1] * T, [4, 3, 2]], ids=str)
def test_keeps_keys_and_values_and_nothing_else(backend, qkv, sizes):
    _, cache = in_pieces(backend, qkv, sizes)
    heads = qkv.reshape(B, T, 3, NH, C // NH).transpose(2, 0, 3, 1, 4)  # (3, B, NH, T, hs)
    assert np.array_equal(cache[:, :, :, :T], heads[1:])
    assert np.isnan(cache[:, :, :, T:]).all()


def test_a_position_can_be_taken_back(backend, qkv):
    """Positions from `start` on are overwritten and not looked at."""
    _, cache = in_pieces(backend, np.concatenate([qkv[:, :5], 3 * qkv[:, 5:]], axis=1), [T])
    cache[:, :, :, 6:] = np.nan
    out = np.empty((B, 1, C), qkv.dtype)
    backend.attention_cached(out, cache, np.ascontiguousarray(qkv[:, 5:6]), NH, 5)
    assert np.abs(out - whole(backend, qkv)[:, 5:6]).max() < TOLERANCE[qkv.dtype]
