"""Launches the kernels of softmax.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import KEPT, ROWS, WARP, check_rows, power_of_two, quads_of_lane, whole_warps

VERSIONS = {"softmax_forward": 7}


def softmax_forward(out, x, version=None):
    """*out = exp(x - max) / sum of exp(x - max), over the last axis.

    out, x: float32 (…, C), C-contiguous; out may be x. version: 1 to 7, None is the last; 7 falls back to 6 for
    rows that are too long for it or not of 128-bit words.
    """
    version = version or VERSIONS["softmax_forward"]
    C = x.shape[-1]
    N = x.size // C
    check_rows(N)
    if version == 7 and not (quads_of_lane(C) and aligned(out, x)):
        version = 6
    keep = C <= KEPT
    shared_mem = 4 * C if version == 6 and keep else 0  # bytes
    grid, block = {
        1: (ceil_div(N, 4 * WARP), 4 * WARP),
        2: (N, power_of_two(C)),
        3: (N, whole_warps(C)),
        4: (ceil_div(N, ROWS), ROWS * WARP),
        5: (ceil_div(N, ROWS), ROWS * WARP),
        6: (N, whole_warps(C)),
        7: (ceil_div(N, ROWS), ROWS * WARP),
    }[version]
    sizes = (np.int32(N), np.int32(C)) + ((np.int32(keep),) if version == 6 else ())
    defines = f"QUADS={quads_of_lane(C)}" if version == 7 else ""
    function = kernel("softmax", f"softmax_forward_v{version}", defines)
    function((grid,), (block,), (out, x, *sizes), shared_mem=shared_mem)
