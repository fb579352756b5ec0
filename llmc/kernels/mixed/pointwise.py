"""Launches the kernels of pointwise.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import THREADS, blocks_for

EACH = 8  # elements of a thread: 128 bits


def gelu_forward(out, x):
    """*out = GELU(x), the tanh form; 16 bits, any shape. out may be x, or uint8 for e4m3."""
    _launch("gelu_forward_v1", x, out, x, eight=out)


def gelu_backward(dx, dout, x):
    """*dx = dout · GELU'(x); 16 bits, any shape. dx may be dout."""
    _launch("gelu_backward_v1", dx, dx, dout, x)


def residual_forward(out, x1, x2):
    """*out = x1 + x2. out, x1: float32, or 16 bits; x2: 16 bits; of one shape. out may be x1."""
    _launch("residual_forward_v1", x2, out, x1, x2, stream=x1)


def round_to(out, x):
    """*out, 16 bits, = x, float32, each number rounded to the nearest."""
    _launch("round_v1", out, out, x)


def scale(grads, factor):
    """*grads *= factor; 16 bits, any shape."""
    _launch("scale_v1", grads, grads, np.float32(factor))


def _launch(name, of_16_bits, *arguments, eight=None, stream=None):
    n = of_16_bits.size
    launch = kernel_for(of_16_bits, "pointwise", name, out=eight, stream=stream)
    launch((blocks_for(n, EACH),), (THREADS,), (*arguments, np.int32(n)))
