"""Launches the kernels of gelu_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel
from llmc.kernels.pointwise import THREADS, blocks_at_once, blocks_for

VERSIONS = {"gelu_backward": 3}


def gelu_backward(dx, dout, x, version=None):
    """*dx = dout · GELU'(x), the tanh form.

    dx, dout, x: float32 arrays of one shape, any, C-contiguous; dx may be dout. version: 1 to 3, None is the last.
    """
    version = version or VERSIONS["gelu_backward"]
    n = x.size
    grid = {1: blocks_for(n), 2: blocks_at_once(n, each=4)}.get(version, blocks_for(n, each=4))
    kernel("gelu_backward", f"gelu_backward_v{version}")((grid,), (THREADS,), (dx, dout, x, np.int32(n)))
