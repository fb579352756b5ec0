"""Lesson 16: what its kernels should give, float64. Shapes: q, k, v, out, dout (heads, T, hs); stats (heads, T)."""

import numpy as np

LOW = -3.4e38  # the largest score of a part that has no keys


def probabilities(scores):
    """p (heads, T, T) and stats (heads, T) of scores (heads, T, T)."""
    seen = np.tri(scores.shape[-1], dtype=bool)  # (T, T)
    masked = np.where(seen, np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    stats = np.logaddexp.reduce(masked, axis=-1)  # (heads, T)
    return np.exp(masked - stats[..., None]), stats


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

    scores: (rows, keys), values: (rows, keys, hs). parts: how many keys each part has, perhaps none.
    """
    found, ends = [], np.cumsum(parts)[:-1]
    for x, v in zip(np.split(scores.astype(np.float64), ends, axis=1), np.split(values, ends, axis=1)):
        top = x.max(axis=1, initial=LOW)  # (rows,)
        e = np.exp(x - top[:, None])  # (rows, size)
        found.append((top, e.sum(axis=1), np.einsum("rk,rkc->rc", e, v)))
    return single(*(np.stack(arrays, axis=1) for arrays in zip(*found)))


def merged(top, total, sums):
    """out (rows, hs) and stats (rows,) of all parts together."""
    top, total, sums = (np.asarray(a, np.float64) for a in (top, total, sums))
    stats = np.logaddexp.reduce(top + np.log(np.maximum(total, 1e-300)), axis=1)  # (rows,)   0: a part without keys
    return np.einsum("rs,rsc->rc", np.exp(top - stats[:, None]), sums), stats


def single(*arrays):
    """The same in float32."""
    return tuple(np.asarray(a, np.float32) for a in arrays)
