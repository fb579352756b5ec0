"""Launches the kernels of attention*.cu. Works on GPU arrays and on the emulator's alike.

Which version runs, unless the caller says: on Hopper's GPUs version 3, on others with tensor cores for both types
version 2, elsewhere version 1. Where one cannot hold the heads, the one before takes its place. by="cudnn"
selects cuDNN's attention instead.
"""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, scratch, tensor_cores
from llmc.kernels.attention import WARPS, check_rows, launch_tiles, padded, tiles
from llmc.kernels.attention_cached import on_device
from llmc.kernels.mixed import attention_cudnn, attention_hopper, kernel_for, matmul_fp8
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once
from llmc.kernels.reductions import most_shared_memory

VERSIONS = {"attention_forward": 2, "attention_backward": 2}
LARGEST = {1: 256, 2: 128}  # version: numbers of a head whose sums can be held in registers


def attention_forward(out, stats, qkv, NH, version=None, by="own"):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out (B, T, C), qkv (B, T, 3C), rows [q; k; v]: 16 bits. stats: float32 (B, NH, T), the logarithm of each query's sum
    of exponentials. version: 1 to 3; with None, as above. Raises UserError for heads that are too large, and for
    too many queries.
    """
    if version is None and by == "cudnn":
        attention_cudnn.attention_forward(out, stats, qkv, NH)
        return
    B, T, C = out.shape
    check_rows(B, NH, T)
    if _hoppers(version) and attention_hopper.fits(out, qkv, NH):
        attention_hopper.attention_forward(out, stats, qkv, NH)
        return
    version = _fitting(2 if version == 3 else version, C // NH, (out, qkv), (_forward_bytes,))
    _launch(f"attention_forward_v{version}", (out, stats, qkv), out.shape, NH, version, _forward_bytes)


def attention_backward(dqkv, dout, out, stats, qkv, NH, version=None, by="own"):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv (B, T, 3C), dout, out (B, T, C): 16 bits. stats: float32 (B, NH, T). version and errors: as above.
    """
    if version is None and by == "cudnn":
        attention_cudnn.attention_backward(dqkv, dout, out, stats, qkv, NH)
        return
    B, T, C = out.shape
    hs = C // NH
    check_rows(B, NH, T)
    if _hoppers(version) and attention_hopper.fits(out, qkv, NH) and hs <= attention_hopper.LARGEST_BACK:
        attention_hopper.attention_backward(dqkv, dout, out, stats, qkv, NH)
        return
    version = _fitting(2 if version == 3 else version, hs, (dqkv, dout, out, qkv), (_query_bytes, _key_bytes))
    delta = scratch("delta", (B, NH, T))
    sizes = [np.int32(size) for size in (B * NH, T, NH, hs)]
    file, rows = ("attention", WARPS) if version == 1 else ("attention_tensor_backward", 16)
    launch = kernel_for(out, file, f"attention_backward_delta_v{version}", f"HS={padded(hs)}")
    launch((ceil_div(B * NH * T, rows),), (32 * WARPS,), (delta, dout, out, *sizes))
    arrays = dqkv, dout, stats, delta, qkv
    _launch(f"attention_backward_query_v{version}", arrays, out.shape, NH, version, _query_bytes)
    _launch(f"attention_backward_key_v{version}", arrays, out.shape, NH, version, _key_bytes)


def attention_backward_narrow(dqkv, db, dout, out, stats, qkv, NH, gradients, accumulate=True, by="own"):
    """*dqkv (B, T, 3C), uint8, in e5m2, multiplied by gradients; +db (3C,), 16 bits, += its column sums before that; =
    them, without accumulate. The rest as above.
    """
    check_rows(len(out), NH, out.shape[1])
    if by == "own" and _hoppers(None) and attention_hopper.fits(out, qkv, NH) and out.shape[2] // NH == 64:
        narrow = dict(db=db, accumulate=accumulate, gradients=gradients)
        attention_hopper.attention_backward(dqkv, dout, out, stats, qkv, NH, **narrow)
        return
    numbers = scratch("before 8 bits", qkv.shape, qkv.dtype)  # (B, T, 3C)
    attention_backward(numbers, dout, out, stats, qkv, NH, by=by)
    matmul_fp8.narrow(dqkv, db, numbers, gradients, accumulate)


