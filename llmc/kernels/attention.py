"""Launches the kernels of attention*.cu. Works on GPU arrays and on the emulator's alike.

Which version runs, unless the caller says: with tf32=True, one that multiplies factors rounded to TF32, on tensor cores
or on the emulator's imitation of them; without it, on a GPU with tensor cores, one with three such products for each,
which is exact enough for float32; elsewhere the last version without them. A version that cannot hold the heads gives
way to one before it.
"""

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, kernel, laddered, scratch, tensor_cores
from llmc.kernels.pointwise import aligned
from llmc.kernels.reductions import most_shared_memory

VERSIONS = {"attention_forward": 5, "attention_backward": 3}
BY_LIBRARY = {"attention_forward": 2}  # the version whose products are the library's
# For GPUs that have them: exact, and with factors rounded to TF32.
TENSOR_CORES = {"attention_forward": (6, 7), "attention_backward": (4, 5)}
WARPS = 4  # of a block, where one warp has one row
MOST = 2**31 - 1  # blocks in x of a grid


@laddered(1, 2)
def attention_forward(out, stats, qkv, NH, *, version=None, tf32=False):
    """*out, *stats from qkv: causal, scale 1/√hs.

    out: float32 (B, T, C). stats: float32 (B, NH, T), the logarithm of each query's sum of exponentials. qkv: float32
    (B, T, 3C), rows [q; k; v]. All are C-contiguous. version: 1 to 7; with None, as above, by tf32. Raises
    UserError if B · NH · T, or in versions 1 and 2 B · NH · T², is too large.
    """
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    check_rows(B, NH, T)
    version = version or tensor_cores.newest(5, TENSOR_CORES["attention_forward"], cuda.device(), tf32)
    version = _fitting(version, 5, hs, (out, qkv), _SHARED)
    sizes = np.int32(T), np.int32(NH), np.int32(hs)
    if version == 3:
        arguments = (out, stats, qkv, np.int32(heads), *sizes)
        kernel("attention", "attention_forward_v3")((ceil_div(heads * T, WARPS),), (32 * WARPS,), arguments)
    else:
        layer, number, tile = _TILES[version]
        function = kernel(f"attention_{layer}", f"attention_forward_v{number}", _define(hs, exact=version == 6))
        launch_tiles(function, tile, (heads, T), (out, stats, qkv, *sizes), _SHARED[version][0](hs))


def attention_backward(dqkv, dout, out, stats, qkv, NH, version=None, tf32=False):
    """*dqkv from dout and what the forward pass read and wrote.

    dqkv, qkv: float32 (B, T, 3C). dout, out: float32 (B, T, C). stats: float32 (B, NH, T). All are C-contiguous.
    version: 1 to 5; with None, as above, by tf32. Raises UserError if B · NH · T is too large.
    """
    B, T, C = out.shape
    heads, hs = B * NH, C // NH
    check_rows(B, NH, T)
    version = version or tensor_cores.newest(3, TENSOR_CORES["attention_backward"], cuda.device(), tf32)
    version = _fitting(version, 3, hs, (dqkv, dout, out, qkv), _SHARED_BACK)
    sizes = [np.int32(size) for size in (T, NH, hs)]
    delta = scratch("delta", (B, NH, T))
    number, rows = (1, WARPS) if version < 3 else (2, 16)  # eight lanes per row
    arguments = (delta, dout, out, np.int32(heads), *sizes)
    name = f"attention_backward_delta_v{number}"
    kernel("attention", name)((ceil_div(heads * T, rows),), (32 * WARPS,), arguments)
    for part, of in enumerate(("query", "key")):
        arrays = (dqkv, dout, stats, delta, qkv)
        if version == 1:
            function = kernel("attention", f"attention_backward_{of}_v1")
            function((ceil_div(heads * T, WARPS),), (32 * WARPS,), (*arrays, np.int32(heads), *sizes))
        else:
            layer, number, tile = _TILES_BACK[version]
            name = f"attention_backward_{of}_v{number}"
            function = kernel(f"attention_{layer}", name, _define(hs, exact=version == 4))
            launch_tiles(function, tile, (heads, T), (*arrays, *sizes), _SHARED_BACK[version][part](hs))


# -------------------------------------------------------------------------------- what all kernels of attention share


def check_rows(B, NH, T):
    """Raise UserError if there are more rows (B, NH, T) than a grid can hold."""
    if B * NH * T > MOST:
        raise UserError(f"attention holds at most {MOST:,} queries, B·NH·T, not {B * NH * T:,}; use a smaller batch.")


def _fitting(version, flash, hs, arrays, shared) -> int:
    """The version that takes these heads on this device: this one or one before it.

    Versions from `flash` on are for small heads and read 16 bytes at a time; those after it need tensor cores. shared:
    {version: functions}, each of which returns the bytes of shared memory that a kernel needs for hs.
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


def _define(hs, exact) -> str:
    """What kernels with tiles are compiled with."""
    return f"HS={padded(hs)} EXACT={int(exact)}"


def padded(hs) -> int:
    """Numbers in a row of a tile: hs rounded up to whole warps; padded(48) is 64."""
    return 32 * ceil_div(hs, 32)


def tiles(hs, *rows) -> int:
    """Bytes of tiles in shared memory with this many rows of hs numbers, each row four longer, as in the .cuh files."""
    return 4 * sum(rows) * (padded(hs) + 4)


def _own(hs, *rows) -> int:
    """Bytes of shared memory for this many rows that no other warp reads, as tensor_cores.cuh keeps them."""
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
    6: [lambda hs: tiles(hs, 32, 32, 32, 32) + _own(hs, 128)],
    7: [lambda hs: tiles(hs, 64, 64, 64, 64)],
}
_TILES_BACK = {  # version: file, number in it, (rows, threads) of a block
    2: ("tiles", 2, (64, 128)),
    3: ("flash", 3, (128, 128)),
    4: ("tensor", 4, (128, 128)),
    5: ("tensor", 4, (128, 128)),
}
_SHARED_BACK = {  # version: bytes of shared memory of the kernel for dq, and of the one for dk and dv
    2: (
        lambda hs: tiles(hs, 64, 64, 32) + max(tiles(hs, 32), 4 * 64 * 36),
        lambda hs: tiles(hs, 64, 64, 32, 32) + 4 * 64 * 36,
    ),
    3: (lambda hs: tiles(hs, 128, 128, 32, 32) + 4 * 128 * 40,) * 2,
    4: (
        lambda hs: tiles(hs, *[32] * 4) + _own(hs, 128, 128),
        lambda hs: tiles(hs, *[32] * 4) + _own(hs, 128, 128) + 512,
    ),
    5: (lambda hs: tiles(hs, *[64] * 4) + _own(hs, 128), lambda hs: tiles(hs, *[32] * 4) + _own(hs, 128, 128) + 512),
}
