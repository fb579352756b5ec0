"""Functions that touch every element once: residual, GELU, zero, scale, norm. Memory bounds them: one pass each.

GELU's tanh is written through one exponential: (1 + tanh u) / 2 = 1 / (1 + e^(-2u)).
"""

import math

from numba import get_num_threads, prange

from llmc.backends.cpu.bfloat16 import exact, in_bits, load, store
from llmc.backends.cpu.compiled import ONE, TWO, ZERO, bounds, exp, gelu, parallel
from llmc.backends.cpu.scratch import scratch
from llmc.backends.reference import GELU_CUBIC, GELU_SCALE


@parallel
def _add(out, x1, x2):
    for i in prange(out.size):
        store(out, i, load(x1, i) + load(x2, i))


@parallel
def _gelu(out, x, linear, cubic):
    for i in prange(x.size):
        store(out, i, gelu(load(x, i), linear, cubic))


@parallel
def _gelu_backward(dx, dout, x, scale, cubic, cubic3):
    for i in prange(x.size):
        a = load(x, i)
        square = a * a
        s = ONE / (ONE + exp(-TWO * scale * a * (ONE + cubic * square)))  # GELU = a · s
        slope = TWO * scale * (ONE + cubic3 * square)  # of 2u
        store(dx, i, load(dout, i) * (s + a * s * (ONE - s) * slope))


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
def gelu_forward(out, x):
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 x³)))."""
    _gelu(out.reshape(-1), x.reshape(-1), *gelu_constants(exact(x.dtype)))


@in_bits
def gelu_backward(dx, dout, x):
    """dx = dout · GELU'(x)."""
    constants = (exact(x.dtype).type(value) for value in (GELU_SCALE, GELU_CUBIC, 3.0 * GELU_CUBIC))
    _gelu_backward(dx.reshape(-1), dout.reshape(-1), x.reshape(-1), *constants)


def gelu_constants(dtype):
    """(linear, cubic) of `compiled.gelu`, as numbers of this dtype."""
    return dtype.type(-2.0 * GELU_SCALE), dtype.type(-2.0 * GELU_SCALE * GELU_CUBIC)


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
