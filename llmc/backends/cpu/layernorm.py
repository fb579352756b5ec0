"""Layernorm, alone or after a residual addition: a row is read from memory once and stays in the cache."""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu.bfloat16 import in_bits, load, store
from llmc.backends.cpu.compiled import ZERO, bounds, normalised, parallel, serial
from llmc.backends.cpu.scratch import scratch
from llmc.backends.reference import EPS


@serial
def forward_row(n, residual, out, mean, rstd, x1, x2, w, b, eps):
    """Row n of what `_forward` does."""
    C, added = x1.shape[1], x2.shape[0] > 0
    scale = mean.dtype.type(1) / mean.dtype.type(C)
    x = residual[n] if added else x1[n]  # (C,)
    if added:
        for c in range(C):
            x[c] = x1[n, c] + load(x2, (n, c))
    total = mean.dtype.type(0)
    for c in range(C):
        total += x[c]
    centre = total * scale
    squares = mean.dtype.type(0)
    for c in range(C):
        squares += (x[c] - centre) * (x[c] - centre)
    r = mean.dtype.type(1) / math.sqrt(squares * scale + eps)
    for c in range(C):
        store(out, (n, c), normalised(x[c], centre, r, load(w, c), load(b, c)))
    mean[n], rstd[n] = centre, r


@parallel
def _forward(residual, out, mean, rstd, x1, x2, w, b, eps):
    """Rows (N, C); mean, rstd (N,). If x2 has no rows, x1 is normalised alone and residual stays as it is."""
    for n in prange(x1.shape[0]):
        forward_row(n, residual, out, mean, rstd, x1, x2, w, b, eps)


@parallel
def _again(out, x, w, b, mean, rstd):
    """Rows (N, C); mean, rstd (N,)."""
    N, C = x.shape
    for n in prange(N):
        centre, r = mean[n], rstd[n]
        for c in range(C):
            store(out, (n, c), normalised(x[n, c], centre, r, load(w, c), load(b, c)))


@parallel
def _backward(dx, dw, db, dout, x, w, mean, rstd, partial):
    """Each part sums dw and db over its rows into partial (parts + 1, 2, C); then the parts are added in order."""
    N, C = x.shape
    parts = partial.shape[0] - 1
    scale = mean.dtype.type(1) / mean.dtype.type(C)
    for part in prange(parts):
        n0, n1 = bounds(part, parts, N)
        pw, pb = partial[part, 0], partial[part, 1]  # (C,) each
        pw[:] = ZERO
        pb[:] = ZERO
        for n in range(n0, n1):
            centre, r = mean[n], rstd[n]
            through_mean, through_rstd = mean.dtype.type(0), mean.dtype.type(0)
            for c in range(C):
                norm = (x[n, c] - centre) * r
                through_mean += load(dout, (n, c)) * load(w, c)
                through_rstd += load(dout, (n, c)) * load(w, c) * norm
            through_mean *= scale
            through_rstd *= scale
            for c in range(C):
                pw[c] += load(dout, (n, c)) * ((x[n, c] - centre) * r)
            for c in range(C):
                pb[c] += load(dout, (n, c))
            for c in range(C):
                norm = (x[n, c] - centre) * r
                dx[n, c] += (load(dout, (n, c)) * load(w, c) - through_mean - norm * through_rstd) * r
    sums = partial[parts]  # (2, C)
    for c in range(C):
        sums[0, c], sums[1, c] = load(dw, c), load(db, c)
    for part in range(parts):
        for c in range(C):
            sums[0, c] += partial[part, 0, c]
            sums[1, c] += partial[part, 1, c]
    for c in range(C):
        store(dw, c, sums[0, c])
        store(db, c, sums[1, c])


@in_bits
def layernorm_forward(out, mean, rstd, x, w, b):
    """norm = (x - mean) · rstd; out = norm · w + b."""
    C = w.size
    rows = x.reshape(-1, C)  # (N, C)
    out, stats = out.reshape(-1, C), (mean.reshape(-1), rstd.reshape(-1))  # (N, C), (N,) each
    _forward(rows, out, *stats, rows, out[:0], w, b, mean.dtype.type(EPS))


@in_bits
def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b):
    """residual = x1 + x2 and its layernorm, row by row."""
    C = w.size
    flat = (array.reshape(-1, C) for array in (x1, x2))  # (N, C) each
    stats = (mean.reshape(-1), rstd.reshape(-1))  # (N,) each
    _forward(residual.reshape(-1, C), out.reshape(-1, C), *stats, *flat, w, b, mean.dtype.type(EPS))


@in_bits
def layernorm_again(out, x, w, b, mean, rstd):
    """Layernorm once more, from its mean and rstd."""
    C = w.size
    _again(out.reshape(-1, C), x.reshape(-1, C), w, b, mean.reshape(-1), rstd.reshape(-1))


@in_bits
def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd):
    """dx += rstd · (dnorm - mean(dnorm) - norm · mean(dnorm · norm)); dw, db as sums over the rows."""
    C = w.size
    dx, dout, x = (array.reshape(-1, C) for array in (dx, dout, x))  # (N, C) each
    partial = scratch("layernorm", (get_num_threads() + 1, 2, C), mean.dtype)
    _backward(dx, dw, db, dout, x, w, mean.reshape(-1), rstd.reshape(-1), partial)
