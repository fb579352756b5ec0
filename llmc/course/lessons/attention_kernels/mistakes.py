"""Lesson 16: what well-known mistakes forward give, {sentence after "out equals ": (function, where to look)}.

Most come from a table of probabilities (heads, T, T) that is made, masked or used in another way.
"""

import numpy as np

from llmc.course.lessons.attention_kernels.places import FLASH, LEAK, NAIVE, ONLINE, SPLIT
from llmc.course.lessons.attention_kernels.references import forward, merged, probabilities

MASK = -1e4  # a finite one
LEAKS = "with a mask such as -10,000, which leaks where all scores of a query are lower: take -3.4e38"
NO_MASK = "of a query that sees all T keys: query t sees the keys 0 to t"
MORE = "of a query that sees one key too many: query t sees the keys 0 to t, t + 1 of them"
FEWER = "of a query that does not see its own key: query t sees the keys 0 to t, t + 1 of them"
ON = "of heads that do not begin again: t is the row % T, and query 0 of each head sees one key"


def _table(scores, seen):
    """Softmax of the scores (heads, T, T) where `seen`; 0 in rows without a key."""
    masked = np.where(seen, np.asarray(scores, np.float64), -np.inf)
    top = np.maximum(masked.max(axis=-1, keepdims=True), -1e30)
    e = np.exp(masked - top)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def triangle(T, more=0):
    return np.tril(np.ones((T, T), bool), more)  # (T, T)


def softmaxes(scores) -> dict:
    """Of masked_softmax: p (heads, T, T)."""
    heads, T, _ = scores.shape
    rows = np.arange(heads * T).reshape(heads, T, 1)  # (heads, T, 1)
    return {
        f"the probabilities {MORE}": (lambda: _table(scores, triangle(T, 1)), NAIVE),
        f"the probabilities {NO_MASK}": (lambda: _table(scores, np.ones((T, T), bool)), NAIVE),
        f"the probabilities {ON}": (lambda: _table(scores, np.arange(T) <= rows), NAIVE),
        f"the probabilities {LEAKS}": (lambda: probabilities(scores, MASK)[0], LEAK),
        "the probabilities with totals that are relative to each lane's own maximum: multiply a lane's total by "
        "exp(its maximum - top) before warp_sum": (lambda: _totals_of_lanes(scores), ONLINE),
    }


