"""Launches the products that only Hopper's GPUs have instructions for: version 9, in matmul_persistent.cu, and lesson
19's steps to it, 7 and 8, in ladder/mixed.

Their squares come through tensor maps, which are made once for each array. A map needs rows of whole 16-byte words.
"""

from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, scratch, tensor_cores
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.columns import add_chunks
from llmc.kernels.mixed.matmul_own import Product
from llmc.kernels.pointwise import address_of, aligned, multiprocessors
from llmc.switches import switch

ARCH = "sm_90a"
SIDE = 64  # rows of a square, and columns of one of 16 bits
LINE = 128  # bytes of its lines: the numbers of k in a round
SQUARE_BYTES = 2 * SIDE * SIDE
SLACK = 1024 + 256  # bytes: a square begins at a multiple of 1024, and there are barriers
ROWS = 128  # of a tile of version 8, for which two warpgroups multiply and a third one fetches
OF_8_BITS = (SIDE, SIDE)  # a square of results
THREADS = {7: 128, 8: 384, 9: 384}
FILES = {7: "matmul_tma", 8: "matmul_roles", 9: "matmul_persistent"}


class Tile(NamedTuple):
    """How version 9 goes about it; see the macros of matmul_persistent.cu."""

    HIGH: int = 2
    BN: int = 128
    STAGES: int = 5
    BUFFERS: int = 4
    CLUSTER: int = 2
    DOWN: int = 8
    PROMOTE: int = 0

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return self.STAGES * LINE * (self.rows + self.BN) + 2 * self.BUFFERS * SQUARE_BYTES + SLACK

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return SIDE * self.HIGH * (2 if self.PROMOTE else 1)

    @property
    def defines(self) -> str:
        """ "BN=256 STAGES=4 …", for the compiler."""
        return " ".join(f"{name}={value}" for name, value in zip(self._fields, self))

    def tasks(self, M, N) -> int:
        """Tiles of a result (M, N), those of a cluster counted as one."""
        return ceil_div(M, self.rows * self.CLUSTER) * ceil_div(N, self.BN)


PLAIN = (Tile(HIGH=3, STAGES=4, BUFFERS=2, CLUSTER=1), Tile())
MORE = (Tile(), Tile(CLUSTER=1))  # other numbers come or go too
PROMOTED = (Tile(HIGH=1, BUFFERS=2, PROMOTE=8), Tile(HIGH=1, BN=192, STAGES=4, BUFFERS=2, PROMOTE=8))
LONG = 4096  # numbers of 8 bits from which on sums by tensor cores alone lose more than their rounding to 16 bits


def fits(product: Product) -> bool:
    """Whether this GPU's versions 7 to 9 take the arrays of a product."""
    if tensor_cores.compute_capability(cuda.device()) != 90 and cuda.device() == "gpu":
        return False
    a_runs, b_runs = product.runs
    lengths = product.N, product.K if a_runs else product.M, product.K if b_runs else product.N
    others = [array for array in (product.to_gelu, product.before_gelu) if array is not None]
    word = 16 if product.kind else 8  # numbers in 128 bits
    whole = aligned(product.result, product.a, product.b, *others) and all(length % word == 0 for length in lengths)
    return whole and (product.bias is None or address_of(product.bias) % 4 == 0)


def faster(product: Product) -> bool:
    """Whether a training step on an H200 was faster with version 9 than with cuBLAS for such a product: one with GELU.

    Some of the others are faster by themselves, but not in a step, where the GPU's power is short.
    """
    return product.to_gelu is not None or product.before_gelu is not None


def multiply_one(product: Product, version: int, BN=None, STAGES=4):
    """Launch version 7 or 8, which leave GELU to others. BN: columns of a tile, 64, 128 or 256."""
    M, N, K = product.M, product.N, product.K
    BN, rows = BN or {7: 128, 8: 256}[version], {7: SIDE, 8: ROWS}[version]
    function = _function(product, version, f"BN={BN} STAGES={STAGES}", STAGES * LINE * (rows + BN) + SLACK)
    bias = 0 if product.bias is None else product.bias
    arguments = (product.result, *_factors(product), bias, np.int32(M), np.int32(N), np.int32(K))
    blocks = ceil_div(M, rows) * ceil_div(N, BN)
    function((blocks,), (THREADS[version],), arguments, shared_mem=function.max_dynamic_shared_size_bytes)


