"""Grids for kernels that sum the columns of (N, C): first within chunks of rows, in parallel, then over the chunks."""

from llmc import cuda
from llmc.kernels import ceil_div
from llmc.kernels.pointwise import multiprocessors
from llmc.kernels.reductions import check_rows

WARP = 32
ROWS = 8  # warps per block, one row each at a time: 256 threads
ROWS_EACH = 16  # rows that a thread adds up: enough to be worth a launch, few enough to be quick
MOST = 128  # chunks


def chunks_of(N) -> int:
    """The number of chunks for N rows: chunks_of(4096) is 32. Raises UserError for more rows than can be counted."""
    check_rows(N)
    return min(MOST, ceil_div(N, ROWS * ROWS_EACH))


def chunks_that_fill(N, across) -> int:
    """Chunks for N rows if each has `across` blocks: half of what the GPU holds at once, and rows for all warps."""
    check_rows(N)
    return max(1, min(4 * multiprocessors(cuda.device()) // across, ceil_div(N, ROWS)))


def blocks_of_warps(N) -> int:
    """Blocks of ROWS warps that share N rows, as many as the GPU holds at once."""
    check_rows(N)
    return min(8 * multiprocessors(cuda.device()), ceil_div(N, ROWS))