def _hoppers(version) -> bool:
    """Whether version 3 is asked for. The emulator runs it too, at its leisure, but only when told to."""
    return version == 3 or version is None and cuda.device() == "gpu"


def _fitting(version, hs, arrays, needed) -> int:
    """The version that takes these heads on this device. needed: functions that return bytes of shared memory."""
    kind = cuda.device()
    last = tensor_cores.available(kind) if version is None else version == 2 and tensor_cores.has_tf32(kind)
    fits = hs <= LARGEST[2] and all(each(hs, 2) <= most_shared_memory(kind) for each in needed)
    return 2 if last and fits and hs % 8 == 0 and aligned(*arrays) else 1


def _launch(name, arrays, shape, NH, version, needed):
    """A launch with a block for each tile of each head. shape: (B, T, C); needed: as above, but one function."""
    B, T, C = shape
    hs = C // NH
    shared = needed(hs, version)
    if hs > LARGEST[version] or shared > most_shared_memory(cuda.device()):
        raise UserError(f"attention in 16 bits cannot hold heads of {hs} numbers on this device; use fp32 for them.")
    file = "attention" if version == 1 else "attention_tensor" + "_backward" * ("backward" in name)
    sizes = np.int32(T), np.int32(NH), np.int32(hs)
    tile = 64 if version == 1 else _rows(hs), 128  # rows and threads of a block
    launch_tiles(kernel_for(arrays[0], file, name, f"HS={padded(hs)}"), tile, (B * NH, T), (*arrays, *sizes), shared)


def _rows(hs) -> int:
    """Rows of a block in version 2."""
    return 128 if hs <= 64 else 64


def _tiles_16(hs, *rows) -> int:
    """Bytes of tiles of 16-bit numbers in shared memory, each row eight longer, as in tensor_cores_16.cuh."""
    return 2 * sum(rows) * (padded(hs) + 8)


def _forward_bytes(hs, version) -> int:
    if version == 1:
        return tiles(hs, 64, 64) + max(tiles(hs, 64), 4 * 64 * 68)
    return _tiles_16(hs, 64, 64, 64, 64)


def _query_bytes(hs, version) -> int:
    if version == 1:
        return tiles(hs, 64, 64, 32) + max(tiles(hs, 32), 4 * 64 * 36)
    return _tiles_16(hs, 64, 64, 64, 64, _rows(hs), _rows(hs))


def _key_bytes(hs, version) -> int:
    if version == 1:
        return tiles(hs, 64, 64, 32, 32) + 4 * 64 * 36
    return _tiles_16(hs, _rows(hs), _rows(hs), 32, 32, 32, 32) + 512  # and stats and delta of two stages


def attention_cached(out, cache, qkv, NH, start):
    """*out: attention of positions start … start + n - 1; their keys and values join those in +cache.

    out (B, n, C), cache (2, B, NH, maxT, hs), qkv (B, n, 3C): 16 bits. start: a number, or int32 (1,) where kernels
    run, for a launch that is recorded and repeated. Raises UserError for too many queries.
    """
    B, n, C = out.shape
    maxT, hs = cache.shape[-2:]
    check_rows(B, NH, n)
    if n == 1 and hs % 8 == 0 and hs <= LARGEST[1] and aligned(cache, qkv):
        attend = kernel_for(cache, "attention_cached", "attention_cached_v2", f"HS={hs}")
        attend((B * NH,), (512,), (out, cache, qkv, np.int32(B), np.int32(NH), on_device(start), np.int32(maxT)))
        return
    sizes = *(np.int32(size) for size in (B, n, NH)), on_device(start), np.int32(maxT)
    keep = kernel_for(cache, "attention_cached", "attention_cached_keep_v1", f"HS={hs}")
    keep((blocks_at_once(B * n * 2 * C),), (THREADS,), (cache, qkv, *sizes))
    fits = hs <= LARGEST[2] and _forward_bytes(hs, 1) <= most_shared_memory(cuda.device())
    if n > 1 and start == 0 and fits:  # nothing was in the cache: plain attention
        attention_forward(out, scratch("stats", (B, NH, n)), qkv, NH)
        return
    attend = kernel_for(cache, "attention_cached", "attention_cached_v1", f"HS={hs}")
    attend((B * NH * n,), (THREADS,), (out, cache, qkv, *sizes))
