"""Launches the kernels of columns.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, scratch
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.pointwise import EACH, round_to
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import ROWS, WARP, chunks_that_fill


def across(C) -> int:
    """Blocks for C columns, if each lane of a warp has eight: across(768) is 3."""
    return ceil_div(C, EACH * WARP)


def bias_backward(db, dout, rounded=None, accumulate=True):
    """+db (C,), 16 bits, += column sums of dout (B, T, C), 16 bits; = them, without accumulate.

    rounded: if given, dout is float32; *rounded (B, T, C), 16 bits, is what it is rounded to, and what is summed.
    """
    C = db.size
    N = dout.size // C
    chunks = chunks_that_fill(N, across(C))
    partial, sizes = scratch("bias", (chunks, C)), (np.int32(N), np.int32(C))
    whole = C % EACH == 0 and aligned(dout, *([] if rounded is None else [rounded]))
    if rounded is not None and not whole:
        round_to(rounded, dout)
        dout, rounded = rounded, None
    name, arguments = ("bias_backward", ()) if rounded is None else ("round_bias_backward", (rounded,))
    launch = kernel_for(db, "columns", f"{name}_v{2 if whole else 1}")
    launch((across(C), chunks), (WARP, ROWS), (partial, *arguments, dout, *sizes))
    add_chunks((db,), partial, kept=int(accumulate))


def add_chunks(sums, partial, kept):
    """+sums, up to three of (C,), 16 bits, += column sums of partial, float32 (chunks, C · their number).

    kept: how many of sums are added to; the others are written: *sums = them.
    """
    chunks, columns = partial.shape
    C, three = columns // len(sums), (*sums, *[sums[0]] * (3 - len(sums)))
    sizes = [np.int32(n) for n in (chunks, columns, C, kept)]
    kernel_for(sums[0], "columns", "add_chunks_v2")((ceil_div(columns, WARP),), (WARP, WARP), (*three, partial, *sizes))
