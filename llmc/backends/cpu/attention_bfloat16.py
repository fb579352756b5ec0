"""Causal attention in bfloat16 by oneDNN: a block of queries at a time, in all heads of a sequence at once.

As in `attention.py` a block sees only the keys up to its own end, the (T, T) scores never exist, and the backward pass
recomputes the probabilities from L. The products read the heads in place, in the rows of qkv. Scores are float32;
probabilities and the scores' gradient are rounded to be multiplied, as everywhere in this precision.
"""

import math

import numpy as np
from numba import prange

from llmc.backends.cpu import onednn
from llmc.backends.cpu.bfloat16 import load, store
from llmc.backends.cpu.compiled import ONE, ZERO, exp, parallel, serial
from llmc.backends.cpu.scratch import scratch

BLOCK = 128  # queries at a time
LEAST = 256  # positions from which this is faster than one head after the other in float32


def is_faster(qkv) -> bool:
    """Whether the functions below are to be taken for this input (B, T, 3C)."""
    return qkv.dtype == np.uint16 and qkv.shape[1] >= LEAST and onednn.multiplies_bfloat16()


def forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head; stats (B, NH, T) is L."""
    scale = _scale(qkv, NH)
    for b in range(out.shape[0]):
        (q, k, v), (o,) = _heads(qkv[b], 3, NH), _heads(out[b], 1, NH)
        for first, end in _blocks(out.shape[1]):
            scores, p = _room("scores", NH, first, end, "float32"), _room("p", NH, first, end, qkv.dtype)
            onednn.product(scores, q[:, first:end], _transposed(k[:, :end]))
            softmax(p, scores, stats[b], first, scale)
            onednn.product(o[:, first:end], p, v[:, :end])


def backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p · v, p = softmax(q · kᵀ / √hs). dk and dv are summed in float32, and rounded once."""
    (B, T, C), scale = out.shape, _scale(qkv, NH)
    dk, dv = sums = scratch("sums of keys and values", (2, NH, T, C // NH), "float32")
    for b in range(B):
        (q, k, v), (dq, _, _), (do,) = _heads(qkv[b], 3, NH), _heads(dqkv[b], 3, NH), _heads(dout[b], 1, NH)
        for first, end in _blocks(T):
            scores, dp = (_room(name, NH, first, end, "float32") for name in ("scores", "dp"))
            p, ds = (_room(name, NH, first, end, qkv.dtype) for name in ("p", "ds"))
            onednn.product(scores, q[:, first:end], _transposed(k[:, :end]))
            onednn.product(dp, do[:, first:end], _transposed(v[:, :end]))
            softmax_backward(p, ds, scores, dp, stats[b], dout[b], out[b], first, scale)
            has_sums = end < T  # the last block, which comes first, sees every key
            onednn.product(dv[:, :end], _transposed(p), do[:, first:end], add=has_sums)
            onednn.product(dk[:, :end], _transposed(ds), q[:, first:end], add=has_sums)
            onednn.product(dq[:, first:end], ds, k[:, :end])
        round_sums(dqkv[b], sums)


def _scale(qkv, NH):
    return np.float32((qkv.shape[2] // (3 * NH)) ** -0.5)


def _heads(rows, n, NH):
    """rows (T, n · C) as (n, NH, T, hs), in place."""
    return rows.reshape(len(rows), n, NH, -1).transpose(1, 2, 0, 3)


def _transposed(a):
    return a.transpose(0, 2, 1)


def _blocks(T):
    """(first, end) of each block of queries, the last one first."""
    return [(first, min(first + BLOCK, T)) for first in reversed(range(0, T, BLOCK))]


def _room(name, NH, first, end, dtype):
    """An array with a number for each query of a block and key that it sees: (NH, end - first, end)."""
    return scratch(name, (NH, end - first, end), dtype)


@serial
def _softmax_row(p, s, keys, scale):
    """p = softmax(scale · s) over the first keys, then zero. Returns the logarithm of the sum."""
    peak = s[0]
    for j in range(1, keys):
        peak = s[j] if s[j] > peak else peak
    total = peak * ZERO
    for j in range(keys):
        s[j] = exp(scale * (s[j] - peak))
    for j in range(keys):
        total += s[j]
    inverse = ONE / total
    for j in range(keys):
        store(p, j, s[j] * inverse)
    for j in range(keys, p.size):
        store(p, j, ZERO)
    return scale * peak + math.log(total)


@parallel
def softmax(p, scores, stats, first, scale):
    """p (NH, rows, end): the probabilities of the queries first … from their scores, which are lost; stats (NH, T)."""
    NH, rows, _ = scores.shape
    for task in prange(NH * rows):
        h, i = task // rows, task % rows
        stats[h, first + i] = _softmax_row(p[h, i], scores[h, i], first + i + 1, scale)


@serial
def _softmax_row_backward(p, ds, s, dp, keys, scale, L, inner):
    for j in range(keys):
        s[j] = exp(scale * s[j] - L)
        dp[j] = s[j] * (dp[j] - inner) * scale
    for j in range(keys):
        store(p, j, s[j])
        store(ds, j, dp[j])
    for j in range(keys, p.size):
        store(p, j, ZERO)
        store(ds, j, ZERO)


@parallel
def softmax_backward(p, ds, scores, dp, stats, dout, out, first, scale):
    """p: the probabilities, and ds: the scores' gradient p · (dp - Σ dout·out) · scale, all (NH, rows, end)."""
    NH, rows, _ = scores.shape
    hs = out.shape[1] // NH
    for task in prange(NH * rows):
        h, i = task // rows, task % rows
        t, inner = first + i, ZERO
        for c in range(h * hs, (h + 1) * hs):
            inner += load(dout, (t, c)) * load(out, (t, c))
        _softmax_row_backward(p[h, i], ds[h, i], scores[h, i], dp[h, i], t + 1, scale, stats[h, t], inner)


@parallel
def round_sums(dqkv, sums):
    """The columns of k and v of dqkv (T, 3C) = sums (2, NH, T, hs)."""
    _, NH, T, hs = sums.shape
    for t in prange(T):
        for i in range(2):
            for h in range(NH):
                for c in range(hs):
                    store(dqkv, (t, (i + 1) * NH * hs + h * hs + c), sums[i, h, t, c])
