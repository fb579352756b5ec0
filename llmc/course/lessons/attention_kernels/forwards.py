"""Lesson 16: what well-known mistakes in a flash forward give, {sentence after "out equals ": (function, where)}."""

import numpy as np

from llmc.course.lessons.attention_kernels.mistakes import (
    FEWER,
    LEAKS,
    MASK,
    MORE,
    NO_MASK,
    TURNED_MASK,
    TWOS,
    triangle,
)
from llmc.course.lessons.attention_kernels.places import FLASH, LEAK, NAIVE, ONLINE
from llmc.course.lessons.attention_kernels.references import forward
from llmc.course.lessons.attention_kernels.tiles import Tiles


def tops(q, k):
    """The largest score of the keys that each query sees (heads, T)."""
    scores = np.asarray(q, np.float64) @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])  # (heads, T, T)
    return np.where(triangle(q.shape[1]), scores, -np.inf).max(axis=-1)


def known(q, k, v, queries=8) -> dict:
    """Of a flash forward: out (heads, T, hs). queries: of a block, which decide how many tiles it walks over."""
    T, hs = q.shape[1:]
    tiles = Tiles(q, k, v, queries)
    scores, i, t, first, here = tiles.scores, tiles.i, tiles.t, tiles.first, tiles.i < T
    tile = i // 32  # (keys,)
    kept = "what the tiles before have brought stays, times exp(top before the tile - top after it)"

    def seeing(seen):
        return lambda: tiles.out(seen=seen)

    def scaled(factor):
        return lambda: tiles.out(scores * factor)

    of_tiles = {
        f"the result {MORE}": seeing((i <= t + 1) & here),
        f"the result {FEWER}": seeing(i < t),
        f"the result {NO_MASK}": seeing(here & (t >= 0)),
        "the result of a query that sees all keys of its tiles, and those from T on, which are zeros: query t sees the "
        "keys 0 to t": seeing((i >= 0) & (t >= 0)),
        f"the result {TURNED_MASK}": seeing(i >= t),
        "the result of queries that see what the first one of their block sees: query t sees the keys 0 to t": seeing(
            i <= first
        ),
        "the result of queries that see the keys 0 to t - first, `first` being the first query of their block": seeing(
            i <= t - first
        ),
        "the result with a mask that forgets the tile: lane `lane` has key k0 + lane": seeing(i % 32 <= t),
        "the result with a score of 0 for each later key of a tile": lambda: tiles.out(mask=0.0),
        "the result with dot products divided by √T: the scale is 1/√hs": scaled(np.sqrt(hs / T)),
        "the result with a scale that is applied once more in each tile": scaled(hs ** (-tile / 2.0)),
        f"the result {TWOS}": scaled(np.log(2)),
        "the result with a sum that shrinks once for each key of a tile": lambda: tiles.out(per=32),
        "the result with a total that shrinks twice in each tile": lambda: tiles.out(total_keeps=np.square),
        "the result with a sum of values that shrinks twice in each tile": (lambda: tiles.out(sum_keeps=np.square)),
        "the result of the last tile alone": lambda: tiles.out(sum_keeps=np.zeros_like, total_keeps=np.zeros_like),
        f"the result with the total of the last tile alone: {kept}": lambda: tiles.out(total_keeps=np.zeros_like),
        f"the result with the sum of values of the last tile alone: {kept}": lambda: tiles.out(sum_keeps=np.zeros_like),
        "1/32 of the result": (lambda: tiles.out() / 32),
        "the result of the first 32 keys alone": seeing((i <= t) & (i < 32)),
        **_tiles_gone_wrong(tiles),
    }
    plain = {
        "the result without the scale": scaled(np.sqrt(hs)),
        "the result with dot products divided by hs: the scale is 1/√hs": scaled(1 / np.sqrt(hs)),
        "the result with dot products multiplied by √hs: the scale is 1/√hs": scaled(hs),
    }
    found = {words: (make, FLASH) for words, make in of_tiles.items()}
    found |= {words: (make, NAIVE) for words, make in plain.items()}
    found |= {words: (make, ONLINE) for words, make in _not_corrected(tiles, v).items()}
    return found | {
        f"the result {LEAKS}": (lambda: forward(q, k, v, MASK)[0], LEAK),
        f"the result {LEAKS} in each tile": (lambda: tiles.out(mask=MASK), LEAK),
    }


