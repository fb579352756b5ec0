"""Launches the forward kernels of attention. Works on GPU arrays and on the emulator's alike.

Which version runs, unless the caller says: with tf32=True one that multiplies factors rounded to TF32, on tensor cores
or on the emulator's imitation of them; without it, on a GPU with tensor cores, one with three such products for each,
which is exact enough for float32; elsewhere the last version without them. A version that cannot hold the heads gives
way to one before it.
"""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, kernel, scratch, tensor_cores
from llmc.kernels.pointwise import THREADS, aligned, blocks_at_once
from llmc.kernels.reductions import most_shared_memory

VERSIONS = {"attention_forward": 5}
BY_LIBRARY = {"attention_forward": 2}  # the version whose products are the library's
TENSOR_CORES = {"attention_forward": (6, 7)}  # for GPUs that have them: exact, and with factors rounded to TF32
WARPS = 4  # of a block, where one warp has one row
MOST = 2**31 - 1  # blocks in x of a grid


def attention_forward(out, stats, qkv, NH, version=None, tf32=False):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out: float32 (B, T, C). stats: float32 (B, NH, T), the logarithm of each query's sum of exponentials. qkv: float32
    (B, T, 3C), rows [q; k; v]. All are C-contiguous. version: 1 to 7; None is as the module says, by tf32. Raises
    UserError if B · NH · T, or in versions 1 and 2 B · NH · T², is too large.
    """
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    check_rows(B, NH, T)
    version = version or tensor_cores.newest(5, TENSOR_CORES["attention_forward"], cuda.device(), tf32)
    version = fitting(version, 5, hs, (out, qkv), _SHARED)
    sizes = np.int32(T), np.int32(NH), np.int32(hs)
    if version <= 2:
        _three_kernels(out, stats, qkv, NH, by_library=version == 2)
    elif version == 3:
        arguments = (out, stats, qkv, np.int32(heads), *sizes)
        kernel("attention", "attention_forward_v3")((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
    else:
        layer, number, tile = _TILES[version]
        function = kernel(f"attention_{layer}", f"attention_forward_v{number}", define(hs, exact=version == 6))
        launch_tiles(function, tile, (heads, T), (out, stats, qkv, *sizes), _SHARED[version][0](hs))


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


# -------------------------------------------------------------------------------- what all kernels of attention share


def check_rows(B, NH, T):
    """Raise UserError if there are more rows (B, NH, T) than a grid can hold."""
    if B * NH * T > MOST:
        raise UserError(f"attention holds at most {MOST:,} queries, B·NH·T, not {B * NH * T:,}; take a smaller batch.")


def fitting(version, flash, hs, arrays, shared) -> int:
    """The version that takes these heads on this device: this one or one before it.

    Those from `flash` on are for small heads and read 16 bytes at a time; those after it need tensor cores. shared:
    {version: functions}, each returns the bytes of shared memory that a kernel needs for hs.
    """
    whole = hs % 4 == 0 and aligned(*arrays)
    kind = cuda.device()
    room = most_shared_memory(kind)

    def takes(version):
        largest = 64 if version >= flash else 128
        return (
            hs <= largest
            and (whole or version < flash)
            and (version <= flash or tensor_cores.has_tf32(kind))
            and all(bytes_of(hs) <= room for bytes_of in shared[version])
        )

    while version in shared and not takes(version):
        version -= 1
    return version


def launch_tiles(function, tile, sizes, arguments, shared):
    """Launch a kernel for all heads and tiles. tile: (rows, threads of a block); sizes: (heads, T); shared: bytes."""
    if function.max_dynamic_shared_size_bytes < shared:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    grid = sizes[0], ceil_div(sizes[1], tile[0])
    function(grid, (tile[1],), arguments, shared_mem=shared)


def define(hs, exact) -> str:
    """What kernels with tiles are compiled with."""
    return f"HS={padded(hs)} EXACT={int(exact)}"


def padded(hs) -> int:
    """Numbers of a row of a tile: hs rounded up to whole warps, padded(48) is 64."""
    return 32 * ceil_div(hs, 32)


def tiles(hs, *rows) -> int:
    """Bytes of tiles in shared memory with so many rows of hs numbers, each row four longer, as in the .cuh files."""
    return 4 * sum(rows) * (padded(hs) + 4)


def own(hs, *rows) -> int:
    """Bytes of shared memory for so many rows that no other warp reads, as tensor_cores.cuh keeps them."""
    return 4 * sum(rows) * padded(hs)


_TILES = {  # version: file, number in it, (queries, threads) of a block
    4: ("tiles", 4, (64, 128)),
    5: ("flash", 5, (128, 128)),
    6: ("tensor", 6, (128, 128)),
    7: ("tensor", 6, (128, 128)),
}
_SHARED = {  # version: bytes of shared memory
    4: [lambda hs: tiles(hs, 64, 64) + max(tiles(hs, 64), 4 * 64 * 68)],
    5: [lambda hs: tiles(hs, 128, 32, 32) + 4 * 128 * 40],
    6: [lambda hs: tiles(hs, 32, 32, 32, 32) + own(hs, 128)],
    7: [lambda hs: tiles(hs, 64, 64, 64, 64)],
}
