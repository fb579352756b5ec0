"""The sizes of the tiles of matmul_warp.cu and matmul_tensor.cu, and which of them suit a product."""

from functools import lru_cache
from typing import NamedTuple

from llmc.kernels import ceil_div
from llmc.kernels.reductions import WARP

ALONE = 1.33  # a multiprocessor with one block, where there is room for more, takes this much longer for it
MOVED = 0.2  # multiply-adds that a multiprocessor could do while one float moves to or from memory
LAUNCH = 500_000  # multiply-adds that it could do during one more launch
LEAST, MOST = 128, 16  # k per part, parts
ROOM = 2**25  # floats of all parts together


class Tile(NamedTuple):
    """Rows and columns of results of a block (BM, BN), of a warp (WM, WN), of a thread (TM, TN), and k per slice (BK).

    STAGES: slices in shared memory · BLOCKS: blocks that are on a multiprocessor together.
    """

    BM: int
    BN: int
    BK: int
    WM: int
    WN: int
    TM: int
    TN: int
    STAGES: int
    BLOCKS: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * (self.BM // self.WM) * (self.BN // self.WN)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block; rows of a tile are four floats longer than need be."""
        return 4 * self.STAGES * self.BK * (self.BM + 4 + self.BN + 4)

    @property
    def shared_unturned(self) -> int:
        """The same in matmul_tensor.cu, where a tile lies as in memory: the bytes of its longer way, rows of BK + 4."""
        return 4 * self.STAGES * (self.BM + self.BN) * (self.BK + 4)

    @property
    def defines(self) -> str:
        """ "BM=128 BN=128 …", for the compiler."""
        return " ".join(f"{name}={value}" for name, value in zip(self._fields, self))

    def blocks(self, M, N) -> int:
        """Tiles of a result (M, N)."""
        return ceil_div(M, self.BM) * ceil_div(N, self.BN)


TILES = (  # on an H200 one of the two is close to the fastest for every product of GPT-2
    Tile(BM=128, BN=128, BK=8, WM=64, WN=64, TM=16, TN=8, STAGES=3, BLOCKS=2),
    Tile(BM=96, BN=128, BK=16, WM=48, WN=64, TM=12, TN=8, STAGES=3, BLOCKS=2),
)
# The one of matmul_tensor.cu; TM and TN are those of an instruction of a warp.
TENSOR_CORES = (Tile(BM=96, BN=128, BK=16, WM=48, WN=64, TM=16, TN=8, STAGES=4, BLOCKS=2),)


@lru_cache(maxsize=1024)
def choose(M, N, K, multiprocessors, tiles=TILES) -> tuple[Tile, int]:
    """The tile, out of tiles, and the number of parts to cut K into with the least cost for a result (M, N)."""
    most = max(1, min(MOST, K // LEAST, ROOM // (M * N)))
    ways = [(tile, parts) for tile in tiles for parts in range(1, most + 1)]
    return min(ways, key=lambda way: cost(*way, M, N, K, multiprocessors))


def cost(tile, parts, M, N, K, multiprocessors) -> float:
    """Multiply-adds that the busiest multiprocessor has time for until the product is done."""
    together, rest = divmod(ceil_div(tile.blocks(M, N) * parts, multiprocessors), tile.BLOCKS)
    blocks = together * tile.BLOCKS + rest * (ALONE if tile.BLOCKS > 1 else 1.0)
    extra = MOVED * (2 * parts + 1) * M * N + LAUNCH if parts > 1 else 0.0  # what adding the parts takes
    return blocks * tile.BM * tile.BN * ceil_div(K, parts) + extra
