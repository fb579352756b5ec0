"""Launches the kernels of layernorm.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import KEPT, ROWS, WARP, check_rows, power_of_two, quads_of_lane, whole_warps

VERSIONS = {"layernorm_forward": 7, "residual_layernorm_forward": 3}


def layernorm_forward(out, mean, rstd, x, w, b, version=None):
    """*out = (x - *mean) · *rstd · w + b, over the last axis.

    out, x: float32 (B, T, C), two arrays. mean, rstd: float32 (B, T). w, b: float32 (C,). All are C-contiguous.
    version: 1 to 7, None is the last; 7 falls back to 6 for rows that are too long for it or not of 128-bit words.
    """
    version = version or VERSIONS["layernorm_forward"]
    C = w.size
    N = x.size // C
    check_rows(N)
    arguments = (out, mean, rstd, x, w, b, np.int32(N), np.int32(C))
    if version == 7 and not (quads_of_lane(C) and aligned(out, x, w, b)):
        version = 6
    name = f"layernorm_forward_v{version}"
    if version == 7:
        _launch_in_registers(name, N, C, arguments)
    elif version == 6:
        _launch_keeping(name, N, C, arguments)
    else:
        grid, block = {
            1: (ceil_div(N, 4 * WARP), 4 * WARP),
            2: (N, power_of_two(C)),
            3: (N, whole_warps(C)),
            4: (ceil_div(N, ROWS), ROWS * WARP),
            5: (ceil_div(N, ROWS), ROWS * WARP),
        }[version]
        kernel("layernorm", name)((grid,), (block,), arguments)


def residual_layernorm_forward(residual, out, mean, rstd, x1, x2, w, b, version=None):
    """*residual = x1 + x2, then layernorm_forward of it, in one kernel.

    residual, out, x1, x2: float32 (B, T, C), four arrays. mean, rstd: float32 (B, T). w, b: float32 (C,).
    All are C-contiguous. version: 1 to 3, None is the last; 3 falls back to 2 as 7 does to 6 above.
    """
    version = version or VERSIONS["residual_layernorm_forward"]
    C = w.size
    N = x1.size // C
    check_rows(N)
    arguments = (residual, out, mean, rstd, x1, x2, w, b, np.int32(N), np.int32(C))
    if version == 3 and not (quads_of_lane(C) and aligned(residual, out, x1, x2, w, b)):
        version = 2
    name = f"residual_layernorm_forward_v{version}"
    if version == 3:
        _launch_in_registers(name, N, C, arguments)
    elif version == 2:
        _launch_keeping(name, N, C, arguments)
    else:
        kernel("layernorm", name)((ceil_div(N, ROWS),), (ROWS * WARP,), arguments)


def layernorm_again(out, x, w, b, mean, rstd):
    """*out = (x - mean) · rstd · w + b, over the last axis, with the bits that the functions above wrote.

    Shapes and types are theirs.
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
