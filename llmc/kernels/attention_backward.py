"""Launches the backward kernels of attention. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, kernel, scratch, tensor_cores
from llmc.kernels.attention import WARPS, check_rows, define, fitting, launch_tiles, own, tiles

VERSIONS = {"attention_backward": 3}
TENSOR_CORES = {"attention_backward": (4, 5)}  # for GPUs that have them: exact, and with factors rounded to TF32


def attention_backward(dqkv, dout, out, stats, qkv, NH, version=None, tf32=False):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv: float32 (B, T, 3C). dout, out: float32 (B, T, C). stats: float32 (B, NH, T). All are C-contiguous.
    version: 1 to 5; None is as attention.py says, by tf32. Raises UserError if B · NH · T is too large.
    """
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    check_rows(B, NH, T)
    version = version or tensor_cores.newest(3, TENSOR_CORES["attention_backward"], cuda.device(), tf32)
    version = fitting(version, 3, hs, (dqkv, dout, out, qkv), _SHARED)
    sizes = [np.int32(size) for size in (T, NH, hs)]
    delta = scratch("delta", (B, NH, T))
    number, rows = (1, WARPS) if version < 3 else (2, 16)  # eight lanes per row
    arguments = (delta, dout, out, np.int32(heads), *sizes)
    name = f"attention_backward_delta_v{number}"
    kernel("attention_backward", name)((ceil_div(heads * T, rows),), (32 * WARPS,), arguments)
    for part, of in enumerate(("query", "key")):
        arrays = (dqkv, dout, stats, delta, qkv)
        if version == 1:
            function = kernel("attention_backward", f"attention_backward_{of}_v1")
            function((ceil_div(heads * T, WARPS),), (32 * WARPS,), (*arrays, np.int32(heads), *sizes))
        else:
            layer, number, tile = _TILES[version]
            name = f"attention_backward_{of}_v{number}"
            function = kernel(f"attention_{layer}_backward", name, define(hs, exact=version == 4))
            launch_tiles(function, tile, (heads, T), (*arrays, *sizes), _SHARED[version][part](hs))


_TILES = {  # version: file, number in it, (rows, threads) of a block
    2: ("tiles", 2, (64, 128)),
    3: ("flash", 3, (128, 128)),
    4: ("tensor", 4, (128, 128)),
    5: ("tensor", 4, (128, 128)),
}
_SHARED = {  # version: bytes of shared memory of the kernel for dq, and of the one for dk and dv
    2: (
        lambda hs: tiles(hs, 64, 64, 32) + max(tiles(hs, 32), 4 * 64 * 36),
        lambda hs: tiles(hs, 64, 64, 32, 32) + 4 * 64 * 36,
    ),
    3: (lambda hs: tiles(hs, 128, 128, 32, 32) + 4 * 128 * 40,) * 2,
    4: (lambda hs: tiles(hs, *[32] * 4) + own(hs, 128, 128), lambda hs: tiles(hs, *[32] * 4) + own(hs, 128, 128) + 512),
    5: (lambda hs: tiles(hs, *[64] * 4) + own(hs, 128), lambda hs: tiles(hs, *[32] * 4) + own(hs, 128, 128) + 512),
}
