"""Launches the kernels of attention_cached.cu. Works on GPU arrays and on the emulator's alike."""

from functools import cache

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, kernel, scratch
from llmc.kernels.attention import WARPS, attention_forward, check_rows
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once

VERSIONS = {"attention_cached": 3}
KEYS = 64  # that a block of versions 2 and 3 has at once, as in attention_cached.cu
BLOCKS = 384  # of version 3 that keep a large GPU busy: there are no more splits than that takes


def attention_cached(out, cache, qkv, NH, start, version=None):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out: float32 (B, n, C). cache: float32 (2, B, NH, maxT, hs). qkv: float32 (B, n, 3C). All are C-contiguous.
    start: a number, or int32 (1,) where kernels run, for a launch that is recorded and repeated, with n = 1.
    version: 1 to 3, None is the last; arrays that do not begin at multiples of 16 bytes take 1. Raises UserError if
    B · NH · n is too large.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    check_rows(B, NH, n)
    version = version or VERSIONS["attention_cached"]
    if version > 1 and (hs % 4 or aligned(cache, qkv)) and (n == 1 or start):
        _split(out, cache, qkv, NH, start, version)
        return
    sizes = *(np.int32(size) for size in (B, n, NH, hs)), on_device(start), np.int32(maxT)
    keep = kernel("attention_cached", "attention_cached_keep_v1", f"HS={hs}")
    keep((blocks_at_once(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    if version > 1 and n > 1 and start == 0:  # nothing is in the cache: plain attention
        attention_forward(out, scratch("stats", (B, NH, n)), qkv, NH)
        return
    attend = kernel("attention_cached", "attention_cached_v1", f"HS={hs}")
    attend((ceil_div(B * NH * n, WARPS),), (32 * WARPS,), (out, cache, qkv, *sizes))


def _split(out, cache, qkv, NH, start, version):
    """Versions 2 and 3. The keys of a single position are split over many blocks; of several, each has one block."""
    B, n, _ = out.shape
    maxT, hs = cache.shape[-2:]
    known = isinstance(start, int | np.integer)
    end = start + n if known else maxT  # of the keys: a start on the device may become any
    rows, splits = B * NH * n, ceil_div(end, KEYS)
    if version == 3:
        splits = min(splits, ceil_div(BLOCKS, rows))
    splits = splits if n == 1 else 1
    found = scratch("found", (rows, splits, hs + 2))
    span = KEYS * ceil_div(ceil_div(end, splits), KEYS)
    sizes = *(np.int32(size) for size in (B, n, NH)), on_device(start), np.int32(maxT), np.int32(span)
    split = kernel("attention_cached", f"attention_cached_split_v{version}", f"HS={hs}")
    if version == 3:
        finished = _counters(cuda.device(), rows)
        try:
            split((rows, splits), (32 * WARPS,), (out, finished, found, cache, qkv, *sizes))
        except Exception:  # the emulator has stopped it halfway
            finished.fill(0)
            raise
        return
    split((rows, splits), (32 * WARPS,), (found, cache, qkv, *sizes))
    combine = kernel("attention_cached", "attention_cached_combine_v2", f"HS={hs}")
    combine((rows,), (64,), (out, found, np.int32(n), np.int32(NH), np.int32(splits)))


@cache
def _counters(device, rows):
    """(rows,) uint32 zeros where kernels run, and zeros again after each launch: a launch brings them back there."""
    return cuda.xp.zeros(rows, np.uint32)


def on_device(start):
    """start as an array where kernels run: int32 (1,)."""
    if not isinstance(start, int | np.integer):
        return start
    array = scratch("start", (1,), "int32")
    array.fill(start)
    return array
