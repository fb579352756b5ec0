"""Causal attention in bfloat16 by oneDNN: a block of queries by a block of keys at a time, as FlashAttention has it.

Only one such tile of scores exists, and fits the caches: forward, a higher score in the next tile shrinks what a query
has of its output so far (Dao et al. 2022); backward, probabilities are computed again from L. oneDNN is fastest with
small factors, each in one piece, not transposed on the left: so heads are copied from the rows of qkv, and backward,
scores have a row for each key. Scores and sums are float32; what is multiplied is rounded, as everywhere.
"""

import numpy as np
from numba import get_num_threads, prange

from llmc.backends.cpu import onednn
from llmc.backends.cpu.bfloat16 import load, store
from llmc.backends.cpu.compiled import ONE, ZERO, exp, parallel, serial
from llmc.backends.cpu.scratch import scratch

BLOCK = 256  # queries, and keys, at a time
AT_ONCE = 2**17  # scores per thread, of one head or several: with all that belongs to them, 12 bytes each, in its cache
LEAST = 256  # positions from which this is faster than one head after the other in float32
VECTORS = 32  # numbers that a compiled loop takes at once; the rest, one by one
NOTHING, SIGN, ALL_BUT_SIGN, LOWEST = np.float32(-np.inf), np.int32(31), np.int32(0x7FFFFFFF), np.int32(-(2**31))


def is_faster(qkv) -> bool:
    """Whether the functions below are to be taken for this input (B, T, 3C)."""
    return qkv.dtype == np.uint16 and qkv.shape[1] >= LEAST and onednn.multiplies_bfloat16()


def forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head; stats (B, NH, T) is L."""
    (B, T, C), scale = out.shape, np.float32((out.shape[2] // NH) ** -0.5)
    for h0, n in _groups(B * NH, T):
        heads = scratch("heads", (3, n * T * C // NH), qkv.dtype)
        sums = scratch("sums", (1, n * T * C // NH), "float32")
        copy_heads(heads, qkv, h0, n, NH, BLOCK)
        (q, k, v), (o,) = _blocks(heads, n, T), _blocks(sums, n, T)
        L, state = stats.reshape(-1, T)[h0 : h0 + n], scratch("state", (n, BLOCK, 2), "float32")
        for i in range(len(q)):
            state[:] = NOTHING, ZERO
            for j in range(i + 1):
                shape = n, q[i].shape[1], k[j].shape[1]
                scores, p = scratch("scores", shape, "float32"), scratch("p", shape, qkv.dtype)
                onednn.product(scores, q[i], k[j].mT)
                softmax(p, scores, o[i], state, L, scale, i * BLOCK, j * BLOCK)
                onednn.product(o[i], p, v[j], add=j > 0)
        round_heads(out, sums, h0, n, NH, BLOCK)


def backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p · v, p = softmax(q · kᵀ / √hs). Gradients are summed in float32, and rounded once."""
    (B, T, C), scale = out.shape, np.float32((out.shape[2] // NH) ** -0.5)
    for h0, n in _groups(B * NH, T):
        heads = scratch("heads", (4, n * T * C // NH), qkv.dtype)
        sums = scratch("sums", (3, n * T * C // NH), "float32")
        copy_heads(heads[:3], qkv, h0, n, NH, BLOCK)
        copy_heads(heads[3:], dout, h0, n, NH, BLOCK)
        (q, k, v, do), (dq, dk, dv) = _blocks(heads, n, T), _blocks(sums, n, T)
        L, inner = stats.reshape(-1, T)[h0 : h0 + n], scratch("inner", (n, T), "float32")
        inner_products(inner, dout, out, h0, NH)
        for j in range(len(k)):
            for i in range(j, len(q)):
                shape = n, k[j].shape[1], q[i].shape[1]
                (scores, dp), (p, ds) = scratch("scores", (2, *shape), "float32"), scratch("p", (2, *shape), qkv.dtype)
                onednn.product(scores, k[j], q[i].mT)
                onednn.product(dp, v[j], do[i].mT)
                softmax_backward(p, ds, scores, dp, L, inner, scale, i * BLOCK, j * BLOCK)
                onednn.product(dv[j], p, do[i], add=i > j)
                onednn.product(dk[j], ds, q[i], add=i > j)
                onednn.product(dq[i], ds.mT, k[j], add=j > 0)
        round_heads(dqkv, sums, h0, n, NH, BLOCK)


def _groups(heads, T):
    """(first, how many) of the heads of all sequences that are computed at a time."""
    n = max(1, AT_ONCE * get_num_threads() // min(BLOCK, T) ** 2)
    return [(h0, min(n, heads - h0)) for h0 in range(0, heads, n)]


def _blocks(flats, n, T):
    """For each flat array (n · T · hs,) the list of its blocks (n, rows, hs), each in one piece."""
    step = flats.shape[1] // T  # a slice ends where its array does
    return [[a[t * step : (t + BLOCK) * step].reshape(n, -1, step // n) for t in range(0, T, BLOCK)] for a in flats]


@serial
def _places(task, h0, n, T, NH, hs, block):
    """Of one position of a head: its sequence, position and column in the rows, where it begins in the blocks."""
    h, t = task // T, task % T
    first = t // block * block
    return (h0 + h) // NH, t, (h0 + h) % NH * hs, (first * n + h * min(block, T - first) + t - first) * hs


@parallel
def copy_heads(heads, rows, h0, n, NH, block):
    """heads (m, n · T · hs) = n heads of rows (B, T, m · C), counted over all sequences, block after block."""
    m, (_, T, C) = len(heads), rows.shape
    hs = C // (m * NH)
    for task in prange(n * T):
        b, t, column, start = _places(task, h0, n, T, NH, hs, block)
        for i in range(m):
            head, row = heads[i, start:], rows[b, t, i * NH * hs + column :]
            for c in range(hs):
                head[c] = row[c]


@parallel
def round_heads(rows, sums, h0, n, NH, block):
    """The way back: these heads of rows (B, T, m · C) = sums (m, n · T · hs), rounded."""
    m, (_, T, C) = len(sums), rows.shape
    hs = C // (m * NH)
    for task in prange(n * T):
        b, t, column, start = _places(task, h0, n, T, NH, hs, block)
        for i in range(m):
            row, head = rows[b, t, i * NH * hs + column :], sums[i, start:]
            for c in range(hs):
                store(row, c, head[c])


@parallel
def inner_products(inner, dout, out, h0, NH):
    """inner (n, T) = Σ dout·out of each head from h0 on."""
    (n, T), hs = inner.shape, out.shape[2] // NH
    for task in prange(n * T):
        b, t, column, _ = _places(task, h0, n, T, NH, hs, T)
        do, o, total = dout[b, t, column:], out[b, t, column:], ZERO
        for c in range(hs):
            total += load(do, c) * load(o, c)
        inner[task // T, t] = total


@serial
def _fill(a, value):
    for i in range(a.size):
        store(a, i, value)


@serial
def _highest(s):
    """The largest number of s: found among integers in the same order, for which the compiler takes vectors."""
    bits, top = s.view(np.int32), LOWEST
    for j in range(bits.size):
        ordered = np.int32(bits[j] ^ np.int32(np.int32(bits[j] >> SIGN) & ALL_BUT_SIGN))
        top = ordered if ordered > top else top
    return np.int32(top ^ np.int32(np.int32(top >> SIGN) & ALL_BUT_SIGN)).view(np.float32)


@serial
def _softmax_row(p, s, o, state, scale, is_last):
    """One query's p = e^(scale · (s - peak)), on the last tile divided by the sum; state: (peak, sum). Returns L."""
    highest, before = _highest(s), state[0]
    peak = before if before > highest else highest
    shrunk, total = exp(scale * (before - peak)), ZERO
    for j in range(s.size):
        s[j] = exp(scale * (s[j] - peak))
    for j in range(s.size):
        total += s[j]
    state[0], state[1] = peak, total + shrunk * state[1]
    factor = ONE / state[1] if is_last else ONE
    for j in range(s.size):
        store(p, j, s[j] * factor)
    _fill(p[s.size :], ZERO)
    for c in range(o.size):
        o[c] *= shrunk * factor
    return scale * peak + np.log(state[1])


@parallel
def softmax(p, scores, o, state, L, scale, i0, j0):
    """p, from scores, which are lost: the tile (n, rows, columns) at query i0, key j0; o: output so far; L (n, T)."""
    n, rows, columns = scores.shape
    for task in prange(n * rows):
        h, i = task // rows, task % rows
        keys = i + 1 if i0 == j0 else columns
        s = scores[h, i, : min(-(-keys // VECTORS) * VECTORS, columns)]
        _fill(s[keys:], NOTHING)
        L[h, i0 + i] = _softmax_row(p[h, i], s, o[h, i], state[h, i], scale, i0 == j0)


@serial
def _softmax_row_backward(p, ds, s, dp, L, inner, scale):
    for i in range(s.size):
        s[i] = exp(scale * s[i] - L[i])
        dp[i] = s[i] * (dp[i] - inner[i]) * scale
    for i in range(s.size):
        store(p, i, s[i])
        store(ds, i, dp[i])


@parallel
def softmax_backward(p, ds, scores, dp, L, inner, scale, i0, j0):
    """p, and ds = p · (dp - inner) · scale, the scores' gradient: a tile (n, keys, queries); L, inner (n, T)."""
    n, keys, _ = scores.shape
    for task in prange(n * keys):
        h, j = task // keys, task % keys
        unseen = j if i0 == j0 else 0  # queries before this key
        i = unseen // VECTORS * VECTORS
        p_, ds_, s, dp_ = p[h, j, i:], ds[h, j, i:], scores[h, j, i:], dp[h, j, i:]
        _softmax_row_backward(p_, ds_, s, dp_, L[h, i0 + i :], inner[h, i0 + i :], scale)
        _fill(p[h, j, :unseen], ZERO)
        _fill(ds[h, j, :unseen], ZERO)
