"""Launches the kernels of transpose.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import aligned


def transpose(out, x, version=None):
    """*out = xᵀ.

    out: float32 (C, N). x: float32 (N, C). Both are C-contiguous. version: 1 or 2, None is the last; 2 falls back to 1
    where rows do not consist of 128-bit words.
    """
    N, C = x.shape
    version = version or 2
    if version == 2 and (N % 4 or C % 4 or not aligned(out, x)):
        version = 1
    side, block = {1: (32, (32, 8)), 2: (64, (16, 16))}[version]
    grid = ceil_div(C, side), ceil_div(N, side)
    kernel("transpose", f"transpose_v{version}")(grid, block, (out, x, np.int32(N), np.int32(C)))
