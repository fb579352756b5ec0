"""Launches the kernels of bias_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, laddered, scratch
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import ROWS, WARP, check_rows, chunks_of, chunks_that_fill

VERSIONS = {"bias_backward": 4}


@laddered(1, 2)
def bias_backward(db, dout, *, version=4):
    """+db (C,) += column sums of dout (B, T, C), float32, C-contiguous.

    version: 1 to 4; 4 falls back to 3 where rows do not consist of 128-bit words. All but 2 add in a
    fixed order.
    """
    C = db.size
    N = dout.size // C
    check_rows(N)
    whole = version == 4 and C % 4 == 0 and aligned(dout)
    across = ceil_div(C, 4 * WARP if whole else WARP)
    chunks = chunks_that_fill(N, across) if whole else chunks_of(N)
    partial = scratch("bias", (chunks, C))
    arguments = (partial, dout, np.int32(N), np.int32(C))
    name = f"bias_backward_partial_v{4 if whole else 3}"
    kernel("bias_backward", name)((across, chunks), (WARP, ROWS), arguments)
    arguments = (db, partial, np.int32(chunks), np.int32(C))
    kernel("bias_backward", "bias_backward_final_v3")((ceil_div(C, WARP),), (WARP, WARP), arguments)
