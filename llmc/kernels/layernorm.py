"""Launches the kernels of layernorm.cu and layernorm_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, kernel, laddered, scratch
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import KEPT, ROWS, WARP, check_rows, chunks_of, quads_of_lane

VERSIONS = {"layernorm_forward": 7, "residual_layernorm_forward": 3, "layernorm_backward": 5}
QUADS = 13  # of a row that a lane can hold in version 5 of the backward pass: rows of up to 1664 numbers


@laddered(1, 2, 3, 4, 5)
def layernorm_forward(out, mean, rstd, x, w, b, *, version=7):
    """*out = (x - *mean) · *rstd · w + b, over the last axis.

    out, x: float32 (B, T, C), different arrays. mean, rstd: float32 (B, T). w, b: float32 (C,). All are C-contiguous.
    version: 1 to 7; 7 falls back to 6 for rows that are too long for it or do not consist of 128-bit words.
    """
    C = w.size
    N = x.size // C
    check_rows(N)
    arguments = (out, mean, rstd, x, w, b, np.int32(N), np.int32(C))
    if version == 7 and quads_of_lane(C) and aligned(out, x, w, b):
        _launch_in_registers("layernorm_forward_v7", N, C, arguments)
    else:
        _launch_keeping("layernorm_forward_v6", N, C, arguments)


@laddered(1)
def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b, *, version=3):
    """*residual = x1 + x2, then layernorm_forward of it, in one kernel.

    residual, out, x1, x2: float32 (B, T, C), four different arrays. mean, rstd: float32 (B, T). w, b: float32 (C,).
    All are C-contiguous. version: 1 to 3; 3 falls back to 2 as 7 does to 6 above.
    """
    C = w.size
    N = x1.size // C
    check_rows(N)
    arguments = (residual, out, mean, rstd, x1, x2, w, b, np.int32(N), np.int32(C))
    if version == 3 and quads_of_lane(C) and aligned(residual, out, x1, x2, w, b):
        _launch_in_registers("residual_layernorm_forward_v3", N, C, arguments)
    else:
        _launch_keeping("residual_layernorm_forward_v2", N, C, arguments)


def layernorm_again(out, x, w, b, mean, rstd):
    """*out = (x - mean) · rstd · w + b, over the last axis, bit for bit what the functions above wrote.

    Shapes and types are the same.
    """
    C = w.size
    N = x.size // C
    check_rows(N)
    arguments = (out, x, w, b, mean, rstd, np.int32(N), np.int32(C))
    kernel("layernorm", "layernorm_again_v1")((ceil_div(N, ROWS),), (ROWS * WARP,), arguments)


def _launch_keeping(name, N, C, arguments):
    """A launch of warps that keep their rows in shared memory: as many per block as there is room for, at most ROWS."""
    rows = min(ROWS, KEPT // C)
    keep = rows > 0
    rows = rows or ROWS
    shared_mem = 4 * C * rows if keep else 0  # bytes
    grid, block = (ceil_div(N, rows),), (rows * WARP,)
    kernel("layernorm", name)(grid, block, (*arguments, np.int32(keep)), shared_mem=shared_mem)


def _launch_in_registers(name, N, C, arguments):
    """A launch of warps that keep their rows in registers."""
    kernel("layernorm", name, f"QUADS={quads_of_lane(C)}")((ceil_div(N, ROWS),), (ROWS * WARP,), arguments)


# -------------------------------------------------------------------------------------------------- the backward pass


@laddered(1, 2, 3)
def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd, *, version=5):
    """+dx, +dw, +db from dout and what the forward pass stored.

    dx, dout, x: float32 (B, T, C). dw, db, w: float32 (C,). mean, rstd: float32 (B, T). All are C-contiguous.
    version: 1 to 5; 5 falls back to 4 for rows that it cannot hold, and where they do not consist of 128-bit words.
    Only these two add in a fixed order. Raises UserError for rows too long for 2 and 3.
    """
    C = x.shape[-1]
    N = x.size // C
    check_rows(N)
    whole = version == 5 and C % 4 == 0 and C <= 4 * WARP * QUADS and aligned(dx, dout, x, w)
    add_partial(dw, db, (_in_registers if whole else _two_readings)(dx, (dout, x, w, mean, rstd), N, C))


def add_partial(dw, db, partial):
    """+dw, +db from sums of parts of the rows, partial, float32 (chunks, 2, C)."""
    chunks, _, C = partial.shape
    _launch("final_v3", C)((ceil_div(2 * C, WARP),), (WARP, WARP), (dw, db, partial, np.int32(chunks), np.int32(C)))


def _two_readings(dx, numbers, N, C):
    """+dx, and (chunks, 2, C) sums of dw and db, by version 4."""
    chunks = chunks_of(N)
    partial = scratch("layernorm", (chunks, 2, C))
    dout, x, w, mean, rstd = numbers
    sizes = np.int32(N), np.int32(C)
    _launch("input_v4", C)((ceil_div(N, ROWS),), (ROWS * WARP,), (dx, *numbers, *sizes))
    grid, block = (ceil_div(C, WARP), chunks), (WARP, ROWS)
    _launch("partial_v4", C)(grid, block, (partial, dout, x, mean, rstd, *sizes))
    return partial


def _in_registers(dx, numbers, N, C):
    """The same by version 5: one block for each multiprocessor."""
    blocks = min(multiprocessors(cuda.device()), ceil_div(N, ROWS))
    partial = scratch("layernorm", (blocks, 2, C))
    arguments = (dx, partial, *numbers, np.int32(N), np.int32(C))
    _launch("partial_v5", C)((blocks,), (ROWS * WARP,), arguments, shared_mem=8 * C)
    return partial


def _quads(C) -> int:
    """128-bit words of a row for each lane: 6 for 768 numbers."""
    return min(QUADS, ceil_div(C, 4 * WARP))


def _launch(part, C):
    """The kernel layernorm_backward_<part>, compiled for rows of C."""
    return kernel("layernorm_backward", f"layernorm_backward_{part}", f"QUADS={_quads(C)}")
