"""Functions that touch every element once: residual, zero, scale, norm. Memory bounds them: one pass each."""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu.bfloat16 import exact, in_bits, load, store
from llmc.backends.cpu.compiled import ZERO, bounds, parallel
from llmc.backends.cpu.scratch import scratch


@parallel
def _add(out, x1, x2):
    for i in prange(out.size):
        store(out, i, load(x1, i) + load(x2, i))


@parallel
def _fill(array, value):
    for i in prange(array.size):
        array[i] = value


@parallel
def _scale(array, factor):
    for i in prange(array.size):
        store(array, i, load(array, i) * factor)


@parallel
def _squares(array, sums):
    """sums (parts,) float64 = the sum of squares in each part."""
    parts = sums.size
    for part in prange(parts):
        start, end = bounds(part, parts, array.size)
        total = 0.0  # float64: a long float32 sum would lose small terms
        for i in range(start, end):
            total += float(load(array, i)) * float(load(array, i))
        sums[part] = total


@in_bits
def residual_forward(out, x1, x2):
    """out = x1 + x2."""
    _add(out.reshape(-1), x1.reshape(-1), x2.reshape(-1))


@in_bits
def zero(array):
    """Set every element to zero."""
    _fill(array.reshape(-1), array.dtype.type(ZERO))


@in_bits
def scale(grads, factor):
    """Multiply in place."""
    _scale(grads, exact(grads.dtype).type(factor))


@in_bits
def global_norm(grads):
    """√(sum of squares), summed in double precision."""
    sums = scratch("squares", (get_num_threads(),), "float64")
    _squares(grads, sums)
    return math.sqrt(sums.sum())
