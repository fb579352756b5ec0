"""Launches the kernels of columns.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, scratch
from llmc.kernels.columns import ROWS, WARP, chunks_that_fill
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.pointwise import EACH
from llmc.kernels.pointwise import THREADS, blocks_for


def across(C) -> int:
    """Blocks for C columns, if each lane of a warp has eight: across(768) is 3."""
    return ceil_div(C, EACH * WARP)


def bias_backward(db, dout):
    """+db (C,) += column sums of dout (B, T, C); 16 bits."""
    C = db.size
    N = dout.size // C
    chunks = chunks_that_fill(N, across(C))
    partial = scratch("bias", (chunks, C))
    launch = kernel_for(dout, "columns", "bias_backward_v1")
    launch((across(C), chunks), (WARP, ROWS), (partial, dout, np.int32(N), np.int32(C)))
    add_chunks(db, partial)


def add_chunks(sums, partial):
    """+sums (C,), 16 bits, += column sums of partial (chunks, C), float32."""
    chunks, C = partial.shape
    launch = kernel_for(sums, "columns", "add_chunks_v1")
    launch((blocks_for(C),), (THREADS,), (sums, partial, np.int32(chunks), np.int32(C)))
