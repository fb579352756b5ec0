"""Launches the kernels of matmul_row.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import THREADS, aligned


def fits(x, w) -> bool:
    """Whether the kernel can multiply x, a single row, by w (N, K): rows consist of 128-bit words."""
    return x.size == w.shape[1] and x.size % 4 == 0 and aligned(x, w)


def matmul_row(out, x, w, b=None):
    """*out = w · x + b.

    out: float32 (N,). x: float32 (K,). w: float32 (N, K). b: float32 (N,) or None. All are C-contiguous; only the sizes
    of out and x matter, not their shapes. `fits` is true of x and w.
    """
    N, K = w.shape
    arguments = (out, x, w, x if b is None else b, np.int32(N), np.int32(K), np.int32(b is not None))
    kernel("matmul_row", "matmul_row_v1")((ceil_div(32 * N, THREADS),), (THREADS,), arguments)
