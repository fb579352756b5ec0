"""Lesson 16: what its kernels should give, float64. Shapes: q, k, v, out, dout (heads, T, hs); stats (heads, T)."""

import numpy as np

LOW = -3.4e38  # the largest score of a part that has no keys


def probabilities(scores):
    """p (heads, T, T) and stats (heads, T) of scores (heads, T, T)."""
    seen = np.tril(np.ones(scores.shape[-2:], bool))  # (T, T)
    masked = np.where(seen, np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    top = masked.max(axis=-1, keepdims=True)  # (heads, T, 1)
    e = np.exp(masked - top)  # (heads, T, T)
    total = e.sum(axis=-1, keepdims=True)  # (heads, T, 1)
    return e / total, (top + np.log(total))[..., 0]


def forward(q, k, v):
    """out (heads, T, hs) and stats (heads, T)."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    p, stats = probabilities(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return p @ v, stats


def backward(q, k, v, dout):
    """{"dq", "dk", "dv", "delta"}: what arrives at q, k and v (heads, T, hs), and D (heads, T)."""
    q, k, v, dout = (np.asarray(a, np.float64) for a in (q, k, v, dout))
    scale = 1 / np.sqrt(q.shape[-1])
    p, _ = probabilities(q @ k.swapaxes(-1, -2) * scale)  # (heads, T, T)
    dp = dout @ v.swapaxes(-1, -2)  # (heads, T, T)
    delta = (p * dp).sum(axis=-1, keepdims=True)  # (heads, T, 1)
    ds = p * (dp - delta) * scale  # (heads, T, T)
    turned = ds.swapaxes(-1, -2)  # (heads, T, T)   row = key
    return {"dq": ds @ k, "dk": turned @ q, "dv": p.swapaxes(-1, -2) @ dout, "delta": delta[..., 0]}


def parted(scores, values, parts):
    """What each of the parts of the keys leaves: top, total (rows, parts), sums (rows, parts, hs), all float32.

    scores: (rows, keys), values: (rows, keys, hs). parts: how many keys each part has; it may be none.
    """
    found, ends = [], np.cumsum(parts)
    for first, end in zip(ends - parts, ends):
        x, v = scores[:, first:end].astype(np.float64), values[:, first:end]  # (rows, size), (rows, size, hs)
        top = x.max(axis=1, initial=LOW)  # (rows,)
        e = np.exp(x - top[:, None])  # (rows, size)
        found.append((top, e.sum(axis=1), np.einsum("rk,rkc->rc", e, v)))
    return single(*(np.stack(arrays, axis=1) for arrays in zip(*found)))


def merged(top, total, sums):
    """out (rows, hs) and stats (rows,) of all parts together."""
    top, total, sums = (np.asarray(a, np.float64) for a in (top, total, sums))
    highest = top.max(axis=1, keepdims=True)  # (rows, 1)
    factor = np.exp(top - highest)  # (rows, parts)
    whole = (total * factor).sum(axis=1)  # (rows,)
    return (sums * factor[..., None]).sum(axis=1) / whole[:, None], highest[:, 0] + np.log(whole)


def low(heads, T, hs):
    """q and k (heads, T, hs) whose scores lie around -30,000: far below a mask of -10,000, or even -20,000.

    They are equal or far apart: there float32 has steps of 0.002, and shares of scores close together would be noise.
    """
    steps = np.arange(heads * T).reshape(heads, T, 1) * 7 % 11  # (heads, T, 1)
    q = np.full((heads, T, hs), 64, np.float32)
    k = -np.full((heads, T, hs), 30_000 / 64 / np.sqrt(hs)) + steps * 5 / 16  # (heads, T, hs)
    return q, k.astype(np.float32)


def single(*arrays):
    """The same in float32."""
    return tuple(np.asarray(a, np.float32) for a in arrays)
