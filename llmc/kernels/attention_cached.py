"""Launches the kernels of attention_cached.cu. Works on GPU arrays and on the emulator's alike."""

from functools import cache

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, kernel, laddered, scratch
from llmc.kernels.attention import WARPS, attention_forward, check_rows
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once

VERSIONS = {"attention_cached": 3}
KEYS = 64  # that a block of versions 2 and 3 handles at once, as in attention_cached.cu
BLOCKS = 384  # of version 3 that keep a large GPU busy: there are no more splits than that takes


@laddered(2)
def attention_cached(out, cache, qkv, NH, start, *, version=3):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out: float32 (B, n, C). cache: float32 (2, B, NH, maxT, hs). qkv: float32 (B, n, 3C). All are C-contiguous.
    start: a number, or int32 (1,) where kernels run, for a launch that is recorded and repeated, with n = 1.
    version: 1 to 3; arrays that do not begin at multiples of 16 bytes need 1. Raises UserError if
    B · NH · n is too large.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    check_rows(B, NH, n)
    if version == 3 and splits(cache, qkv, n, start):
        _split(out, cache, qkv, NH, start)
        return
    sizes = *(np.int32(size) for size in (B, n, NH, hs)), on_device(start), np.int32(maxT)
    keep = kernel("attention_cached", "attention_cached_keep_v1", f"HS={hs}")
    keep((blocks_at_once(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    if version == 3 and n > 1 and start == 0:  # nothing is in the cache: plain attention
        attention_forward(out, scratch("stats", (B, NH, n)), qkv, NH)
        return
    attend = kernel("attention_cached", "attention_cached_v1", f"HS={hs}")
    attend((ceil_div(B * NH * n, WARPS),), (32 * WARPS,), (out, cache, qkv, *sizes))


def splits(cache, qkv, n, start) -> bool:
    """Whether n positions can go to versions 2 and 3, which share out the keys."""
    return (cache.shape[-1] % 4 or aligned(cache, qkv)) and (n == 1 or start)


def shares(out, cache, NH, start, most=None):
    """(how many blocks share the keys of a query, where they write what they have found, the sizes for the kernel).

    The keys of a single position are split over many blocks, up to `most`; of several positions, each has one block.
    """
    B, n, _ = out.shape
    maxT, hs = cache.shape[-2:]
    known = isinstance(start, int | np.integer)
    end = start + n if known else maxT  # of the keys: a start on the device may become any number
    count = ceil_div(end, KEYS) if n == 1 else 1
    count = count if most is None else min(count, most)
    found = scratch("found", (B * NH * n, count, hs + 2))
    span = KEYS * ceil_div(ceil_div(end, count), KEYS)
    sizes = *(np.int32(size) for size in (B, n, NH)), on_device(start), np.int32(maxT), np.int32(span)
    return count, found, sizes


def _split(out, cache, qkv, NH, start):
    """Version 3."""
    B, n, _ = out.shape
    rows = B * NH * n
    count, found, sizes = shares(out, cache, NH, start, most=ceil_div(BLOCKS, rows))
    split = kernel("attention_cached", "attention_cached_split_v3", f"HS={cache.shape[-1]}")
    finished = _counters(cuda.device(), rows)
    try:
        split((rows, count), (32 * WARPS,), (out, finished, found, cache, qkv, *sizes))
    except Exception:  # the emulator has stopped it halfway
        finished.fill(0)
        raise


@cache
def _counters(device, rows):
    """(rows,) uint32 zeros where kernels run; each launch leaves zeros behind again."""
    return cuda.xp.zeros(rows, np.uint32)


def on_device(start):
    """start as an array where kernels run: int32 (1,)."""
    if not isinstance(start, int | np.integer):
        return start
    array = scratch("start", (1,), "int32")
    array.fill(start)
    return array