def multiply(product: Product, tile: Tile | None = None, shares: int = 0, column_sums=None, unscale=1.0, active=None):
    """Launch version 9, which does all that a Product can say. tile: None for what `choose` says.

    shares: how many clusters share the rounds equally; 0: whole tiles · column_sums: (db, accumulate), where the
    product is multiplied by GELU': +db (N,), 16 bits, += column sums of the result times unscale, or *db = them.
    Factors of 8 bits: GELU has 8 bits too, e4m3, and so has what is multiplied by GELU', e5m2. With that, *active,
    (N, M) numbers of 8 bits, unless None, = GELU of before_gelu in e4m3, transposed, in pairs: see fp8.cu.
    """
    M, N, K = product.M, product.N, product.K
    rounds = ceil_div(K, LINE // product.a.dtype.itemsize)
    gelu = 1 if product.to_gelu is not None else 2 if product.before_gelu is not None else 0
    if tile is None:
        tiles = PROMOTED if product.kind and K > LONG and not gelu else MORE if gelu or product.add else PLAIN
        tile, shares = choose(M, N, rounds, tiles, multiprocessors(cuda.device()), gelu == 0)
    if cuda.device() == "emulator":
        tile = tile._replace(CLUSTER=1)  # the only clusters that it runs
    more = f" GELU={gelu}" if active is None else f" GELU={gelu} ACTIVE=1"
    function = _function(product, 9, tile.defines + more, tile.shared)
    result = tensor_map(product.result, M, N, box=OF_8_BITS if gelu and product.kind else None)
    other = result if not gelu else tensor_map(product.to_gelu if gelu == 1 else product.before_gelu, M, N)
    transposed = result if active is None else tensor_map(active, N, M, box=OF_8_BITS)
    bias = 0 if product.bias is None else product.bias
    sizes = np.int32(M), np.int32(N), np.int32(K)
    clusters = shares or min(multiprocessors(cuda.device()) // tile.CLUSTER, tile.tasks(M, N))
    kept = scratch("matmul", (2 * shares * tile.CLUSTER * tile.rows * tile.BN,)) if shares else 0  # sums of some rounds
    partial = (
        0 if column_sums is None else scratch("bias", (ceil_div(M, tile.rows * tile.CLUSTER) * tile.CLUSTER * 4, N))
    )
    scales = np.float32(product.scale), np.float32(unscale)
    maps = result, other, transposed, *_factors(product)
    arguments = (*maps, kept, bias, partial, *sizes, np.int32(shares > 0), *scales)
    function((clusters * tile.CLUSTER,), (THREADS[9],), arguments, shared_mem=tile.shared)
    if shares:
        defines = f"{product.defines} {tile.defines} GELU={gelu}"
        add = kernel_for(product.result, FILES[9], "matmul_v9_add", defines, ARCH)
        blocks = tile.tasks(M, N) * tile.CLUSTER, tile.rows * tile.BN // 512
        add(blocks, (128,), (product.result, kept, bias, *sizes, np.int32(shares), scales[0]))
    if column_sums is not None:
        db, accumulate = column_sums
        add_chunks((db,), partial, kept=int(accumulate))


@lru_cache(maxsize=1024)
def choose(M, N, rounds, tiles, multiprocessors, divisible=True) -> tuple[Tile, int]:
    """The tile and the shares with the least cost. divisible: whether the rounds of a tile may be shared."""
    ways = [(tile, 0) for tile in tiles]
    if divisible:
        most = {tile: min(multiprocessors // tile.CLUSTER, tile.tasks(M, N) * rounds) for tile in tiles}
        ways += [(tile, shares) for tile in tiles for shares in range(1, most[tile] + 1)]
    return min(ways, key=lambda way: cost(*way, M, N, rounds, multiprocessors))


def cost(tile, shares, M, N, rounds, multiprocessors) -> float:
    """Rounds of 128 x 128 results until the busiest multiprocessor is done; numbers fitted to an H200.

    The GPU has power for nine tenths of them at full speed. Clusters that share tiles are at different places along k
    at the same time, in as many groups as the shares' denominator says: each reads its own part of the factors. In 8
    bits, where products take half the time, that leaves seven tenths.
    """
    clusters, tasks = max(1, multiprocessors // tile.CLUSTER), tile.tasks(M, N)
    a_round = tile.rows * tile.BN / 128**2 * (0.97 if tile.HIGH > 2 else 1.0)  # larger tiles read less
    if not shares:
        return a_round * rounds * ceil_div(tasks, clusters)
    groups = shares // gcd(shares, tasks)
    busy = clusters * (0.7 if tile.PROMOTE else 0.91)
    return a_round * rounds * tasks / min(shares, busy) + 30 + 2 * groups  # a launch; sums come and go


def _function(product, version, more, shared):
    function = kernel_for(product.low, FILES[version], f"matmul_v{version}", f"{product.defines} {more}", ARCH)
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


def tensor_map(array, *shape, box=None):
    """The argument that tells a kernel about a matrix, or a stack of them, from and to which squares are copied.

    box: what is copied at once, if that is not 64 lines of 128 bytes; lines are swizzled.

    It is the same as long as the array lies in the same place; one for the emulator, which also looks at launches on a
    GPU if LLMC_CHECK=1, knows the array, and is made anew.
    """
    box = box or (1,) * (len(shape) - 2) + (SIDE, LINE // array.dtype.itemsize)
    swizzle = box[-1] * array.dtype.itemsize
    if cuda.device() == "emulator" or switch("LLMC_CHECK") is True:
        return cuda.tensor_map(array.reshape(shape), box, swizzle=swizzle)
    key = array.data.ptr, shape, array.dtype.name, box
    if key not in _maps:
        made = cuda.tensor_map(array.reshape(shape), box, swizzle=swizzle)
        _maps[key] = np.frombuffer(made.tobytes(), "V128")  # (1,): one struct, as CuPy passes it by value
    return _maps[key]
