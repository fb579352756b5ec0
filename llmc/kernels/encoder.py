"""Launches the kernels of encoder.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, laddered, scratch
from llmc.kernels.pointwise import THREADS, aligned, check_elements
from llmc.kernels.reductions import ROWS, WARP, check_rows

VERSIONS = {"encoder_forward": 4, "encoder_backward": 3}
RUN, SEGMENT, LOOK = 1024, 8, 4  # as in encoder.cu


@laddered(1, 2, 3)
def encoder_forward(out, tokens, wte, wpe, *, version=4):
    """*out = wte[tokens] + wpe[:T].

    out: float32 (B, T, C). tokens: int32 (B, T), each below Vp. wte: float32 (Vp, C). wpe: float32 (maxT, C), T ≤ maxT.
    All are C-contiguous. version: 1 to 4.
    """
    B, T, C = out.shape
    check_elements(max(out.size, wte.size))
    check_rows(B * T)
    arguments = (out, tokens, wte, wpe, np.int32(B), np.int32(T), np.int32(C))
    kernel("encoder", f"encoder_forward_v{version}")((ceil_div(B * T, ROWS),), (THREADS,), arguments)


def encoder_forward_at(out, tokens, wte, wpe, start):
    """*out = wte[tokens] + wpe[start], for a launch that is recorded and repeated.

    out: float32 (B, 1, C). tokens: int32 (B,), each below Vp. start: int32 (1,) where kernels run. The rest as above.
    """
    B, _, C = out.shape
    check_rows(B)
    arguments = (out, tokens, wte, wpe, start, np.int32(B), np.int32(C))
    kernel("encoder", "encoder_forward_at_v1")((ceil_div(B, ROWS),), (THREADS,), arguments)


@laddered(1, 2)
def encoder_backward(dwte, dwpe, dout, tokens, *, version=3):
    """+dwte, +dwpe from dout; a token that occurs twice receives both rows.

    dwte: float32 (Vp, C). dwpe: float32 (maxT, C), of which the first T rows change. dout: float32 (B, T, C).
    tokens: int32 (B, T), each below Vp. All are C-contiguous. version: 1 to 3; 2 and 3 add in
    a fixed order.
    """
    check_elements(dout.size)
    _add_sorted(dwte, dwpe, dout, sort_positions(tokens))


def sort_positions(tokens):
    """(N,) uint64: token << 32 | position, in rising order."""
    N = tokens.size
    count = ceil_div(N, RUN)
    runs, keys = scratch("encoder runs", (count, RUN), "uint64"), scratch("encoder keys", (N,), "uint64")
    kernel("encoder", "encoder_backward_sort_v3")((count,), (RUN // 2,), (runs, tokens, np.int32(N)))
    kernel("encoder", "encoder_backward_merge_v3")((count * RUN // WARP,), (WARP, ROWS), (keys, runs, np.int32(count)))
    return keys


def _add_sorted(dwte, dwpe, dout, keys):
    """+dwte, with the rows of dout in the order of the keys, and +dwpe, some columns of both at a time."""
    B, T, C = dout.shape
    segments = ceil_div(B * T, SEGMENT)
    partial = scratch("encoder shares", (segments, C))
    numbers = C // 4 if C % 4 == 0 and aligned(dwte, dwpe, dout) else C  # of a row, or quads
    columns, block = ceil_div(numbers, WARP), (WARP, ROWS)
    arguments = (dwte, dwpe, partial, dout, keys, np.int32(B), np.int32(T), np.int32(C))
    kernel("encoder", "encoder_backward_rows_v3")((ceil_div(T + segments, ROWS), columns), block, arguments)
    if segments > 1:
        kernel("encoder", "encoder_backward_shares_v3")((ceil_div(segments - 1, LOOK), columns), block, arguments)
