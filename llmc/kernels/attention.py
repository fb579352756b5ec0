"""Launches the kernels of attention.cu. Works on GPU arrays and on the emulator's alike."""

from functools import lru_cache

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.pointwise import THREADS, blocks_for

VERSIONS = {"attention_forward": 2, "attention_backward": 2, "attention_cached": 1}
BIG, SMALL = 64, 32  # rows of a tile, as in attention.cu
WARPS = 4  # of a block, in all kernels: one row each in v1, one tile for all in v2


def attention_forward(out, stats, qkv, NH, version=None):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out: float32 (B, T, C). stats: float32 (B, NH, T), the logarithm of each query's sum of exponentials. qkv: float32
    (B, T, 3C), rows [q; k; v]. All are C-contiguous. version: 1 or 2; None is the last one that can hold the heads.
    """
    B, T, C = out.shape
    hs = C // NH
    version = version or _last(hs, "attention_forward")
    _launch("attention_forward", (out, stats, qkv), version, B=B, T=T, NH=NH, hs=hs)


def attention_backward(dqkv, dout, out, stats, qkv, NH, version=None):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv: float32 (B, T, 3C). dout, out: float32 (B, T, C). stats: float32 (B, NH, T). All are C-contiguous.
    version: 1 or 2; None is the last one that can hold the heads.
    """
    B, T, C = out.shape
    hs = C // NH
    delta = scratch("delta", (B, NH, T))
    sizes = dict(B=B, T=T, NH=NH, hs=hs)
    _launch("attention_backward_delta", (delta, dout, out), version=1, **sizes)
    for part in ("attention_backward_query", "attention_backward_key"):
        _launch(part, (dqkv, dout, stats, delta, qkv), version or _last(hs, part), **sizes)


def attention_cached(out, cache, qkv, NH, start, version=None):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out: float32 (B, n, C). cache: float32 (2, B, NH, maxT, hs). qkv: float32 (B, n, 3C). All are C-contiguous.
    start: a number, or int32 (1,) where kernels run, so that a recorded launch finds another number the next time.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    sizes = [*(np.int32(size) for size in (B, n, NH, hs)), _on_device(start), np.int32(maxT)]
    keep, attend = (
        kernel("attention", name, _define(hs)) for name in ("attention_cached_keep_v1", "attention_cached_v1")
    )
    keep((blocks_for(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    attend((ceil_div(n, WARPS), B * NH), (32 * WARPS,), (out, cache, qkv, *sizes))


def _on_device(start):
    """A number in device memory: int32 (1,)."""
    if not isinstance(start, int | np.integer):
        return start
    array = scratch("start", (1,), "int32")
    array.fill(start)
    return array


def _launch(name, arrays, version, *, B, T, NH, hs):
    """Launch one of the kernels whose arguments are some arrays, then T, NH and hs."""
    function = kernel("attention", f"{name}_v{version}", _define(hs))
    sizes = np.int32(T), np.int32(NH), np.int32(hs)
    if version == 1:
        function((ceil_div(T, WARPS), B * NH), (32 * WARPS,), (*arrays, *sizes))
        return
    shared = shared_memory(name, hs)
    if function.max_dynamic_shared_size_bytes < shared:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    function((B * NH, ceil_div(T, BIG)), (32 * WARPS,), (*arrays, *sizes), shared_mem=shared)


def _padded(hs) -> int:
    return 32 * ceil_div(hs, 32)


def _define(hs) -> str:
    """HS for the tiles of attention.cu. Heads that are too large for them use v1 and share one compilation."""
    return f"HS={_padded(hs) if hs <= 128 else 64}"


def shared_memory(name: str, hs: int) -> int:
    """Bytes of shared memory that version 2 of a kernel needs for heads of hs numbers."""
    row = _padded(hs) + 4  # floats from row to row, as in attention.cu
    big, small, weights = BIG * row, SMALL * row, BIG * (SMALL + 4)
    floats = {
        "attention_forward": 2 * big + max(big, BIG * (BIG + 4)),
        "attention_backward_query": 2 * big + small + max(small, weights),
        "attention_backward_key": 2 * big + 2 * small + weights,
    }
    return 4 * floats[name]


def _last(hs, name) -> int:
    """2 if its tiles fit in shared memory, else 1."""
    return 2 if hs <= 128 and shared_memory(name, hs) <= _most_shared_memory(cuda.device()) else 1


@lru_cache
def _most_shared_memory(kind) -> int:
    """Bytes of shared memory that a block may request."""
    if kind == "emulator":
        return 227 * 1024
    return cuda.xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
