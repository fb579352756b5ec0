"""The linear layer: three gemms, each cut into one tile of the output per thread; `matmul_bfloat16.py` has others.

BLAS is column-major: it sees a row-major out (N, C_out) as a (C_out, N) matrix, so weights come first and rows second.

A single row, as in sampling, is bound by reading the weights. A gemm rearranges them first; a loop reads them once.
"""

import numpy as np
from numba import get_num_threads, prange

from llmc.backends.cpu import blas, matmul_bfloat16
from llmc.backends.cpu.bfloat16 import exact, in_bits, load, store
from llmc.backends.cpu.compiled import ZERO, bounds, gelu, parallel, serial
from llmc.backends.cpu.gemm import gemm
from llmc.backends.cpu.instructions import prefetch
from llmc.backends.cpu.pointwise import gelu_constants, gelu_forward
from llmc.backends.cpu.scratch import LINE, scratch

FEW = 4  # rows of x up to which a product is bound by memory
STEP, AHEAD = 128, 768  # numbers of a row that are multiplied between two bouts of fetching; how far ahead that is
SLAB = 100_000  # weights that fit in a core's cache (L2) next to everything else


@serial
def tiles(parts, m, n):
    """Into how many of `parts` tiles to cut m (the rest cut n): the cut for which a tile reads the least."""
    best = 1
    for p in range(1, parts + 1):
        if parts % p == 0 and m // p + n * p // parts < m // best + n * best // parts:
            best = p
    return best


