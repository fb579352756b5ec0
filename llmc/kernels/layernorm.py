"""Launches the kernels of layernorm.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.reductions import KEPT, ROWS, WARP, power_of_two, whole_warps

VERSIONS = {"layernorm_forward": 6, "residual_layernorm_forward": 2}


def layernorm_forward(out, mean, rstd, x, w, b, version=None):
    """*out = (x - *mean) · *rstd · w + b, over the last axis.

    out, x: float32 (B, T, C), two arrays. mean, rstd: float32 (B, T). w, b: float32 (C,). All are C-contiguous.
    version: 1 to 6, None is the last.
    """
    version = version or VERSIONS["layernorm_forward"]
    C = w.size
    N = x.size // C
    arguments = (out, mean, rstd, x, w, b, np.int32(N), np.int32(C))
    name = f"layernorm_forward_v{version}"
    if version == 6:
        _launch_keeping(name, N, C, arguments)
        return
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
    All are C-contiguous. version: 1 or 2, None is the last.
    """
    version = version or VERSIONS["residual_layernorm_forward"]
    C = w.size
    N = x1.size // C
    arguments = (residual, out, mean, rstd, x1, x2, w, b, np.int32(N), np.int32(C))
    name = f"residual_layernorm_forward_v{version}"
    if version == 2:
        _launch_keeping(name, N, C, arguments)
    else:
        kernel("layernorm", name)((ceil_div(N, ROWS),), (ROWS * WARP,), arguments)


def _launch_keeping(name, N, C, arguments):
    """A launch of warps that keep their rows in shared memory: as many per block as there is room for, at most ROWS."""
    rows = min(ROWS, KEPT // C)
    keep = rows > 0
    rows = rows or ROWS
    shared_mem = 4 * C * rows if keep else 0  # bytes
    grid, block = (ceil_div(N, rows),), (rows * WARP,)
    kernel("layernorm", name)(grid, block, (*arguments, np.int32(keep)), shared_mem=shared_mem)
