"""Launches the products that only Hopper's GPUs have instructions for: versions 7, 8 and 9, in matmul_tma.cu,
matmul_roles.cu and matmul_persistent.cu.

Their squares come by tensor maps, which are made once for each array. A map needs rows of whole 16-byte words.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, scratch, tensor_cores
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.matmul_own import Product
from llmc.kernels.pointwise import address_of, aligned

ARCH = "sm_90a"
ROUND = SIDE = 64  # numbers of k in a round; rows and columns of a square
SQUARE_BYTES = 2 * SIDE * SIDE
SLACK = 1024 + 256  # bytes: a square begins at a multiple of 1024, and there are barriers
ROWS = 128  # of a tile of versions 8 and 9, for which two warpgroups multiply and a third one fetches
THREADS = {7: 128, 8: 384, 9: 384}
FILES = {7: "matmul_tma", 8: "matmul_roles", 9: "matmul_persistent"}
MOST_PARTS = 16
ROOM = 1 << 25  # floats of all parts together


class Tile(NamedTuple):
    """How version 9 goes about it; see the macros of matmul_persistent.cu."""

    BN: int = 256
    STAGES: int = 4
    BUFFERS: int = 2
    CLUSTER: int = 2
    DOWN: int = 8
    AHEAD: int = 2

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self.STAGES * 2 * ROUND * (ROWS + self.BN) + 2 * self.BUFFERS * SQUARE_BYTES + SLACK

    @property
    def defines(self) -> str:
        """ "BN=256 STAGES=4 …", for the compiler."""
        return " ".join(f"{name}={value}" for name, value in zip(self._fields, self))

    def tasks(self, M, N) -> int:
        """Tiles of a result (M, N), those of a cluster together."""
        return ceil_div(M, ROWS * self.CLUSTER) * ceil_div(N, self.BN)


# The second one of each is for results so small that larger tiles would leave multiprocessors without work.
PLAIN = (Tile(BN=256, STAGES=4, BUFFERS=2), Tile(BN=128, STAGES=6, BUFFERS=2))
MORE = (Tile(BN=256, STAGES=3, BUFFERS=4, AHEAD=1), Tile(BN=128, STAGES=6, BUFFERS=2))  # other numbers come or go too


def fits(product: Product) -> bool:
    """Whether this GPU's versions 7 to 9 take the arrays of a product."""
    if tensor_cores.compute_capability(cuda.device()) != 90 and cuda.device() == "gpu":
        return False
    a_runs, b_runs = product.runs
    lengths = product.N, product.K if a_runs else product.M, product.K if b_runs else product.N
    others = [array for array in (product.to_gelu, product.before_gelu) if array is not None]
    whole = aligned(product.result, product.a, product.b, *others) and all(length % 8 == 0 for length in lengths)
    return whole and (product.bias is None or address_of(product.bias) % 4 == 0)


def multiply_one(product: Product, version: int, BN=None, STAGES=4):
    """Launch version 7 or 8, which leave GELU to others. BN: columns of a tile, 64, 128 or 256."""
    M, N, K = product.M, product.N, product.K
    BN, rows = BN or {7: 128, 8: 256}[version], {7: SIDE, 8: ROWS}[version]
    function = _function(product, version, f"BN={BN} STAGES={STAGES}", STAGES * 2 * ROUND * (rows + BN) + SLACK)
    bias = 0 if product.bias is None else product.bias
    arguments = (product.result, *_factors(product), bias, np.int32(M), np.int32(N), np.int32(K))
    blocks = ceil_div(M, rows) * ceil_div(N, BN)
    function((blocks,), (THREADS[version],), arguments, shared_mem=function.max_dynamic_shared_size_bytes)


