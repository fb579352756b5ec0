"""Causal attention in bfloat16 by oneDNN: like `attention.py`, one thread computes a head, a block of it at a time.

Forward, a block consists of queries, and sees the keys up to its own end; backward, it consists of keys, which the
queries from its beginning on see. So all sums but that of dq are products of long rows, written once. oneDNN is fastest
with contiguous factors, so heads are copied from the rows of qkv. Scores and sums are float32; what is multiplied is
rounded, as everywhere.
"""

from functools import lru_cache

import numpy as np
from numba import get_num_threads, prange

from llmc.backends.cpu import onednn
from llmc.backends.cpu.bfloat16 import highest, load, store
from llmc.backends.cpu.compiled import ONE, ZERO, exp, parallel, serial
from llmc.backends.cpu.onednn import multiply
from llmc.backends.cpu.scratch import scratch

BLOCK = 128  # queries, or keys, at a time: with 1024 of the others, their scores, 12 bytes each, fit a core's cache
LEAST = 64  # positions from which this is faster than float32
LENGTHS = 8  # of sequences, for which products are kept
VECTORS = 32  # numbers that a compiled loop takes at once; the rest, one by one
APART = 32  # numbers between rows of scores: rows that begin 4096 bytes apart compete for the same cache lines
NOTHING = np.float32(-np.inf)


def is_faster(qkv) -> bool:
    """Whether to use the functions below for this input (B, T, 3C) of bfloat16."""
    return qkv.shape[1] >= LEAST and onednn.multiplies_bfloat16()


def forward(out, stats, qkv, NH):
    """softmax(q · kᵀ / √hs + causal mask) · v per head; stats (B, NH, T) is L."""
    (_, T, C), parts = out.shape, get_num_threads()
    hs, products = C // NH, _forward_products(T, C, C // NH, qkv.dtype, BLOCK, parts)
    heads, rows = scratch("heads", (parts, 3, T, hs), qkv.dtype), (parts, BLOCK, T + APART)
    room = scratch("scores", rows, "float32"), scratch("p", rows, qkv.dtype)
    attend(products.plans, products.space, out, stats, qkv, NH, np.float32(hs**-0.5), heads, *room)


def backward(dqkv, dout, out, stats, qkv, NH):
    """Backward through out = p · v, p = softmax(q · kᵀ / √hs). Gradients are summed in float32, and rounded once."""
    (_, T, C), parts = out.shape, get_num_threads()
    hs, products = C // NH, _backward_products(T, C, C // NH, qkv.dtype, BLOCK, parts)
    heads, rows = scratch("heads", (parts, 4, T, hs), qkv.dtype), (parts, 2, BLOCK, T + APART)
    sums, inner = scratch("sums", (parts, T, hs), "float32"), scratch("inner", (parts, T), "float32")
    room = sums, inner, scratch("scores", rows, "float32"), scratch("p", rows, qkv.dtype)
    attend_backward(products.plans, products.space, dqkv, dout, out, stats, qkv, NH, np.float32(hs**-0.5), heads, *room)


@lru_cache(LENGTHS)
def _forward_products(T, C, hs, dtype, block, parts):
    """For each block of queries: its scores, and its part of out."""
    head, out = np.empty((T, hs), dtype), np.empty((T, C), dtype)[:, :hs]
    scores, p = (np.empty((block, T + APART), each) for each in (np.float32, dtype))
    products = []
    for first in range(0, T, block):
        end, n = min(first + block, T), min(block, T - first)
        products.append([(scores[:n, :end], head[first:end], head[:end].T), (out[first:end], p[:n, :end], head[:end])])
    return onednn.Products(products, parts)


@lru_cache(LENGTHS)
def _backward_products(T, C, hs, dtype, block, parts):
    """For each block of keys: its scores, their gradient; its dv and dk, and what it adds to dq."""
    head, sums, gradient = np.empty((T, hs), dtype), np.empty((T, hs), np.float32), np.empty((T, 3 * C), dtype)[:, :hs]
    scores, p = (np.empty((block, T + APART), each) for each in (np.float32, dtype))
    products = []
    for first in range(0, T, block):
        n, later = min(block, T - first), head[first:]  # (T - first, hs): of the queries that see these keys
        keys, s, p_ = later[:n], scores[:n, : len(later)], p[:n, : len(later)]
        two, two_sums = [(s, keys, later.T)] * 2, [(gradient[:n], p_, later)] * 2
        products.append([*two, *two_sums, (sums[first:], p_.T, keys, first > 0)])
    return onednn.Products(products, parts)


@serial
def _copy(head, rows, c0):
    """head (T, hs) = the columns c0 … of rows (T, n)."""
    for t in range(head.shape[0]):
        to, row = head[t], rows[t, c0:]
        for c in range(to.size):
            to[c] = row[c]


@serial
def _round(rows, sums, c0):
    """The columns c0 … of rows (T, n) = sums (T, hs), rounded."""
    for t in range(sums.shape[0]):
        row, total = rows[t, c0:], sums[t]
        for c in range(total.size):
            store(row, c, total[c])


@serial
def _inner(do, o):
    total = ZERO
    for c in range(do.size):
        total += load(do, c) * load(o, c)
    return total


