"""Launches the forward kernels of attention. Works on GPU arrays and on the emulator's alike.

Which version runs is decided here and in attention_backward.py: the last one that can hold the heads. With TF32 on
(`cublas.tf32()`) and a GPU that has such tensor cores, that is the one in TENSOR_CORES.
"""

from functools import lru_cache

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, kernel, scratch
from llmc.kernels.pointwise import THREADS, blocks_at_once

VERSIONS = {"attention_forward": 5}
TENSOR_CORES = {"attention_forward": 6}  # the version that multiplies in TF32
WARPS = 4  # of a block, in all kernels of attention
MOST = 2**31 - 1  # blocks in x of a grid; B NH T may not be more


def attention_forward(out, stats, qkv, NH, version=None):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out: float32 (B, T, C). stats: float32 (B, NH, T), the logarithm of each query's sum of exponentials. qkv: float32
    (B, T, 3C), rows [q; k; v]. All are C-contiguous. version: 1 to 6; None is as above; one that cannot hold the heads
    gives way to the one before it. Raises UserError if B · NH · T, or in versions 1 and 2 B · NH · T², is too large.
    """
    B, T, C = out.shape
    hs = C // NH
    check_rows(B, NH, T)
    version = version or newest("attention_forward", VERSIONS, TENSOR_CORES)
    if version > 4 and not fits_fast(hs, out, qkv):
        version = 4
    if version == 4 and not fits_tiles(hs, _SHARED[4]):
        version = 3
    heads, sizes = B * NH, (np.int32(T), np.int32(NH), np.int32(hs))
    if version <= 2:
        _three_kernels(out, stats, qkv, NH, by_library=version == 2)
    elif version == 3:
        arguments = (out, stats, qkv, np.int32(heads), *sizes)
        kernel("attention", "attention_forward_v3")((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
    else:
        layer, rows = {4: ("attention_tiles", 64), 5: ("attention_flash", 128), 6: ("attention_tensor", 128)}[version]
        launch_tiles(
            kernel(layer, f"attention_forward_v{version}", define(hs)),
            *((heads, ceil_div(T, rows)), (out, stats, qkv, *sizes), _SHARED[version](hs)),
        )


def _three_kernels(out, stats, qkv, NH, by_library):
    """Versions 1 and 2: scores, softmax, values, with all probabilities in memory."""
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    if heads * T * T > MOST:
        raise UserError(
            f"versions 1 and 2 of attention keep B·NH·T² = {heads * T * T:,} probabilities, more than {MOST:,}; "
            "take a later version."
        )
    p = scratch("probabilities", (B, NH, T, T))
    sizes = [np.int32(size) for size in (T, NH, hs)]
    if by_library:
        cublas.attention_scores(p, qkv)
    else:
        arguments = (p, qkv, np.int32(heads), *sizes)
        kernel("attention", "attention_scores_v1")((blocks_at_once(p.size),), (THREADS,), arguments)
    arguments = (p, stats, np.int32(heads), np.int32(T))
    kernel("attention", "attention_softmax_v1")((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
    if by_library:
        cublas.attention_values(out, p, qkv)
    else:
        arguments = (out, p, qkv, np.int32(B), *sizes)
        kernel("attention", "attention_values_v1")((blocks_at_once(out.size),), (THREADS,), arguments)


# ------------------------------------------------------------------------------------- what all kernels of attention share


def check_rows(B, NH, T):
    """Raise UserError if there are more rows (B, NH, T) than a grid can hold."""
    if B * NH * T > MOST:
        raise UserError(f"attention holds at most {MOST:,} queries, B·NH·T, not {B * NH * T:,}; take a smaller batch.")


def launch_tiles(function, grid, arguments, shared):
    """Launch a kernel that has tiles in `shared` bytes of shared memory."""
    if function.max_dynamic_shared_size_bytes < shared:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    function(grid, (32 * WARPS,), arguments, shared_mem=shared)


def padded(hs) -> int:
    """Numbers of a row of a tile: hs rounded up to whole warps, padded(48) is 64."""
    return 32 * ceil_div(hs, 32)


def define(hs) -> str:
    """What kernels with tiles are compiled with."""
    return f"HS={padded(hs)}"


def newest(name, versions, tensor_cores) -> int:
    """The version that the engine takes."""
    return tensor_cores[name] if cublas.tf32() and has_tensor_cores(cuda.device()) else versions[name]


def fits_fast(hs, *arrays) -> bool:
    """Whether the kernels for small heads, which read and write 16 bytes at a time, can take these arrays."""
    return hs <= 64 and hs % 4 == 0 and all(address_of(array) % 16 == 0 for array in arrays)


def fits_tiles(hs, shared) -> bool:
    """Whether the tiles for heads of any size up to 128 fit in shared memory, shared(hs) bytes."""
    return hs <= 128 and shared(hs) <= _most_shared_memory(cuda.device())


def address_of(array) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def tiles(hs, *rows) -> int:
    """Bytes of tiles in shared memory with so many rows of hs numbers, each row four longer, as in the .cuh files."""
    return 4 * sum(rows) * (padded(hs) + 4)


_SHARED = {  # version: bytes of shared memory
    4: lambda hs: tiles(hs, 64, 64) + max(tiles(hs, 64), 4 * 64 * 68),
    5: lambda hs: tiles(hs, 128, 64, 64) + 4 * 128 * 72,
    6: lambda hs: tiles(hs, 64, 64, 64, 64),
}


@lru_cache
def has_tensor_cores(kind) -> bool:
    """Whether this GPU multiplies in TF32: those since Ampere do. The emulator runs the float32 versions."""
    return kind == "gpu" and int(cuda.xp.cuda.Device().compute_capability) >= 80


@lru_cache
def _most_shared_memory(kind) -> int:
    """Bytes of shared memory that a block may request."""
    if kind == "emulator":
        return 227 * 1024
    return cuda.xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
