"""Launches the kernels of attention_cached.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.attention import WARPS, address_of, attention_forward, check_rows
from llmc.kernels.pointwise import THREADS, blocks_at_once

VERSIONS = {"attention_cached": 2}
KEYS = 64  # that a block of version 2 has at once, as in attention_cached.cu


def attention_cached(out, cache, qkv, NH, start, version=None):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out: float32 (B, n, C). cache: float32 (2, B, NH, maxT, hs). qkv: float32 (B, n, 3C). All are C-contiguous.
    version: 1 or 2, None is the last; arrays that do not begin at multiples of 16 bytes take 1. Raises UserError if
    B · NH · n is too large.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    check_rows(B, NH, n)
    version = version or VERSIONS["attention_cached"]
    aligned = hs % 4 or all(address_of(array) % 16 == 0 for array in (cache, qkv))
    if version == 2 and aligned and (start or n == 1):
        _split(out, cache, qkv, NH, start)
        return
    sizes = [np.int32(size) for size in (B, n, NH, hs, start, maxT)]
    keep = kernel("attention_cached", "attention_cached_keep_v1", f"HS={hs}")
    keep((blocks_at_once(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    if version == 2 and start == 0:  # nothing is in the cache: plain attention
        attention_forward(out, scratch("stats", (B, NH, n)), qkv, NH)
        return
    attend = kernel("attention_cached", "attention_cached_v1", f"HS={hs}")
    attend((ceil_div(B * NH * n, WARPS),), (32 * WARPS,), (out, cache, qkv, *sizes))


def _split(out, cache, qkv, NH, start):
    """Version 2. A single position is split over many blocks, KEYS keys each; of several, each has one block."""
    B, n, _ = out.shape
    maxT, hs = cache.shape[-2:]
    splits = ceil_div(start + n, KEYS) if n == 1 else 1
    found = scratch("found", (B * NH * n, splits, hs + 2))
    sizes = [np.int32(size) for size in (B, n, NH, start, maxT, KEYS * ceil_div(ceil_div(start + n, splits), KEYS))]
    split = kernel("attention_cached", "attention_cached_split_v2", f"HS={hs}")
    split((B * NH * n, splits), (32 * WARPS,), (found, cache, qkv, *sizes))
    combine = kernel("attention_cached", "attention_cached_combine_v2", f"HS={hs}")
    combine((B * NH * n,), (64,), (out, found, np.int32(n), np.int32(NH), np.int32(splits)))
