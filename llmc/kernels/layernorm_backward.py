"""Launches the kernels of layernorm_backward.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.columns import ROWS, WARP, blocks_of_warps, chunks_of
from llmc.kernels.pointwise import aligned, multiprocessors
from llmc.kernels.reductions import check_rows

VERSIONS = {"layernorm_backward": 5}
LONGEST = 6144  # numbers of a row whose two sums fit in 48 KB of shared memory, in versions 2 and 3
QUADS = 13  # of a row that a lane can hold in version 5: rows of up to 1664 numbers


def layernorm_backward(dx, dw, db, dout, x, w, mean, rstd, version=None):
    """+dx, +dw, +db from dout and what the forward pass stored.

    dx, dout, x: float32 (B, T, C). dw, db, w: float32 (C,). mean, rstd: float32 (B, T). All are C-contiguous.
    version: 1 to 5. None is the last, or 4 for rows that it cannot hold; only these two add in a fixed order, and
    5 falls back to 4 where rows do not consist of 128-bit words. Raises UserError for rows too long for 2 and 3.
    """
    C = x.shape[-1]
    N = x.size // C
    check_rows(N)
    version = version or VERSIONS["layernorm_backward"]
    if version == 5 and not (C % 4 == 0 and C <= 4 * WARP * QUADS and aligned(dx, dout, x, w)):
        version = 4
    if version in (2, 3) and C > LONGEST:
        raise UserError(
            f"layernorm_backward's version {version} takes rows of up to {LONGEST}, not {C}; use version 4."
        )
    numbers, sizes = (dout, x, w, mean, rstd), (np.int32(N), np.int32(C))
    if version == 1:
        _launch("v1", C)((ceil_div(N, ROWS),), (ROWS * WARP,), (dx, dw, db, *numbers, *sizes))
    elif version == 2:
        grid, block = (blocks_of_warps(N),), (ROWS * WARP,)
        _launch("v2", C)(grid, block, (dx, dw, db, *numbers, *sizes), shared_mem=8 * C)
    else:
        parts = {3: _scratch_per_block, 4: _two_readings, 5: _in_registers}[version]
        partial, chunks = parts(dx, numbers, N, C)  # (chunks, 2, C)
        arguments = (dw, db, partial, np.int32(chunks), np.int32(C))
        _launch("final_v3", C)((ceil_div(2 * C, WARP),), (WARP, WARP), arguments)


def _scratch_per_block(dx, numbers, N, C):
    """+dx, and (chunks, 2, C) sums of dw and db, by version 3."""
    blocks = blocks_of_warps(N)
    partial = scratch("layernorm", (blocks, 2, C))
    arguments = (dx, partial, *numbers, np.int32(N), np.int32(C))
    _launch("partial_v3", C)((blocks,), (ROWS * WARP,), arguments, shared_mem=8 * C)
    return partial, blocks


def _two_readings(dx, numbers, N, C):
    """The same by version 4."""
    chunks = chunks_of(N)
    partial = scratch("layernorm", (chunks, 2, C))
    dout, x, w, mean, rstd = numbers
    sizes = np.int32(N), np.int32(C)
    _launch("input_v4", C)((ceil_div(N, ROWS),), (ROWS * WARP,), (dx, *numbers, *sizes))
    grid, block = (ceil_div(C, WARP), chunks), (WARP, ROWS)
    _launch("partial_v4", C)(grid, block, (partial, dout, x, mean, rstd, *sizes))
    return partial, chunks


def _in_registers(dx, numbers, N, C):
    """The same by version 5: one block for each multiprocessor."""
    blocks = min(multiprocessors(cuda.device()), ceil_div(N, ROWS))
    partial = scratch("layernorm", (blocks, 2, C))
    arguments = (dx, partial, *numbers, np.int32(N), np.int32(C))
    _launch("partial_v5", C)((blocks,), (ROWS * WARP,), arguments, shared_mem=8 * C)
    return partial, blocks


def _quads(C) -> int:
    """128-bit words of a row for each lane: 6 for 768 numbers."""
    return min(QUADS, ceil_div(C, 4 * WARP))


def _launch(part, C):
    """The kernel layernorm_backward_<part>, compiled for rows of C."""
    return kernel("layernorm_backward", f"layernorm_backward_{part}", f"QUADS={_quads(C)}")
