"""Launches the kernels of layernorm_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.columns import ROWS, WARP, chunks_of

VERSIONS = {"layernorm_backward": 1}


def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd, version=None):
    """+dx, +dw, +db from dout and what the forward pass stored.

    dx, dout, x: float32 (B, T, C). dw, db, w: float32 (C,). mean, rstd: float32 (B, T). All are C-contiguous.
    """
    C = x.shape[-1]
    N = x.size // C
    chunks = chunks_of(N)
    partial = scratch("layernorm", (chunks, 2, C))
    sizes = (np.int32(N), np.int32(C))
    of_rows, of_columns = (ceil_div(N, ROWS),), (ceil_div(C, WARP), chunks)
    launch("input")(of_rows, (ROWS * WARP,), (dx, dout, x, w, mean, rstd, *sizes))
    launch("partial")(of_columns, (WARP, ROWS), (partial, dout, x, mean, rstd, *sizes))
    launch("final")((ceil_div(C, 64),), (64,), (dw, db, partial, np.int32(chunks), np.int32(C)))


def launch(part):
    """The kernel for one part of the work."""
    return kernel("layernorm_backward", f"layernorm_backward_{part}_v1")
