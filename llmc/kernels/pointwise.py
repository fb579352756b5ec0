"""Grids for kernels that treat every element alike: how many blocks, for threads of one or of four elements."""

from functools import lru_cache

from llmc import cuda
from llmc.kernels import ceil_div

THREADS = 256  # of a block: eight warps


def blocks_for(n, each=1) -> int:
    """Blocks so that every thread has `each` elements: blocks_for(1000, each=4) is 1, with 6 threads to spare."""
    return ceil_div(n, THREADS * each)


def blocks_at_once(n, each=1) -> int:
    """The same, but never more blocks than the GPU holds at once; the kernel must have a grid-stride loop."""
    return min(blocks_for(n, each), _resident_blocks(cuda.device()))


@lru_cache
def _resident_blocks(kind) -> int:
    """Blocks of THREADS threads that are on the GPU at the same time, 2048 threads a multiprocessor."""
    if kind == "emulator":
        return 32  # few, so that the loop does loop on small arrays too
    return cuda.xp.cuda.Device().attributes["MultiProcessorCount"] * (2048 // THREADS)