def multiply(product: Product, tile: Tile | None = None, parts: int | None = None):
    """Launch version 9, which does all that a Product can say. tile, parts: None for what `choose` says."""
    M, N, K = product.M, product.N, product.K
    gelu = 1 if product.to_gelu is not None else 2 if product.before_gelu is not None else 0
    if tile is None:
        tile, parts = choose(M, N, K, MORE if gelu or product.add else PLAIN, multiprocessors(cuda.device()), gelu == 0)
        if cuda.device() == "emulator":
            tile = tile._replace(CLUSTER=1)  # the only clusters that it runs
    function = _function(product, 9, f"{tile.defines} GELU={gelu}", tile.shared)
    result = tensor_map(product.result, M, N)
    other = result if not gelu else tensor_map(product.to_gelu if gelu == 1 else product.before_gelu, M, N)
    bias = 0 if product.bias is None else product.bias
    sizes = np.int32(M), np.int32(N), np.int32(K), np.int32(parts)
    tasks = tile.tasks(M, N)
    kept = scratch("matmul", (tasks * parts * tile.CLUSTER * ROWS * tile.BN,)) if parts > 1 else 0  # sums of each part
    blocks = tile.CLUSTER * min(tasks * parts, multiprocessors(cuda.device()) // tile.CLUSTER)
    arguments = (result, other, *_factors(product), kept, bias, *sizes)
    function((blocks,), (THREADS[9],), arguments, shared_mem=tile.shared)
    if parts > 1:
        defines = f"{product.defines} {tile.defines} GELU={gelu}"
        add = kernel_for(product.result, FILES[9], "matmul_v9_add", defines, ARCH)
        add((tasks * tile.CLUSTER,), (256,), (product.result, kept, bias, *sizes))


@lru_cache(maxsize=1024)
def choose(M, N, K, tiles, multiprocessors, divisible=True) -> tuple[Tile, int]:
    """The one of tiles, and how many parts k is cut into, with the least cost. divisible: whether it may be cut."""
    most = min(MOST_PARTS, ceil_div(K, ROUND), max(1, ROOM // (M * N))) if divisible else 1
    ways = [(tile, parts) for tile in tiles for parts in range(1, most + 1)]
    return min(ways, key=lambda way: cost(*way, M, N, K, multiprocessors))


def cost(tile, parts, M, N, K, multiprocessors) -> float:
    """Rounds of 128 x 256 results until the busiest multiprocessor is done; a model, not yet fitted to measurements."""
    turns = ceil_div(tile.tasks(M, N) * parts, max(1, multiprocessors // tile.CLUSTER))
    a_round = 1.0 if tile.BN == 256 else 0.6  # half the work, with more numbers to fetch for it
    leaving = (0.5 if tile.AHEAD else 1.5) * tile.BN / 256
    adding = 6.0 + parts * M * N / multiprocessors / 2500 if parts > 1 else 0.0  # a launch; sums come and go
    return turns * (a_round * ceil_div(K, ROUND * parts) + leaving) + adding


@lru_cache
def multiprocessors(kind) -> int:
    """Of the GPU; on the emulator few, so that each block has several tasks."""
    return 4 if kind == "emulator" else cuda.xp.cuda.Device().attributes["MultiProcessorCount"]


def _function(product, version, more, shared):
    function = kernel_for(product.result, FILES[version], f"matmul_v{version}", f"{product.defines} {more}", ARCH)
    if shared > function.max_dynamic_shared_size_bytes:
        function.max_dynamic_shared_size_bytes = shared  # more than 48 KB must be requested
    return function


def _factors(product):
    """The tensor maps of both factors, as they lie in memory."""
    M, N, K = product.M, product.N, product.K
    a_runs, b_runs = product.runs
    a, b = (M, K) if a_runs else (K, M), (N, K) if b_runs else (K, N)
    return tensor_map(product.a, *a), tensor_map(product.b, *b)


_maps = {}  # (address, shape, type) -> a map


def tensor_map(array, *shape):
    """The argument that tells a kernel of a matrix, or of a stack of them, 16 bits, from which squares come and go.

    It is the same as long as the array lies in the same place; the emulator's knows the array, and is made anew.
    """
    box = (1,) * (len(shape) - 2) + (SIDE, SIDE)
    if cuda.device() == "emulator":
        return cuda.tensor_map(array.reshape(shape), box, swizzle=128)
    key = array.data.ptr, shape, array.dtype.name
    if key not in _maps:
        made = cuda.tensor_map(array.reshape(shape), box, swizzle=128)
        _maps[key] = np.frombuffer(made.tobytes(), "V128")  # (1,): one struct, as CuPy passes it by value
    return _maps[key]
