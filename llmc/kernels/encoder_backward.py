"""Launches the kernels of encoder_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.pointwise import THREADS, aligned, blocks_for
from llmc.kernels.reductions import ROWS, WARP

VERSIONS = {"encoder_backward": 3}
RUN, SEGMENT = 1024, 32  # as in encoder_backward.cu
WHOLE, CACHED, LINE = 32 << 20, 16 << 20, 128  # bytes of dout at once; a part of it in a GPU's cache; columns of a part


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
    if version == 2:
        _add_positions(dwpe, dout, slice(0, C))
        grid, arguments = (B * T, ceil_div(C, THREADS)), (dwte, dout, tokens, np.int32(B * T), np.int32(C))
        _launch("tokens_v2")(grid, (THREADS,), arguments)
        return
    keys = sort_positions(tokens)
    for columns in columns_at_a_time(B * T, C):
        _add_positions(dwpe, dout, columns)
        _add_sorted(dwte, dout, keys, columns)


def columns_at_a_time(N, C) -> list:
    """Slices of the C columns: all, or as many of N rows as CACHED bytes hold."""
    count = C if 4 * N * C <= WHOLE else max(LINE, CACHED // (4 * N) // LINE * LINE)
    return [slice(first, min(first + count, C)) for first in range(0, C, count)]


def _add_positions(dwpe, dout, columns):
    """+dwpe in these columns."""
    B, T, C = dout.shape
    n = columns.stop - columns.start
    arguments = (dwpe, dout, *(np.int32(number) for number in (B, T, C, columns.start, n)))
    _launch("positions_v2")((blocks_for(T * n),), (THREADS,), arguments)


def sort_positions(tokens):
    """(N,) uint64: token << 32 | position, in rising order."""
    N = tokens.size
    count = ceil_div(N, RUN)
    runs, keys = scratch("encoder runs", (count, RUN), "uint64"), scratch("encoder keys", (N,), "uint64")
    _launch("sort_v3")((count,), (RUN // 2,), (runs, tokens, np.int32(N)))
    _launch("merge_v3")((count * RUN // WARP,), (WARP, ROWS), (keys, runs, np.int32(count)))
    return keys


def _add_sorted(dwte, dout, keys, columns):
    """+dwte in these columns, with the rows of dout in the order of the keys."""
    N, C, n = keys.size, dout.shape[-1], columns.stop - columns.start
    segments = ceil_div(N, SEGMENT)
    partial = scratch("encoder shares", (segments, n))
    numbers = n // 4 if n % 4 == C % 4 == 0 and aligned(dwte, dout) else n  # of a row, or quads
    threads = min(THREADS, WARP * ceil_div(numbers, WARP))
    arguments = (dwte, partial, dout, keys, *(np.int32(number) for number in (N, C, columns.start, n)))
    _launch("segments_v3")((segments, ceil_div(numbers, threads)), (threads,), arguments)
    if segments > 1:
        _launch("shares_v3")((segments - 1, ceil_div(numbers, WARP)), (WARP, ROWS), arguments)


def _launch(part):
    """The kernel for one part of the work."""
    return kernel("encoder_backward", f"encoder_backward_{part}")
