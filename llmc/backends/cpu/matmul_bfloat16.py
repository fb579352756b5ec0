"""The linear layer in bfloat16: by oneDNN where the processor multiplies such numbers, else tile by tile in float32.

Sums are taken in float32, and rounded once.
"""

import numpy as np
from numba import get_num_threads, prange

from llmc.backends.cpu import blas, onednn
from llmc.backends.cpu.bfloat16 import load, store, widened
from llmc.backends.cpu.compiled import ZERO, bounds, parallel, serial
from llmc.backends.cpu.gemm import gemm
from llmc.backends.cpu.scratch import scratch

BLOCK = 256  # rows and columns of a tile: three of them fit a core's cache in float32


def description() -> str:
    """What multiplies: "onednn 2023.2.0", or "float32" where bfloat16 is widened first."""
    return onednn.description() if onednn.multiplies_bfloat16() else "float32"


def backward(dx, dw, db, dout, x, w, accumulate):
    """dx (N, C_in) = dout (N, C_out) · w; dw += doutᵀ · x; db += column sums of dout; dx and db may be None.

    Without accumulate, dw and db are written. dout may be float32, as the gradient of the residual stream is; it is
    rounded first.
    """
    if dout.dtype != np.uint16:
        exact, dout = dout, scratch("rounded", dout.shape, "uint16")
        _round(dout.reshape(-1), exact.reshape(-1))
    if dx is not None:
        product(dx, dout, w)
    product(dw, dout.T, x, add=accumulate)
    if db is not None:
        _add_columns(db, dout, accumulate, scratch("columns", db.shape, "float32"), get_num_threads())


def product(out, a, b, bias=None, add=False):
    """out (m, n) = a (m, k) · b (k, n) + bias (n,), and with add, + out. a and b may be transposed."""
    if onednn.multiplies_bfloat16():
        onednn.product(out, a, b, bias, add)
    else:
        in_float32(out, a, b, bias, add)


def in_float32(out, a, b, bias=None, add=False):
    """The same on every processor."""
    ta, tb = not a.flags.c_contiguous, not b.flags.c_contiguous
    stored = a.T if ta else a, b.T if tb else b
    parts = get_num_threads()
    tiles = scratch("tiles", (parts, 3, BLOCK, BLOCK), "float32")
    _product(blas.address(tiles.dtype), out, *stored, out[0, :0] if bias is None else bias, add, ta, tb, tiles)


@serial
def _widen(tile, rows, r0, r1, c0, c1):
    """tile = rows[r0:r1, c0:c1] in float32."""
    for r in range(r0, r1):
        for c in range(c0, c1):
            tile[r - r0, c - c0] = widened(rows[r, c])


@serial
def _finish(out, tile, bias, add, i0, i1, j0, j1):
    """out[i0:i1, j0:j1] = tile, with what is to be added, rounded; bias may be empty."""
    for i in range(i0, i1):
        if bias.size:
            for j in range(j0, j1):
                tile[i - i0, j - j0] += load(bias, j)
        if add:
            for j in range(j0, j1):
                tile[i - i0, j - j0] += load(out, (i, j))
        for j in range(j0, j1):
            store(out, (i, j), tile[i - i0, j - j0])


@parallel
def _product(address, out, a, b, bias, add, ta, tb, tiles):
    """a (m, k), or (k, m) if ta; b (k, n), or (n, k) if tb · tiles (parts, 3, BLOCK, BLOCK): of a, b and out."""
    (m, n), k = out.shape, a.shape[0] if ta else a.shape[1]
    parts, zero, one = tiles.shape[0], ZERO, tiles.dtype.type(1)
    across, down = (n + BLOCK - 1) // BLOCK, (m + BLOCK - 1) // BLOCK
    for part in prange(parts):
        ours, theirs, sums = tiles[part, 0], tiles[part, 1], tiles[part, 2]  # (BLOCK, BLOCK) each
        first, last = bounds(part, parts, across * down)
        for task in range(first, last):
            i0, j0 = task % down * BLOCK, task // down * BLOCK
            i1, j1 = min(i0 + BLOCK, m), min(j0 + BLOCK, n)
            for k0 in range(0, k, BLOCK):
                k1 = min(k0 + BLOCK, k)
                if ta:
                    _widen(ours, a, k0, k1, i0, i1)
                else:
                    _widen(ours, a, i0, i1, k0, k1)
                if tb:
                    _widen(theirs, b, j0, j1, k0, k1)
                else:
                    _widen(theirs, b, k0, k1, j0, j1)
                beta = zero if k0 == 0 else one
                a_, b_, sums_ = ours.ctypes.data, theirs.ctypes.data, sums.ctypes.data
                gemm(address, tb, ta, j1 - j0, i1 - i0, k1 - k0, b_, BLOCK, a_, BLOCK, beta, sums_, BLOCK)
            _finish(out, sums, bias, add, i0, i1, j0, j1)


@parallel
def _round(out, x):
    for i in prange(x.size):
        store(out, i, x[i])


@parallel
def _add_columns(db, dout, accumulate, sums, parts):
    """db (C,) += column sums of dout (N, C), added up in sums (C,), float32; without accumulate, db is written."""
    C = db.size
    for part in prange(parts):
        c0, c1 = bounds(part, parts, C)
        for c in range(c0, c1):
            sums[c] = load(db, c) if accumulate else ZERO
        _sum_columns(sums, dout, c0, c1)
        for c in range(c0, c1):
            store(db, c, sums[c])


@serial
def _sum_columns(sums, dout, c0, c1):
    """sums[c0:c1] += column sums of dout (N, C); four rows at a time."""
    N, sums = dout.shape[0], sums[c0:c1]
    fours = N // 4 * 4
    for n in range(0, fours, 4):
        p, q, r, s = dout[n, c0:c1], dout[n + 1, c0:c1], dout[n + 2, c0:c1], dout[n + 3, c0:c1]
        for c in range(sums.size):  # from 0 on: a loop whose index could be negative is not vectorised
            sums[c] += load(p, c) + load(q, c) + (load(r, c) + load(s, c))
    for n in range(fours, N):
        p = dout[n, c0:c1]
        for c in range(sums.size):
            sums[c] += load(p, c)