@parallel
def _forward(address, out, x, w, b, gelu_out, linear, cubic, parts):
    """out (N, C_out) = x (N, C_in) · wᵀ + b and, while a tile is in the cache, its GELU; b, gelu_out may be empty."""
    (N, C_in), C_out, size = x.shape, w.shape[0], x.itemsize
    pm = tiles(parts, C_out, N)
    for part in prange(parts):
        c0, c1 = bounds(part % pm, pm, C_out)
        n0, n1 = bounds(part // pm, parts // pm, N)
        if b.size:  # gemm adds to what is already there: the bias
            for n in range(n0, n1):
                out[n, c0:c1] = b[c0:c1]
        beta = w.dtype.type(1 if b.size else 0)
        weights, rows = w.ctypes.data + size * c0 * C_in, x.ctypes.data + size * n0 * C_in
        tile = out.ctypes.data + size * (n0 * C_out + c0)
        gemm(address, True, False, c1 - c0, n1 - n0, C_in, weights, C_in, rows, C_in, beta, tile, C_out)
        if gelu_out.size:
            for n in range(n0, n1):
                row, gelu_row = out[n, c0:c1], gelu_out[n, c0:c1]  # (c1 - c0,) each
                for c in range(row.size):  # from 0 on: a loop whose index could be negative is not vectorised
                    gelu_row[c] = gelu(row[c], linear, cubic)


@serial
def _four_dots(out, x, w, flat, b, n, i, gap, ahead):
    """out[n, r] = x[n] · w[r] + b[r] for the rows i, i + gap, i + 2 gap and i + 3 gap of w; b may be empty.

    flat (C_out · C_in,): w once more · ahead: how many numbers ahead it fetches the next ones meanwhile, or 0.
    """
    j, k, l = i + gap, i + 2 * gap, i + 3 * gap
    p, q, r, s = ZERO, ZERO, ZERO, ZERO
    if b.size:
        p, q, r, s = load(b, i), load(b, j), load(b, k), load(b, l)
    C_in, line = w.shape[1], LINE // w.itemsize
    for c0 in range(0, C_in, STEP):
        c1 = min(c0 + STEP, C_in)
        if ahead:
            for c in range(c0 + ahead, c1 + ahead, line):
                prefetch(flat, i * C_in + c)
                prefetch(flat, j * C_in + c)
                prefetch(flat, k * C_in + c)
                prefetch(flat, l * C_in + c)
        y, wi, wj, wk, wl = x[n, c0:c1], w[i, c0:c1], w[j, c0:c1], w[k, c0:c1], w[l, c0:c1]
        for c in range(y.size):  # from 0 on: a loop whose index could be negative is not vectorised
            number = load(y, c)
            p += number * load(wi, c)
            q += number * load(wj, c)
            r += number * load(wk, c)
            s += number * load(wl, c)
    store(out, (n, i), p)
    store(out, (n, j), q)
    store(out, (n, k), r)
    store(out, (n, l), s)


@parallel
def few_rows(out, x, w, b, gelu_out, linear, cubic, parts):
    """out (N, C_out) = x (N, C_in) · wᵀ + b and its GELU; a row of w is read once for all rows of x.

    b, gelu_out may be empty. Four rows at a time, each from its own quarter of w: a processor fetches ahead within a
    page of memory and waits at its end, and four such waits overlap. It waits less when it is told what comes next:
    bfloat16 is then read nearly as fast as by a loop that only adds up what it reads (Xeon, two threads).
    """
    N, C_out, quarter, flat = x.shape[0], w.shape[0], w.shape[0] // 4, w.reshape(-1)
    for part in prange(parts):
        first, last = bounds(part, parts, quarter)
        for i in range(first, last):
            for n in range(N):
                _four_dots(out, x, w, flat, b, n, i, quarter, 0 if n else AHEAD)
        if part == 0:
            for i in range(4 * quarter, C_out):
                for n in range(N):
                    _four_dots(out, x, w, flat, b, n, i, 0, 0)  # four times the same row; there are three at most
        if gelu_out.size:
            for n in range(N):
                for start in range(0, 4 * quarter, quarter):
                    _gelu(gelu_out, out, n, start + first, start + last, linear, cubic)
                if part == 0:
                    _gelu(gelu_out, out, n, 4 * quarter, C_out, linear, cubic)


@serial
def _gelu(gelu_out, out, n, c0, c1, linear, cubic):
    """gelu_out[n, c0:c1] = GELU of what `out` keeps there."""
    row, x = gelu_out[n, c0:c1], out[n, c0:c1]
    for c in range(x.size):
        store(row, c, gelu(load(x, c), linear, cubic))


@serial
def fetch(w, r0, r1, c0, c1):
    """Read a number from every cache line of w[r0:r1, c0:c1], in order. Without the sum it would be optimised away."""
    total = w[0, 0]
    for r in range(r0, r1):
        for c in range(c0, c1, LINE // w.itemsize):
            total += w[r, c]
    return total


@parallel
def _backward_input(address, dx, dout, w, fetched, parts):
    """dx (N, C_in) = dout (N, C_out) · w, a slab of w at a time; BLAS adds up the slabs' parts of the sum over C_out.

    A tile reads a strip of columns of w. OpenBLAS reads a strip in an order that keeps waiting for memory. If we read
    it first, row by row, it arrives at full speed and BLAS finds it in the cache. That saves a tenth of a step.
    """
    (N, C_in), C_out, size = dx.shape, w.shape[0], w.itemsize
    pm = tiles(parts, C_in, N)
    for part in prange(parts):
        c0, c1 = bounds(part % pm, pm, C_in)
        n0, n1 = bounds(part // pm, parts // pm, N)
        tile = dx.ctypes.data + size * (n0 * C_in + c0)
        step = max(SLAB // max(c1 - c0, 1), 1)
        for r0 in range(0, C_out, step):
            r1 = min(r0 + step, C_out)
            fetched[part, 0] = fetch(w, r0, r1, c0, c1)
            weights, rows = w.ctypes.data + size * (r0 * C_in + c0), dout.ctypes.data + size * (n0 * C_out + r0)
            beta = w.dtype.type(0 if r0 == 0 else 1)
            gemm(address, False, False, c1 - c0, n1 - n0, r1 - r0, weights, C_in, rows, C_out, beta, tile, C_in)


@parallel
def _backward_weights(address, dw, db, dout, x, accumulate, parts):
    """dw (C_out, C_in) += doutᵀ · x (N, C_in), added by BLAS; db += column sums of dout; db may be empty.

    Without accumulate, both are written.
    """
    (N, C_in), C_out, size = x.shape, dw.shape[0], x.itemsize
    pm = tiles(parts, C_in, C_out)
    for part in prange(parts):
        k0, k1 = bounds(part % pm, pm, C_in)
        c0, c1 = bounds(part // pm, parts // pm, C_out)
        if db.size and part % pm == 0:
            if not accumulate:
                db[c0:c1] = ZERO
            for n in range(N):
                for c in range(c0, c1):
                    db[c] += dout[n, c]
        inputs, errors = x.ctypes.data + size * k0, dout.ctypes.data + size * c0
        tile = dw.ctypes.data + size * (c0 * C_in + k0)
        beta = x.dtype.type(1 if accumulate else 0)
        gemm(address, False, True, k1 - k0, c1 - c0, N, inputs, C_in, errors, C_out, beta, tile, C_in)


@in_bits
def matmul_forward(out, x, w, b):
    """out = x · wᵀ + b."""
    _run_forward(out, x, w, b, out[:0])


@in_bits
def matmul_gelu_forward(gelu_out, out, x, w, b):
    """out = x · wᵀ + b, gelu_out = GELU(out), in one go."""
    _run_forward(out, x, w, b, gelu_out)


def _run_forward(out, x, w, b, gelu_out):
    C_out, C_in = w.shape
    dtype = w.dtype
    rows = out.reshape(-1, C_out), x.reshape(-1, C_in)  # (N, C_out), (N, C_in)
    bias = w[:0, 0] if b is None else b  # (0,) or (C_out,)
    arguments = (*rows, w, bias, gelu_out.reshape(-1, C_out), *gelu_constants(exact(dtype)), get_num_threads())
    if len(rows[1]) <= FEW:
        few_rows(*arguments)
    elif dtype != np.uint16:
        _forward(blas.address(dtype), *arguments)
    else:
        matmul_bfloat16.product(*rows, w.T, b)
        if gelu_out.size:
            gelu_forward(gelu_out, out)


@in_bits
def matmul_backward(dx, dw, db, dout, x, w, accumulate=True):
    """dx = dout · w; dw += doutᵀ · x; db += column sums of dout; or, without accumulate, = instead of +=."""
    C_out, C_in = w.shape
    dout, x = dout.reshape(-1, C_out), x.reshape(-1, C_in)  # (N, C_out), (N, C_in)
    dx = None if dx is None else dx.reshape(-1, C_in)  # (N, C_in)
    if w.dtype == np.uint16:
        matmul_bfloat16.backward(dx, dw, db, dout, x, w, accumulate)
        return
    address, parts = blas.address(w.dtype), get_num_threads()
    if dx is not None:
        fetched = scratch("fetched", (parts, LINE), w.dtype)
        _backward_input(address, dx, dout, w, fetched, parts)
    _backward_weights(address, dw, w[0, :0] if db is None else db, dout, x, accumulate, parts)
