"""Causal attention, a block of queries at a time: the (T, T) scores of a head never exist as a whole.

One number per query is kept for the backward pass, the logarithm of its softmax's sum (Dao et al. 2022 call it L); the
backward pass recomputes the probabilities from it. A block of queries sees only the keys up to its own end, so half of
the square's work is never done. A block's matmuls are gemms on the rows of qkv, in place. In bfloat16, a head's
rows are first copied to float32, and what is computed from them is rounded at the end; where the processor multiplies
such numbers, longer sequences go to `attention_bfloat16.py`.
"""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu import attention_bfloat16, blas
from llmc.backends.cpu.bfloat16 import exact, highest, in_bits, load, store
from llmc.backends.cpu.compiled import ZERO, exp, parallel, serial
from llmc.backends.cpu.gemm import gemm
from llmc.backends.cpu.scratch import scratch

BLOCK = 64  # queries at a time: their scores (64, T) fit a core's cache


def attention_stats_shape(B, T, NH):
    """The logarithm of the softmax's sum for every query: (B, NH, T)."""
    return (B, NH, T)


@serial
def _softmax(p, rows, first, end, scale, stats):
    """Turn scores p (rows, end) of the queries first … into probabilities, zero for later keys; stats (rows,) is L."""
    for i in range(rows):
        keys = first + i + 1
        peak = highest(p[i, :keys])
        total = peak * ZERO
        for j in range(keys):
            p[i, j] = exp(scale * (p[i, j] - peak))
        for j in range(keys):
            total += p[i, j]
        inverse = p.dtype.type(1) / total
        for j in range(keys):
            p[i, j] *= inverse
        for j in range(keys, end):
            p[i, j] = ZERO
        stats[i] = scale * peak + math.log(total)


@serial
def _widen(wide, rows, c0):
    """wide (T, hs) = the columns c0 … of rows (T, n)."""
    for t in range(wide.shape[0]):
        for c in range(wide.shape[1]):
            wide[t, c] = load(rows, (t, c0 + c))


@serial
def _round(rows, wide, c0):
    """The columns c0 … of rows (T, n) = wide (T, hs), rounded."""
    for t in range(wide.shape[0]):
        for c in range(wide.shape[1]):
            store(rows, (t, c0 + c), wide[t, c])


@parallel
def _forward(address, out, stats, qkv, NH, scale, scores, wide):
    """scores (parts, BLOCK, T): room for one block per thread · wide (parts, 4, T, hs): for q, k, v, out in float32."""
    B, T, C = out.shape
    hs, size, zero = C // NH, scores.itemsize, scores.dtype.type(0)
    narrow, parts = wide.size > 0, scores.shape[0]
    width, gap, step = (hs, T * hs, hs) if narrow else (3 * C, C, C)  # elements from row to row, q to k, row to row
    for part in prange(parts):
        s = scores[part]  # (BLOCK, T)
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            q, o = qkv.ctypes.data + size * (b * T * width + h * hs), out.ctypes.data + size * (b * T * C + h * hs)
            if narrow:
                for i in range(3):
                    _widen(wide[part, i], qkv[b], i * C + h * hs)
                q, o = wide[part].ctypes.data, wide[part, 3].ctypes.data
            k, v = q + size * gap, q + 2 * size * gap
            for first in range(0, T, BLOCK):
                end = min(first + BLOCK, T)
                rows = end - first
                block = q + size * first * width
                gemm(address, True, False, end, rows, hs, k, width, block, width, zero, s.ctypes.data, T)
                _softmax(s, rows, first, end, scale, stats[b, h, first:end])
                mixed = o + size * first * step
                gemm(address, False, False, hs, rows, end, v, width, s.ctypes.data, T, zero, mixed, step)
            if narrow:
                _round(out[b], wide[part, 3], h * hs)


@serial
def _softmax_backward(p, dp, rows, first, end, scale, stats, do, o):
    """Turn scores p (rows, end) into probabilities, and dp into the scores' gradient, p · (dp - Σ do·o) · scale."""
    for i in range(rows):
        keys = first + i + 1
        inner = p.dtype.type(0)
        for c in range(do.shape[1]):
            inner += load(do, (i, c)) * load(o, (i, c))
        for j in range(keys):
            p[i, j] = exp(scale * p[i, j] - stats[i])
            dp[i, j] = p[i, j] * (dp[i, j] - inner) * scale
        for j in range(keys, end):
            p[i, j] = ZERO
            dp[i, j] = ZERO