def _tiles_gone_wrong(tiles) -> dict:
    """Tiles that are read or loaded in a wrong order; lane c has channel c."""
    q, K, V = tiles.q, tiles.keys, tiles.values
    heads, T, n = len(q), tiles.T, len(tiles.each())

    def shares():
        scores = np.where(tiles.i <= tiles.t, tiles.scores, -np.inf)  # (heads, T, keys)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def without_shuffle_of_p():
        each = shares().reshape(heads, T, n, 32)  # of the key that the lane has
        return (each * V.reshape(heads, n, 32, 32).sum(axis=2)[:, None]).sum(axis=2)  # (heads, T, 32)

    def without_shuffle_of_q():
        return tiles.out(np.tile(q, (1, 1, n)) * K.sum(axis=-1)[:, None] / np.sqrt(32))

    def with_keys(rows):
        return lambda: tiles.out(tiles.scores_of(rows))

    def with_values(rows):
        return lambda: tiles.out(values=rows)

    in_sum = "in the sum, row i belongs to a key and the lane to a channel"
    in_score = "in the score, the lane belongs to a key and c to a channel"
    row = "row `row` of a tile is key k0 + row"
    return {
        f"the result with each tile of values turned: {in_sum}": with_values(tiles.turned(V)),
        f"the result with each tile of keys turned: {in_score}": with_keys(tiles.turned(K)),
        f"the result with each tile of keys and of values turned: {in_score}; {in_sum}": lambda: tiles.out(
            tiles.scores_of(tiles.turned(K)), tiles.turned(V)
        ),
        "the result with each lane's own p: key i's is in lane i": (without_shuffle_of_p),
        "the result with each lane's own channel of q: channel c is in lane c": (without_shuffle_of_q),
        f"the result with the keys of tile 0 in every tile: {row}": with_keys(tiles.first_in_all(K)),
        f"the result with the values of tile 0 in every tile: {row}": with_values(tiles.first_in_all(V)),
        f"the result with tile 0 in every tile: {row}": lambda: tiles.out(
            tiles.scores_of(tiles.first_in_all(K)), tiles.first_in_all(V)
        ),
        "the shares times the keys: they belong to the values": with_values(K),
        "the result with values in place of keys: the scores are q · k": with_keys(V),
        "the result with keys and values exchanged: the scores are q · k, and their shares belong to the values": (
            lambda: tiles.out(tiles.scores_of(V), K)
        ),
        "the result with a largest score of each lane's own": lambda: tiles.out(own=True),
        "the result with a largest score of each lane's own, where later keys count nothing": lambda: tiles.out(
            own=True, silent=True
        ),
    }


def _not_corrected(tiles, v) -> dict:
    """Online softmax in which sums do not shrink when the maximum grows; a step has 32 keys, or one."""
    words = "the result with a {} that does not shrink when a {} brings a larger score"
    scores, of_sum = tiles.scores[..., : tiles.T], {"sum_keeps": np.ones_like}
    of_total, one = {"total_keeps": np.ones_like}, {"sum_shrinks": False}
    return {
        words.format("sum of values", "tile"): lambda: tiles.out(**of_sum),
        words.format("total", "tile"): lambda: tiles.out(**of_total),
        words.format("total and a sum of values", "tile"): lambda: tiles.out(**of_sum, **of_total),
        words.format("sum of values", "key"): lambda: _online(scores, v, 1, **one),
        words.format("total", "key"): lambda: _online(scores, v, 1, total_shrinks=False),
        words.format("total and a sum of values", "key"): lambda: _online(scores, v, 1, **one, total_shrinks=False),
    }


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
