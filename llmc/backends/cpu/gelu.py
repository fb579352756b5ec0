"""GELU and its derivative, with tanh written through one exponential: (1 + tanh u) / 2 = 1 / (1 + e^(-2u))."""

from numba import prange

from llmc.backends.cpu.bfloat16 import exact, in_bits, load, store
from llmc.backends.cpu.compiled import ONE, TWO, exp, gelu, parallel
from llmc.backends.reference import GELU_CUBIC, GELU_SCALE


@parallel
def _forward(out, x, linear, cubic):
    for i in prange(x.size):
        store(out, i, gelu(load(x, i), linear, cubic))


@parallel
def _backward(dx, dout, x, scale, cubic, cubic3):
    for i in prange(x.size):
        a = load(x, i)
        square = a * a
        s = ONE / (ONE + exp(-TWO * scale * a * (ONE + cubic * square)))  # GELU = a · s
        slope = TWO * scale * (ONE + cubic3 * square)  # of 2u
        store(dx, i, load(dout, i) * (s + a * s * (ONE - s) * slope))


@in_bits
def gelu_forward(out, x):
    """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 x³)))."""
    _forward(out.reshape(-1), x.reshape(-1), *gelu_constants(exact(x.dtype)))


def gelu_again(out, x):
    """GELU once more, with the bits that it has where it is fused with a matmul."""
    gelu_forward(out, x)


@in_bits
def gelu_backward(dx, dout, x):
    """dx = dout · GELU'(x)."""
    constants = (exact(x.dtype).type(value) for value in (GELU_SCALE, GELU_CUBIC, 3.0 * GELU_CUBIC))
    _backward(dx.reshape(-1), dout.reshape(-1), x.reshape(-1), *constants)


def gelu_constants(dtype):
    """(linear, cubic) of `compiled.gelu`, as numbers of this dtype."""
    return dtype.type(-2.0 * GELU_SCALE), dtype.type(-2.0 * GELU_SCALE * GELU_CUBIC)