@parallel
def _backward(address, dqkv, dout, out, stats, qkv, NH, scale, scores, wide):
    """scores (parts, 2, BLOCK, T) · wide (parts, 7, T, hs): room for q, k, v, dq, dk, dv, dout in float32.

    The last block comes first: it sees every key, so it can write all of dk and dv.
    """
    B, T, C = out.shape
    hs, size, zero, one = C // NH, scores.itemsize, scores.dtype.type(0), scores.dtype.type(1)
    narrow, parts = wide.size > 0, scores.shape[0]
    width, gap, step = (hs, T * hs, hs) if narrow else (3 * C, C, C)  # as in _forward
    blocks = (T + BLOCK - 1) // BLOCK
    for part in prange(parts):
        p, dp = scores[part, 0], scores[part, 1]  # (BLOCK, T) each
        p_, dp_ = p.ctypes.data, dp.ctypes.data
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            channels = slice(h * hs, (h + 1) * hs)
            start = size * (b * T * width + h * hs)
            q, dq = qkv.ctypes.data + start, dqkv.ctypes.data + start
            do = dout.ctypes.data + size * (b * T * C + h * hs)
            if narrow:
                for i in range(3):
                    _widen(wide[part, i], qkv[b], i * C + h * hs)
                _widen(wide[part, 6], dout[b], h * hs)
                q, dq, do = wide[part].ctypes.data, wide[part, 3].ctypes.data, wide[part, 6].ctypes.data
            k, v, dk, dv = q + size * gap, q + 2 * size * gap, dq + size * gap, dq + 2 * size * gap
            for block in range(blocks - 1, -1, -1):
                first, end = block * BLOCK, min((block + 1) * BLOCK, T)
                rows, beta = end - first, zero if block == blocks - 1 else one
                qb, dqb, dob = q + size * first * width, dq + size * first * width, do + size * first * step
                gemm(address, True, False, end, rows, hs, k, width, qb, width, zero, p_, T)
                gemm(address, True, False, end, rows, hs, v, width, dob, step, zero, dp_, T)
                rows_do, rows_o = dout[b, first:end, channels], out[b, first:end, channels]  # (rows, hs) each
                _softmax_backward(p, dp, rows, first, end, scale, stats[b, h, first:end], rows_do, rows_o)
                gemm(address, False, True, hs, end, rows, dob, step, p_, T, beta, dv, width)
                gemm(address, False, True, hs, end, rows, qb, width, dp_, T, beta, dk, width)
                gemm(address, False, False, hs, rows, end, k, width, dp_, T, zero, dqb, width)
            if narrow:
                for i in range(3):
                    _round(dqkv[b], wide[part, 3 + i], i * C + h * hs)


@parallel
def one_query(out, cache, qkv, NH, i, position, scale, scores, sums):
    """attention_cached for the i-th of the new positions; scores (B · NH, maxT); sums (B · NH, hs)."""
    B, C = out.shape[0], out.shape[2]
    hs = C // NH
    for task in prange(B * NH):
        b, h = task // NH, task % NH
        q = qkv[b, i, h * hs : (h + 1) * hs]  # (hs,)
        k, v, s, o = cache[0, b, h], cache[1, b, h], scores[task], sums[task]
        for c in range(hs):
            k[position, c], v[position, c], o[c] = qkv[b, i, C + h * hs + c], qkv[b, i, 2 * C + h * hs + c], ZERO
        for j in range(position + 1):
            dot = load(q, 0) * ZERO
            for c in range(hs):
                dot += load(q, c) * load(k, (j, c))
            s[j] = dot
        peak = highest(s[: position + 1])
        total = peak * ZERO
        for j in range(position + 1):
            s[j] = exp(scale * (s[j] - peak))
        for j in range(position + 1):
            total += s[j]
        for j in range(position + 1):
            share = s[j] / total
            for c in range(hs):
                o[c] += share * load(v, (j, c))
        for c in range(hs):
            store(out, (b, i, h * hs + c), o[c])


def _room(name, copies, stats, qkv, NH, heads):
    """(scores (parts, *copies, BLOCK, T), wide (parts, heads, T, hs)): room for every thread; wide only if needed."""
    T, hs, parts = qkv.shape[1], qkv.shape[2] // (3 * NH), get_num_threads()
    wide = (parts, heads, T, hs) if qkv.dtype != stats.dtype else (0, heads, T, hs)
    scores = scratch(f"scores {name}", (parts, *copies, BLOCK, T), stats.dtype)
    return scores, scratch(f"heads {name}", wide, stats.dtype)


@in_bits
def attention_forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head; stats keeps the logarithm of each softmax's sum."""
    if qkv.itemsize == 2 and attention_bfloat16.is_faster(qkv):
        attention_bfloat16.forward(out, stats, qkv, NH)
        return
    scale = stats.dtype.type((out.shape[2] // NH) ** -0.5)
    _forward(blas.address(stats.dtype), out, stats, qkv, NH, scale, *_room("forward", (), stats, qkv, NH, heads=4))


@in_bits
def attention_backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p · v, p = softmax(q · kᵀ / √hs), with p recomputed block by block."""
    if qkv.itemsize == 2 and attention_bfloat16.is_faster(qkv):
        attention_bfloat16.backward(dqkv, dout, out, stats, qkv, NH)
        return
    scale = stats.dtype.type((out.shape[2] // NH) ** -0.5)
    room = _room("backward", (2,), stats, qkv, NH, heads=7)
    _backward(blas.address(stats.dtype), dqkv, dout, out, stats, qkv, NH, scale, *room)


@in_bits
def attention_cached(out, cache, qkv, NH, start):
    """Positions start … start + n - 1 only; a prompt (start 0) is ordinary attention that also fills the cache."""
    B, n, C = out.shape
    hs, maxT, dtype = C // NH, cache.shape[3], exact(out.dtype)
    if start == 0:
        heads = qkv.reshape(B, n, 3, NH, hs).transpose(2, 0, 3, 1, 4)  # (3, B, NH, n, hs)
        cache[:, :, :, :n] = heads[1:]  # (2, B, NH, n, hs)
        attention_forward(out, scratch("stats", attention_stats_shape(B, n, NH), dtype), qkv, NH)
        return
    room = scratch("one query", (B * NH, maxT), dtype), scratch("one output", (B * NH, hs), dtype)
    for i in range(n):
        one_query(out, cache, qkv, NH, i, start + i, dtype.type(hs**-0.5), *room)
