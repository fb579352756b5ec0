"""Grids for kernels that sum the columns of (N, C): first in chunks of rows, side by side, then the chunks in order."""

from llmc.kernels import ceil_div

WARP = 32
ROWS = 8  # warps of a block, each with a row at a time: 256 threads
ROWS_EACH = 16  # rows for a thread to add up: enough work to be worth a launch, and short enough to be quick
MOST = 128  # chunks; they are added by one thread for each column


def chunks_of(N) -> int:
    """Chunks to cut N rows into: chunks_of(4096) is 32."""
    return min(MOST, ceil_div(N, ROWS * ROWS_EACH))
