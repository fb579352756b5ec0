"""Causal attention, a block of queries at a time: the (T, T) scores of a head never exist as a whole.

One number per query is kept for the backward pass, the logarithm of its softmax's sum (Dao et al. 2022 call it L); the
backward pass recomputes the probabilities from it. A block of queries sees only the keys up to its own end, so half of
the square's work is never done. A block's matmuls are gemms on the rows of qkv, in place.
"""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu import blas
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
        peak = p[i, 0]
        for j in range(1, keys):
            peak = p[i, j] if p[i, j] > peak else peak
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


@parallel
def _forward(address, out, stats, qkv, NH, scale, scores):
    """scores (parts, BLOCK, T): room for one block per thread."""
    B, T, C = out.shape
    hs, size, zero = C // NH, out.itemsize, out.dtype.type(0)
    width, parts = 3 * C, scores.shape[0]
    for part in prange(parts):
        s = scores[part]  # (BLOCK, T)
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            q = qkv.ctypes.data + size * (b * T * width + h * hs)
            k, v, o = q + size * C, q + 2 * size * C, out.ctypes.data + size * (b * T * C + h * hs)
            for first in range(0, T, BLOCK):
                end = min(first + BLOCK, T)
                rows = end - first
                block = q + size * first * width
                gemm(address, True, False, end, rows, hs, k, width, block, width, zero, s.ctypes.data, T)
                _softmax(s, rows, first, end, scale, stats[b, h, first:end])
                mixed = o + size * first * C
                gemm(address, False, False, hs, rows, end, v, width, s.ctypes.data, T, zero, mixed, C)


@serial
def _softmax_backward(p, dp, rows, first, end, scale, stats, do, o):
    """Turn scores p (rows, end) into probabilities, and dp into the scores' gradient, p · (dp - Σ do·o) · scale."""
    for i in range(rows):
        keys = first + i + 1
        inner = p.dtype.type(0)
        for c in range(do.shape[1]):
            inner += do[i, c] * o[i, c]
        for j in range(keys):
            p[i, j] = exp(scale * p[i, j] - stats[i])
            dp[i, j] = p[i, j] * (dp[i, j] - inner) * scale
        for j in range(keys, end):
            p[i, j] = ZERO
            dp[i, j] = ZERO


@parallel
def _backward(address, dqkv, dout, out, stats, qkv, NH, scale, scores):
    """scores (parts, 2, BLOCK, T). The last block comes first: it sees every key, so it can write all of dk and dv."""
    B, T, C = out.shape
    hs, size, zero = C // NH, out.itemsize, out.dtype.type(0)
    one, width, parts = out.dtype.type(1), 3 * C, scores.shape[0]
    blocks = (T + BLOCK - 1) // BLOCK
    for part in prange(parts):
        p, dp = scores[part, 0], scores[part, 1]  # (BLOCK, T) each
        p_, dp_ = p.ctypes.data, dp.ctypes.data
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            channels = slice(h * hs, (h + 1) * hs)
            start = size * (b * T * width + h * hs)
            q, dq = qkv.ctypes.data + start, dqkv.ctypes.data + start
            k, v, dk, dv = q + size * C, q + 2 * size * C, dq + size * C, dq + 2 * size * C
            do = dout.ctypes.data + size * (b * T * C + h * hs)
            for block in range(blocks - 1, -1, -1):
                first, end = block * BLOCK, min((block + 1) * BLOCK, T)
                rows, beta = end - first, zero if block == blocks - 1 else one
                qb, dqb, dob = q + size * first * width, dq + size * first * width, do + size * first * C
                gemm(address, True, False, end, rows, hs, k, width, qb, width, zero, p_, T)
                gemm(address, True, False, end, rows, hs, v, width, dob, C, zero, dp_, T)
                rows_do, rows_o = dout[b, first:end, channels], out[b, first:end, channels]  # (rows, hs) each
                _softmax_backward(p, dp, rows, first, end, scale, stats[b, h, first:end], rows_do, rows_o)
                gemm(address, False, True, hs, end, rows, dob, C, p_, T, beta, dv, width)
                gemm(address, False, True, hs, end, rows, qb, width, dp_, T, beta, dk, width)
                gemm(address, False, False, hs, rows, end, k, width, dp_, T, zero, dqb, width)


@parallel
def _one_query(out, cache, qkv, NH, i, position, scale, scores):
    """attention_cached for the i-th of the new positions; scores (B · NH, maxT)."""
    B, C = out.shape[0], out.shape[2]
    hs = C // NH
    for task in prange(B * NH):
        b, h = task // NH, task % NH
        q = qkv[b, i, h * hs : (h + 1) * hs]  # (hs,)
        k, v, s, o = cache[0, b, h], cache[1, b, h], scores[task], out[b, i, h * hs : (h + 1) * hs]
        for c in range(hs):
            k[position, c], v[position, c], o[c] = qkv[b, i, C + h * hs + c], qkv[b, i, 2 * C + h * hs + c], ZERO
        for j in range(position + 1):
            dot = q[0] * ZERO
            for c in range(hs):
                dot += q[c] * k[j, c]
            s[j] = dot
        peak = s[: position + 1].max()
        total = peak * ZERO
        for j in range(position + 1):
            s[j] = exp(scale * (s[j] - peak))
        for j in range(position + 1):
            total += s[j]
        for j in range(position + 1):
            share = s[j] / total
            for c in range(hs):
                o[c] += share * v[j, c]


def _scores(name, copies, T, dtype):
    return scratch(name, (get_num_threads(), *copies, BLOCK, T), dtype)


def attention_forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head; stats keeps the logarithm of each softmax's sum."""
    T, C = out.shape[1:]
    scale = out.dtype.type((C // NH) ** -0.5)
    _forward(blas.address(out.dtype), out, stats, qkv, NH, scale, _scores("scores", (), T, out.dtype))


def attention_backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p · v, p = softmax(q · kᵀ / √hs), with p recomputed block by block."""
    T, C = out.shape[1:]
    scale = out.dtype.type((C // NH) ** -0.5)
    scores = _scores("scores and gradients", (2,), T, out.dtype)
    _backward(blas.address(out.dtype), dqkv, dout, out, stats, qkv, NH, scale, scores)


def attention_cached(out, cache, qkv, NH, start):
    """Positions start … start + n - 1 only; a prompt (start 0) is ordinary attention that also fills the cache."""
    B, n, C = out.shape
    hs, maxT, dtype = C // NH, cache.shape[3], out.dtype
    if start == 0:
        heads = qkv.reshape(B, n, 3, NH, hs).transpose(2, 0, 3, 1, 4)  # (3, B, NH, n, hs)
        cache[:, :, :, :n] = heads[1:]  # (2, B, NH, n, hs)
        attention_forward(out, scratch("stats", attention_stats_shape(B, n, NH), dtype), qkv, NH)
        return
    scores = scratch("one query", (B * NH, maxT), dtype)
    for i in range(n):
        _one_query(out, cache, qkv, NH, i, start + i, dtype.type(hs**-0.5), scores)
