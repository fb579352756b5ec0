"""Launches the kernels of attention.cu and attention_cached.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, scratch
from llmc.kernels.attention import WARPS, check_rows, launch_tiles, padded, tiles
from llmc.kernels.attention_cached import on_device
from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import THREADS, blocks_at_once
from llmc.kernels.reductions import most_shared_memory

TILE = 64, 128  # rows and threads of a block
LARGEST = 256  # numbers of a head whose sums a block can hold in registers


def attention_forward(out, stats, qkv, NH):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out (B, T, C), qkv (B, T, 3C), rows [q; k; v]: 16 bits. stats: float32 (B, NH, T), the logarithm of each query's sum
    of exponentials. Raises UserError for heads that are too large, and for too many queries.
    """
    hs = out.shape[-1] // NH
    _launch(
        "attention_forward_v1", (out, stats, qkv), out.shape, NH, tiles(hs, 64, 64) + max(tiles(hs, 64), 4 * 64 * 68)
    )


def attention_backward(dqkv, dout, out, stats, qkv, NH):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv (B, T, 3C), dout, out (B, T, C): 16 bits. stats: float32 (B, NH, T). Raises UserError as above.
    """
    B, T, C = out.shape
    hs = C // NH
    check_rows(B, NH, T)
    delta = scratch("delta", (B, NH, T))
    sizes = [np.int32(size) for size in (B * NH, T, NH, hs)]
    launch = kernel_for(out, "attention", "attention_backward_delta_v1", f"HS={padded(hs)}")
    launch((ceil_div(B * NH * T, WARPS),), (32 * WARPS,), (delta, dout, out, *sizes))
    arrays, weights = (dqkv, dout, stats, delta, qkv), 4 * 64 * 36  # bytes
    _launch("attention_backward_query_v1", arrays, out.shape, NH, tiles(hs, 64, 64, 32) + max(tiles(hs, 32), weights))
    _launch("attention_backward_key_v1", arrays, out.shape, NH, tiles(hs, 64, 64, 32, 32) + weights)


def _launch(name, arrays, shape, NH, shared):
    """A launch with a block for each tile of each head. shape: (B, T, C); shared: bytes of shared memory."""
    B, T, C = shape
    hs = C // NH
    check_rows(B, NH, T)
    if hs > LARGEST or shared > most_shared_memory(cuda.device()):
        raise UserError(f"attention in 16 bits cannot hold heads of {hs} numbers on this device; use fp32 for them.")
    sizes = np.int32(T), np.int32(NH), np.int32(hs)
    function = kernel_for(arrays[0], "attention", name, f"HS={padded(hs)}")
    launch_tiles(function, TILE, (B * NH, T), (*arrays, *sizes), shared)


def attention_cached(out, cache, qkv, NH, start):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out (B, n, C), cache (2, B, NH, maxT, hs), qkv (B, n, 3C): 16 bits. start: a number, or int32 (1,) where kernels
    run, for a launch that is recorded and repeated. Raises UserError for too many queries.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    check_rows(B, NH, n)
    sizes = *(np.int32(size) for size in (B, n, NH)), on_device(start), np.int32(maxT)
    keep = kernel_for(cache, "attention_cached", "attention_cached_keep_v1", f"HS={hs}")
    keep((blocks_at_once(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    attend = kernel_for(cache, "attention_cached", "attention_cached_v1", f"HS={hs}")
    attend((B * NH * n,), (THREADS,), (out, cache, qkv, *sizes))