def _totals_of_lanes(scores):
    """Probabilities (heads, T, T) divided by the sum of the lanes' totals, each relative to the lane's own maximum."""
    heads, T, _ = scores.shape
    masked = np.where(triangle(T), np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    lanes = np.pad(masked, ((0, 0), (0, 0), (0, -T % 32)), constant_values=-np.inf).reshape(heads, T, -1, 32)
    own = np.maximum(lanes.max(axis=2, keepdims=True), -1e30)  # (heads, T, 1, 32)
    total = np.exp(lanes - own).sum(axis=(2, 3))[..., None]  # (heads, T, 1)
    return np.exp(masked - masked.max(axis=-1, keepdims=True)) / total


def _exp(x):
    """exp, of no more than float64 has room for."""
    return np.exp(np.minimum(np.asarray(x, np.float64), 700.0))


def stats_of(stats, top) -> dict:
    """stats and the largest scores, of one shape."""
    return {
        "the logarithm of the sum of exp(score - top): add top, to have that of the scores": (
            lambda: stats - top,
            ONLINE,
        ),
        "the largest score: add the logarithm of the sum": (lambda: top, ONLINE),
        "the sum of exp(score - top): take its logarithm, and add top": (lambda: _exp(stats - top), ONLINE),
        "the sum of exponentials: take its logarithm": (lambda: _exp(stats), ONLINE),
        "top plus the sum of exp(score - top): take the logarithm of the sum": (
            lambda: top + _exp(stats - top),
            ONLINE,
        ),
        "the top that it began with: let it grow at the end of each step, `top = higher;`": (
            lambda: np.full_like(stats, -3.4e38),
            ONLINE,
        ),
    }


# ----------------------------------------------------------------------------------------------------- merging


def merges(top, total, sums) -> dict:
    """Of merge_parts: out (rows, hs)."""
    top, total, sums = (np.asarray(a, np.float64) for a in (top, total, sums))
    rows, parts, hs = sums.shape
    factor = np.exp(top - top.max(axis=1, keepdims=True))  # (rows, parts)
    whole = (total * factor).sum(axis=1, keepdims=True)  # (rows, 1)
    turned = np.swapaxes(sums.reshape(rows, hs, parts), 1, 2)  # (rows, parts, hs)
    weighed = (sums * factor[..., None]).sum(axis=1)  # (rows, hs)
    so_far = np.exp(top - np.maximum.accumulate(top, axis=1))  # (rows, parts)
    weighed_so_far = (sums * so_far[..., None]).sum(axis=1) / (total * so_far).sum(axis=1, keepdims=True)  # (rows, hs)
    plain = "correct each part by exp(top - highest)"
    with np.errstate(all="ignore"):
        mean = (sums / total[..., None]).mean(axis=1)
        last = sums[:, -1] / total[:, -1:]
        weighed_back = (sums / factor[..., None]).sum(axis=1)  # (rows, hs)
        whole_back = (total / factor).sum(axis=1, keepdims=True)  # (rows, 1)
    return {
        f"the sums as they are, divided by the totals as they are: {plain}": (
            lambda: sums.sum(axis=1) / total.sum(axis=1, keepdims=True),
            SPLIT,
        ),
        f"the sums as they are, divided by the right total: {plain}": (lambda: sums.sum(axis=1) / whole, SPLIT),
        "corrected sums, divided by totals as they are: both need the factor": (
            lambda: weighed / total.sum(axis=1, keepdims=True),
            SPLIT,
        ),
        "the sums times exp(highest - top): the exponent is top - highest, never above 0": (
            lambda: weighed_back / whole,
            SPLIT,
        ),
        "the sums and totals times exp(highest - top): the exponent is top - highest, never above 0": (
            lambda: weighed_back / whole_back,
            SPLIT,
        ),
        "the result with sums and totals that do not shrink when a part brings a larger top: take the highest of all "
        "parts first, or multiply by exp(old top - new top)": (lambda: weighed_so_far, SPLIT),
        "the mean of what the parts have found: a part with larger scores weighs more": (lambda: mean, SPLIT),
        "what the last part has found: add up, with +=": (lambda: last, SPLIT),
        "the sums without division: divide by the corrected total": (lambda: weighed, SPLIT),
        "the result with sums[c * parts + s]: channels are the last axis, so it is sums[s * hs + c]": (
            lambda: merged(top, total, turned)[0],
            SPLIT,
        ),
    }


# ----------------------------------------------------------------------------------------------------- forward


def forwards(q, k, v) -> dict:
    """Of a flash forward: out (heads, T, hs)."""
    T, hs = q.shape[1:]
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    dots = q @ k.swapaxes(-1, -2)  # (heads, T, T)
    right = dots / np.sqrt(hs)

    def out(scores, more=0):
        return _table(scores, triangle(T, more)) @ v

    def fewer():  # all scores of query 0 are -3.4e38, so every row of the tile counts alike
        first = v[:, :32].sum(axis=1, keepdims=True) / 32  # (heads, 1, hs)
        return np.concatenate([first, out(right, -1)[:, 1:]], axis=1)

    return {
        f"the result {MORE}": (lambda: out(right, 1), FLASH),
        f"the result {FEWER}": (fewer, FLASH),
        f"the result {NO_MASK}": (lambda: out(right, T), FLASH),
        "the result without the scale: divide the dot products by √hs": (lambda: out(dots), NAIVE),
        "the result with dot products divided by hs: the scale is 1/√hs": (lambda: out(dots / hs), NAIVE),
        "the result with dot products multiplied by √hs: divide": (lambda: out(dots * np.sqrt(hs)), NAIVE),
        "1/32 of the result: total is added up over the lanes at the end, so each lane counts its own key alone": (
            lambda: out(right) / 32,
            FLASH,
        ),
        "the result of the first 32 keys: the loop goes on, tile after tile": (
            lambda: _table(right, triangle(T) & (np.arange(T) < 32)) @ v,
            FLASH,
        ),
        **_not_corrected(right, v),
        **_tiles_gone_wrong(q, k, v),
        f"the result {LEAKS}": (lambda: forward(q, k, v, MASK)[0], LEAK),
        f"the result {LEAKS} in each tile": (lambda: _leaking_tiles(right, v, MASK), LEAK),
    }


def _tiles_gone_wrong(q, k, v) -> dict:
    """Tiles of 32 keys that are read or loaded in a wrong order, for heads of 32 numbers; lane c has channel c."""
    heads, T, hs = q.shape
    if hs != 32:
        return {}
    n = -(-T // 32)
    K, V = (np.pad(a, ((0, 0), (0, 32 * n - T), (0, 0))).reshape(heads, n, 32, 32) for a in (k, v))
    turned_K, turned_V = K.swapaxes(-1, -2), V.swapaxes(-1, -2)  # (heads, n, 32, 32)
    seen = np.tri(T, 32 * n, dtype=bool)  # (T, 32 n)

    def shares(keys, seen=seen):
        return _table(q @ keys.reshape(heads, -1, 32).swapaxes(-1, -2) / np.sqrt(hs), seen)  # (heads, T, 32 n)

    def out(keys, values, seen=seen):
        return shares(keys, seen) @ values.reshape(heads, -1, 32)

    def without_shuffle_of_p():
        each = shares(K).reshape(heads, T, n, 32)  # of the key that the lane has
        return (each * V.sum(axis=2)[:, None]).sum(axis=2)  # (heads, T, 32)

    def without_shuffle_of_q():
        scores = np.tile(q, (1, 1, n)) * K.sum(axis=-1).reshape(heads, 1, -1) / np.sqrt(hs)  # (heads, T, 32 n)
        return _table(scores, seen) @ V.reshape(heads, -1, 32)

    alone = "the mean of all rows of the tile: subtract the largest score of the warp, not the lane's own"
    mean = np.repeat(V.sum(axis=(1, 2))[:, None] / (32 * n), T, axis=1)  # (heads, T, 32)   where there is one tile
    one_tile = {alone: (mean, FLASH)} if n == 1 else {}
    return {
        "the result with values[lane * 33 + i]: in the sum, row i belongs to a key and the lane to a channel": (
            lambda: out(K, turned_V),
            FLASH,
        ),
        "the result with keys[c * 33 + lane]: in the score, the lane belongs to a key and c to a channel": (
            lambda: out(turned_K, V),
            FLASH,
        ),
        "the result with each lane's own p: key i's is in lane i, `__shfl_sync(0xffffffff, p, i)`": (
            without_shuffle_of_p,
            FLASH,
        ),
        "the result with each lane's own channel of q: channel c is in lane c, `__shfl_sync(0xffffffff, mine, c)`": (
            without_shuffle_of_q,
            FLASH,
        ),
        "the result with the keys of tile 0 in every tile: row `row` of a tile is key k0 + row": (
            lambda: out(np.repeat(K[:, :1], n, axis=1), V),
            FLASH,
        ),
        "the result with the values of tile 0 in every tile: row `row` of a tile is key k0 + row": (
            lambda: out(K, np.repeat(V[:, :1], n, axis=1)),
            FLASH,
        ),
        "the shares times the keys: they belong to the values": (lambda: out(K, K), FLASH),
        "the result with a mask that forgets the tile: lane `lane` has key k0 + lane": (
            lambda: out(K, V, walked(T, 32 * n) & (np.arange(32 * n) % 32 <= np.arange(T)[:, None])),
            FLASH,
        ),
    } | one_tile


def walked(T, keys, queries=8):
    """(T, keys) bool: the keys in tiles of 32 that a block of some queries walks over."""
    ends = np.minimum(np.arange(T) // queries * queries + queries, T)  # (T,)
    return np.arange(keys) < ((ends + 31) // 32 * 32)[:, None]


def _leaking_tiles(scores, v, mask):
    """Attention (heads, T, hs) where later keys of a tile, and those that do not exist, have the score `mask`."""
    T = scores.shape[-1]
    beyond = -T % 32  # keys that do not exist: zeros
    masked = np.pad(np.where(triangle(T), scores, mask), ((0, 0), (0, 0), (0, beyond)), constant_values=mask)
    return _table(masked, walked(T, T + beyond))[..., :T] @ v


def _not_corrected(scores, v) -> dict:
    """Online softmax in which sums do not shrink when the maximum grows; a step has 32 keys, or one."""
    words = "the result with a {} that does not shrink when a {} brings a larger score: multiply by exp(top - higher)"
    known = {}
    for keys, part in ((32, "tile"), (1, "key")):
        known[words.format("sum of values", part)] = (
            lambda keys=keys: _online(scores, v, keys, sum_shrinks=False),
            ONLINE,
        )
        known[words.format("total", part)] = (lambda keys=keys: _online(scores, v, keys, total_shrinks=False), ONLINE)
        known[words.format("total and a sum of values", part)] = (
            lambda keys=keys: _online(scores, v, keys, sum_shrinks=False, total_shrinks=False),
            ONLINE,
        )
    return known


def _online(scores, v, keys, sum_shrinks=True, total_shrinks=True):
    """Attention (heads, T, hs) by steps of so many keys."""
    heads, T, _ = scores.shape
    masked = np.where(triangle(T), scores, -3.4e38)  # (heads, T, T)
    top, total, sum = np.full((heads, T, 1), -3.4e38), np.zeros((heads, T, 1)), np.zeros(v.shape)
    for first in range(0, T, keys):
        part = masked[..., first : first + keys]  # (heads, T, keys)
        higher = np.maximum(top, part.max(axis=-1, keepdims=True))
        old, p = np.exp(top - higher), np.where(part > -3e38, np.exp(part - higher), 0)
        total = total * (old if total_shrinks else 1) + p.sum(axis=-1, keepdims=True)
        sum = sum * (old if sum_shrinks else 1) + p @ v[:, first : first + keys]
        top = higher
    return sum / total
