"""Grids for kernels that sum the columns of (N, C): first within chunks of rows, in parallel, then over the chunks."""

from llmc.kernels import ceil_div

WARP = 32
ROWS = 8  # warps per block, one row each at a time: 256 threads
ROWS_EACH = 16  # rows that a thread adds up: enough to be worth a launch, few enough to be quick
MOST = 128  # chunks; one thread per column adds them


def chunks_of(N) -> int:
    """The number of chunks for N rows: chunks_of(4096) is 32."""
    return min(MOST, ceil_div(N, ROWS * ROWS_EACH))