@serial
def _fill(a, value):
    for i in range(a.size):
        store(a, i, value)


@serial
def _softmax_row(p, s, keys, scale):
    """p = softmax of the first `keys` of a query's scores s, which are overwritten, and 0 after them. Returns L."""
    s = s[: min(-(-keys // VECTORS) * VECTORS, s.size)]
    _fill(s[keys:], NOTHING)
    peak, total = highest(s), ZERO
    for j in range(s.size):
        s[j] = exp(scale * (s[j] - peak))
        total += s[j]
    inverse = ONE / total
    for j in range(s.size):
        store(p, j, s[j] * inverse)
    _fill(p[s.size :], ZERO)
    return scale * peak + np.log(total)


@parallel
def attend(plans, space, out, stats, qkv, NH, scale, heads, scores, p):
    """plans (blocks, 2, parts, …), space: for `multiply` · heads (parts, 3, T, hs): q, k, v.

    scores, p (parts, BLOCK, T + APART): of a block of queries, with a row for each.
    """
    B, T, C = out.shape
    parts, block, hs = scores.shape[0], scores.shape[1], heads.shape[3]
    for part in prange(parts):
        q, k, v = heads[part, 0], heads[part, 1], heads[part, 2]  # (T, hs) each
        s, shares = scores[part], p[part]  # both (BLOCK, T + APART)
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            for i in range(3):
                _copy(heads[part, i], qkv[b], i * C + h * hs)
            for i in range(plans.shape[0]):
                first, end = i * block, min((i + 1) * block, T)
                multiply(plans[i, 0, part], space[part], s.ctypes.data, q[first:].ctypes.data, k.ctypes.data)
                for t in range(first, end):
                    row = t - first
                    stats[b, h, t] = _softmax_row(shares[row, :end], s[row, :end], t + 1, scale)
                rows = out[b, first:, h * hs :].ctypes.data
                multiply(plans[i, 1, part], space[part], rows, shares.ctypes.data, v.ctypes.data)


@serial
def _softmax_row_backward(p, ds, s, dp, L, inner, unseen, scale):
    """One key's p, and ds = p · (dp - inner) · scale, for the queries that see it: all but the first `unseen`."""
    before = unseen // VECTORS * VECTORS
    p_, ds_, s, dp, L, inner = p[before:], ds[before:], s[before:], dp[before:], L[before:], inner[before:]
    for i in range(s.size):
        share = exp(scale * s[i] - L[i])
        store(p_, i, share)
        store(ds_, i, share * (dp[i] - inner[i]) * scale)
    _fill(p[:unseen], ZERO)
    _fill(ds[:unseen], ZERO)


@parallel
def attend_backward(plans, space, dqkv, dout, out, stats, qkv, NH, scale, heads, sums, inner, scores, p):
    """plans (blocks, 5, parts, …), space: for `multiply` · heads (parts, 4, T, hs): q, k, v, dout.

    sums (parts, T, hs): dq · inner (parts, T): Σ dout·out of each query · scores, p (parts, 2, BLOCK, T + APART): of a
    block of keys, with a row for each, and their gradients.
    """
    B, T, C = out.shape
    parts, block, hs = scores.shape[0], scores.shape[2], heads.shape[3]
    for part in prange(parts):
        do, dots = heads[part, 3], inner[part]  # (T, hs), (T,)
        s, dp, shares, ds = scores[part, 0], scores[part, 1], p[part, 0], p[part, 1]  # (BLOCK, T + APART) each
        s_, dp_, shares_, ds_ = s.ctypes.data, dp.ctypes.data, shares.ctypes.data, ds.ctypes.data
        for task in range(part, B * NH, parts):
            b, h = task // NH, task % NH
            L = stats[b, h]  # (T,)
            for i in range(3):
                _copy(heads[part, i], qkv[b], i * C + h * hs)
            _copy(do, dout[b], h * hs)
            for t in range(T):
                dots[t] = _inner(do[t], out[b, t, h * hs : (h + 1) * hs])
            for i in range(plans.shape[0]):
                first, room = i * block, space[part]
                rows, queries = min(block, T - first), T - first
                q, k = heads[part, 0, first:].ctypes.data, heads[part, 1, first:].ctypes.data
                v = heads[part, 2, first:].ctypes.data
                dk, dv = dqkv[b, first:, C + h * hs :].ctypes.data, dqkv[b, first:, 2 * C + h * hs :].ctypes.data
                later = do[first:].ctypes.data
                multiply(plans[i, 0, part], room, s_, k, q)
                multiply(plans[i, 1, part], room, dp_, v, later)
                for j in range(rows):
                    row = shares[j, :queries], ds[j, :queries], s[j, :queries], dp[j, :queries]
                    _softmax_row_backward(*row, L[first:], dots[first:], j, scale)
                multiply(plans[i, 2, part], room, dv, shares_, later)
                multiply(plans[i, 3, part], room, dk, ds_, q)
                multiply(plans[i, 4, part], room, sums[part, first:].ctypes.data, ds_, k)
            _round(dqkv[b], sums[part], h * hs)
