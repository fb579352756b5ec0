"""Lesson 19: the online softmax of 16 rows in four lanes each, in NumPy."""

import numpy as np


def attend(scores, values):
    """softmax(scores) values in float64: scores (B, 16, T), values (B, T, 8)."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True).astype(np.float64))  # (B, 16, T)
    return e / e.sum(axis=-1, keepdims=True) @ values.astype(np.float64)  # (B, 16, 8)


def online(scores, values, meet=(1, 2)):
    """The same tile by tile, as the lanes do it, weights rounded to float16.

    meet: each lane takes the larger maximum of its own and that of the lane so far away (xor); 1 and 2 share a row.
    """
    B, _, T = scores.shape
    tiles = scores.astype(np.float32).reshape(B, 2, 8, T // 16, 2, 4, 2)  # n, row, tile, i, lane, number
    top, total = np.full((B, 2, 8, 4), -np.inf, np.float32), np.zeros((B, 2, 8, 4))  # n, row, lane
    sums = np.zeros((B, 2, 8, 4, 2))  # n, row, lane, number: columns 2 lane + number
    for k in range(T // 16):
        tile = tiles[:, :, :, k]  # (B, 2, 8, 2, 4, 2)
        higher = np.maximum(top, tile.max(axis=(3, 5)))  # (B, 2, 8, 4)
        for distance in meet:
            higher = np.maximum(higher, higher[..., np.arange(4) ^ distance])  # (B, 2, 8, 4)
        weights = np.exp(tile - higher[:, :, :, None, :, None])  # (B, 2, 8, 2, 4, 2)
        shrink = np.exp(top - higher)  # (B, 2, 8, 4)
        total = total * shrink + weights.sum(axis=(3, 5))  # (B, 2, 8, 4)
        more = weights.astype(np.float16).reshape(B, 16, 16) @ values[:, 16 * k : 16 * k + 16].astype(np.float64)
        sums = sums * shrink[..., None] + more.reshape(sums.shape)  # (B, 2, 8, 4, 2)
        top = higher
    return (sums / total.sum(axis=-1)[..., None, None]).reshape(B, 16, 8)
