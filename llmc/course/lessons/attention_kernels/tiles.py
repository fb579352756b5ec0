"""Lesson 16: online softmax by tiles of 32 keys, step by step as a flash forward takes them, to be taken otherwise."""

import numpy as np

from llmc.course.lessons.attention_kernels.references import LOW


def _shrunk(old):
    return old


class Tiles:
    """Keys and values in tiles for heads of 32 numbers, and which of them a block of so many queries walks over.

    scores: (heads, T, keys), with zeros where keys end; values: (heads, keys, 32). t: (T, 1), i: (keys,): numbers.
    """

    def __init__(self, q, k, v, queries):
        self.q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
        self.T = q.shape[1]
        more = ((0, 0), (0, -self.T % 32), (0, 0))
        self.keys, self.values = np.pad(k, more), np.pad(v, more)  # (heads, keys, 32)
        self.t, self.i = np.arange(self.T)[:, None], np.arange(self.keys.shape[1])
        self.first = self.t // queries * queries  # (T, 1)   of the block's queries
        self.walked = self.i // 32 * 32 < np.minimum(self.first + queries, self.T)  # (T, keys)
        self.scores = self.scores_of(self.keys)

    def scores_of(self, keys):
        """(heads, T, keys)."""
        return self.q @ keys.swapaxes(-1, -2) / np.sqrt(32)

    def turned(self, rows):
        """The tiles of rows (heads, keys, 32), each with rows and columns exchanged."""
        return rows.reshape(-1, 32, 32).swapaxes(-1, -2).reshape(rows.shape)

    def first_in_all(self, rows):
        """Tile 0 of rows (heads, keys, 32) in the place of every tile."""
        return np.tile(rows[:, :32], (1, rows.shape[1] // 32, 1))

    def each(self):
        """The 32 keys of each tile: slices."""
        return [slice(first, first + 32) for first in range(0, len(self.i), 32)]

    @np.errstate(all="ignore")
    def out(
        self,
        scores=None,
        values=None,
        seen=None,
        *,
        mask=LOW,
        own=False,
        silent=False,
        sum_keeps=_shrunk,
        total_keeps=_shrunk,
        per=1,
    ):
        """Attention (heads, T, 32). seen: (T, keys); other keys have the score `mask`.

        own: each lane subtracts its own largest score. silent: other keys add 0, even if a lane has met no key yet.
        sum_keeps, total_keeps: what part of what it has so far each of them keeps, of exp(top - higher). per: how
        often a tile shrinks the sum: 32, for each of its keys.
        """
        scores = self.scores if scores is None else scores
        values = self.values if values is None else values
        seen = self.i <= self.t if seen is None else seen
        top = np.full((*self.q.shape[:2], 32), LOW)  # (heads, T, 32)   of the lanes
        total, sum = np.zeros_like(top), np.zeros_like(top)
        for here in self.each():
            part = np.where(seen[:, here], scores[..., here], mask)  # (heads, T, 32)
            higher = np.maximum(top, part if own else part.max(axis=-1, keepdims=True))
            old, p = np.exp(top - higher), np.exp(part - higher)  # (heads, T, 32)
            if silent:
                p = np.where(seen[:, here], p, 0.0)
            left = old ** np.arange(31, -1, -1) if per == 32 else 1.0  # of each key's part
            found = (
                higher,
                total * total_keeps(old) + p,
                sum * sum_keeps(old) ** per + (p * left) @ values[:, here],
            )
            walks = self.walked[:, here][:, :1]  # (T, 1)
            top, total, sum = (np.where(walks, a, b) for a, b in zip(found, (top, total, sum)))
        return sum / total.sum(axis=-1, keepdims=True)
