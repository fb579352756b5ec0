"""Launches the backward kernels of attention. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.attention import WARPS, check_rows, define, fits_fast, fits_tiles, launch_tiles, newest, tiles

VERSIONS = {"attention_backward": 3}
TENSOR_CORES = {"attention_backward": 4}  # the version that multiplies in TF32


def attention_backward(dqkv, dout, out, stats, qkv, NH, version=None):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv: float32 (B, T, 3C). dout, out: float32 (B, T, C). stats: float32 (B, NH, T). All are C-contiguous.
    version: 1 to 4; None is the last one that can hold the heads, or with TF32 4; one that cannot hold them gives way
    to the one before it. Raises UserError if B · NH · T is too large.
    """
    B, T, C = out.shape
    hs, heads = C // NH, B * NH
    check_rows(B, NH, T)
    delta = scratch("delta", (B, NH, T))
    version = version or newest("attention_backward", VERSIONS, TENSOR_CORES)
    fast = fits_fast(hs, dqkv, dout, out, qkv)
    if version > 2 and not fast:
        version = 2
    if version == 2 and not all(fits_tiles(hs, shared) for shared in _SHARED[2]):
        version = 1
    sizes = [np.int32(size) for size in (T, NH, hs)]
    rows = 16 if version > 2 else WARPS  # per block
    arguments = (delta, dout, out, np.int32(heads), *sizes)
    name = f"attention_backward_delta_v{2 if version > 2 else 1}"
    kernel("attention_backward", name)((ceil_div(heads * T, rows),), (32 * WARPS,), arguments)
    arrays = (dqkv, dout, stats, delta, qkv)
    for part in (0, 1):
        name = f"attention_backward_{('query', 'key')[part]}_v{version}"
        if version == 1:
            arguments = (*arrays, np.int32(heads), *sizes)
            kernel("attention_backward", name)((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
        else:
            kind, rows = {2: ("tiles", 64), 3: ("flash", 128), 4: ("tensor", 128)}[version]
            function = kernel(f"attention_{kind}_backward", name, define(hs))
            launch_tiles(function, (heads, ceil_div(T, rows)), (*arrays, *sizes), _SHARED[version][part](hs))


_SHARED = {  # version: bytes of shared memory of the kernel for dq, and of the one for dk and dv
    2: (
        lambda hs: tiles(hs, 64, 64, 32) + max(tiles(hs, 32), 4 * 64 * 36),
        lambda hs: tiles(hs, 64, 64, 32, 32) + 4 * 64 * 36,
    ),
    3: (lambda hs: tiles(hs, 128, 128, 32, 32) + 4 * 128 * 40,) * 2,
    4: (
        lambda hs: tiles(hs, 64, 64, 64, 64, 128),
        lambda hs: tiles(hs, 128, 128, 32, 32, 32, 32) + 2 * 2 * 4 * 32,
    ),
}
