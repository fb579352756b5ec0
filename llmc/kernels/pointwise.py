"""Grids for kernels that treat every element alike: the number of blocks if each thread has one element, or four."""

from functools import lru_cache

from llmc import cuda
from llmc.kernels import ceil_div

THREADS = 256  # per block: eight warps


def blocks_for(n, each=1) -> int:
    """Blocks for n elements, `each` of them per thread: blocks_for(1000, each=4) is 1, with 6 threads to spare."""
    return ceil_div(n, THREADS * each)


def blocks_at_once(n, each=1) -> int:
    """The same, but at most as many blocks as the GPU holds at once; the kernel must have a grid-stride loop."""
    return min(blocks_for(n, each), _resident_blocks(cuda.device()))


@lru_cache
def _resident_blocks(kind) -> int:
    """Blocks of THREADS threads that are on the GPU at the same time, at 2048 threads per multiprocessor."""
    if kind == "emulator":
        return 32  # few, so that the grid-stride loop repeats on small arrays too
    return cuda.xp.cuda.Device().attributes["MultiProcessorCount"] * (2048 // THREADS)
