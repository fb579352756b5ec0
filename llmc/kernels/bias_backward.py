"""Launches the kernels of bias_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.columns import ROWS, WARP, chunks_of, chunks_that_fill
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import check_rows

VERSIONS = {"bias_backward": 4}


def bias_backward(db, dout, version=None):
    """+db (C,) += column sums of dout (B, T, C), float32, C-contiguous.

    version: 1 to 4, None is the last; 4 falls back to 3 where rows do not consist of 128-bit words. All but 2 add in a
    fixed order.
    """
    C = db.size
    N = dout.size // C
    check_rows(N)
    version = version or VERSIONS["bias_backward"]
    sizes = np.int32(N), np.int32(C)
    if version == 4 and (C % 4 or not aligned(dout)):
        version = 3
    if version == 1:
        kernel("bias_backward", "bias_backward_v1")((ceil_div(C, 64),), (64,), (db, dout, *sizes))
    elif version == 2:
        kernel("bias_backward", "bias_backward_v2")((ceil_div(C, WARP), chunks_of(N)), (WARP, ROWS), (db, dout, *sizes))
    else:
        across = ceil_div(C, WARP) if version == 3 else ceil_div(C, 4 * WARP)
        chunks = chunks_of(N) if version == 3 else chunks_that_fill(N, across)
        partial = scratch("bias", (chunks, C))
        arguments = (partial, dout, *sizes)
        kernel("bias_backward", f"bias_backward_partial_v{version}")((across, chunks), (WARP, ROWS), arguments)
        arguments = (db, partial, np.int32(chunks), np.int32(C))
        kernel("bias_backward", "bias_backward_final_v3")((ceil_div(C, WARP),), (WARP, WARP), arguments)
