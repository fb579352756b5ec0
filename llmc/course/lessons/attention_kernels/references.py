"""Lesson 16: what its kernels should give, in float64. Shapes: q, k, v, out, dout (heads, T, hs); stats (heads, T)."""

import numpy as np

from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks import not_finite

LOW = -3.4e38  # the largest score of a part that has no keys


def probabilities(scores, mask=-np.inf):
    """p (heads, T, T) and stats (heads, T) of scores (heads, T, T); later keys get the score `mask`."""
    T = scores.shape[-1]
    seen = np.tril(np.ones((T, T), bool))  # (T, T)
    masked = np.where(seen, np.asarray(scores, np.float64), mask)  # (heads, T, T)
    top = masked.max(axis=-1, keepdims=True)  # (heads, T, 1)
    e = np.exp(masked - top)  # (heads, T, T)
    total = e.sum(axis=-1, keepdims=True)  # (heads, T, 1)
    return e / total, (top + np.log(total))[..., 0]


def forward(q, k, v, mask=-np.inf):
    """out (heads, T, hs) and stats (heads, T)."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    p, stats = probabilities(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), mask)
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
    found, first = [], 0
    for size in parts:
        x, v = scores[:, first : first + size].astype(np.float64), values[:, first : first + size]  # (rows, size, …)
        top = x.max(axis=1, initial=LOW)  # (rows,)
        e = np.exp(x - top[:, None])  # (rows, size)
        found.append((top, e.sum(axis=1), np.einsum("rk,rkc->rc", e, v)))
        first += size
    return tuple(np.stack(arrays, axis=1).astype(np.float32) for arrays in zip(*found))


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


def finite(name, got, why):
    """WrongAnswer where got, dq or dv, holds a NaN or an infinity; with that reason if scores of 0 give none."""
    if not np.isfinite(got).all():
        if _with_scores_of_0(name):
            why = f"and so it has if all scores are 0.\n→ Where to look: {why.rpartition('; ')[2]}"
            raise WrongAnswer(f"{name} has NaN or infinite entries, {why}.")
        raise WrongAnswer(f"{name} has NaN or infinite entries: {why}.")


def _with_scores_of_0(name) -> bool:
    """Does a backward kernel leave a NaN or an infinity in dq or dv where all scores are 0?"""
    given = not_finite.arguments()
    if given is None:
        return False
    out, stats = (0, 4) if name == "dq" else (1, 3)
    zeros = {k: np.zeros_like(given[k]) for k in (5, 6)}  # q, k
    more = np.arange(2, given[stats].shape[1] + 2, dtype=np.float32)  # (T,)   more than each query sees
    after = not_finite.launched(zeros | {stats: np.zeros_like(given[stats]) + np.log(more)})
    return after is not None and not np.isfinite(after[out]).all()
