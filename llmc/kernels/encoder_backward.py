"""Launches the kernels of encoder_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.pointwise import THREADS, aligned, blocks_for
from llmc.kernels.reductions import ROWS, WARP

VERSIONS = {"encoder_backward": 3}
RUN, SEGMENT, LOOK = 1024, 8, 4  # as in encoder_backward.cu


def encoder_backward(dwte, dwpe, dout, tokens, version=None):
    """+dwte, +dwpe from dout; a token that occurs twice receives both rows.

    dwte: float32 (Vp, C). dwpe: float32 (maxT, C), of which the first T rows change. dout: float32 (B, T, C).
    tokens: int32 (B, T), each below Vp. All are C-contiguous. version: 1 to 3, None is the last; 2 and 3 add in
    a fixed order.
    """
    version = version or VERSIONS["encoder_backward"]
    B, T, C = dout.shape
    sizes = np.int32(B), np.int32(T), np.int32(C)
    blocks = blocks_for(dout.size)
    if version == 1:
        _launch("v1")((blocks,), (THREADS,), (dwte, dwpe, dout, tokens, *sizes))
        return
    if version == 3:
        _add_sorted(dwte, dwpe, dout, sort_positions(tokens))
        return
    _launch("positions_v2")((blocks_for(T * C),), (THREADS,), (dwpe, dout, *sizes))
    grid, arguments = (B * T, ceil_div(C, THREADS)), (dwte, dout, tokens, np.int32(B * T), np.int32(C))
    _launch("tokens_v2")(grid, (THREADS,), arguments)


def sort_positions(tokens):
    """(N,) uint64: token << 32 | position, in rising order."""
    N = tokens.size
    count = ceil_div(N, RUN)
    runs, keys = scratch("encoder runs", (count, RUN), "uint64"), scratch("encoder keys", (N,), "uint64")
    _launch("sort_v3")((count,), (RUN // 2,), (runs, tokens, np.int32(N)))
    _launch("merge_v3")((count * RUN // WARP,), (WARP, ROWS), (keys, runs, np.int32(count)))
    return keys


def _add_sorted(dwte, dwpe, dout, keys):
    """+dwte, with the rows of dout in the order of the keys, and +dwpe, some columns of both at a time."""
    B, T, C = dout.shape
    segments = ceil_div(B * T, SEGMENT)
    partial = scratch("encoder shares", (segments, C))
    numbers = C // 4 if C % 4 == 0 and aligned(dwte, dwpe, dout) else C  # of a row, or quads
    columns, block = ceil_div(numbers, WARP), (WARP, ROWS)
    arguments = (dwte, dwpe, partial, dout, keys, np.int32(B), np.int32(T), np.int32(C))
    _launch("rows_v3")((ceil_div(T + segments, ROWS), columns), block, arguments)
    if segments > 1:
        _launch("shares_v3")((ceil_div(segments - 1, LOOK), columns), block, arguments)


def _launch(part):
    """The kernel for one part of the work."""
    return kernel("encoder_backward", f"encoder_backward_{part}")
