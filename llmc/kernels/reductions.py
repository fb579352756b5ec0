"""Blocks for kernels that sum rows of C numbers, by the number of threads that share a row, or the columns of (N, C).

Columns are summed within chunks of rows first, in parallel, then over the chunks.
"""

from functools import lru_cache

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div
from llmc.kernels.pointwise import multiprocessors

WARP = 32
ROWS = 8  # rows per block if each warp has a row of its own, or one row at a time: 256 threads
ROWS_EACH = 16  # rows whose columns a thread adds up: enough to be worth a launch, few enough to be quick
MOST_CHUNKS = 128
KEPT = 10240  # numbers that a block keeps in shared memory: 40 KB of the 48 KB that every GPU offers it
QUADS = 16  # 128-bit words of a row that a lane keeps in registers: rows of up to 2048 numbers
MOST_ROWS = 1 << 26  # with a warp for each, threads can still be numbered in 32 bits


def check_rows(N):
    """Raise UserError for more rows than the kernels can count."""
    if N > MOST_ROWS:
        raise UserError(f"kernels take up to {MOST_ROWS:,} rows, not {N:,}; use a smaller batch.")


def whole_warps(C) -> int:
    """Threads for a row: about four numbers each, whole warps, at most 1024. whole_warps(768) is 192."""
    return min(1024, WARP * ceil_div(C, 4 * WARP))


def power_of_two(C) -> int:
    """The same, rounded up to a power of two, for a tree that halves: power_of_two(768) is 256."""
    return 1 << (whole_warps(C) - 1).bit_length()


def quads_of_lane(C) -> int:
    """128-bit words of a row for each lane of a warp: 6 for 768 numbers, 0 if a row is too long or not of these."""
    quads = ceil_div(C, 4 * WARP)
    return quads if C % 4 == 0 and quads <= QUADS else 0


def chunks_of(N) -> int:
    """The number of chunks for N rows: chunks_of(4096) is 32. Raises UserError for more rows than can be counted."""
    check_rows(N)
    return min(MOST_CHUNKS, ceil_div(N, ROWS * ROWS_EACH))


def chunks_that_fill(N, across) -> int:
    """Chunks for N rows if each has `across` blocks: half of what the GPU holds at once, and rows for all warps."""
    check_rows(N)
    return max(1, min(4 * multiprocessors(cuda.device()) // across, ceil_div(N, ROWS)))


def blocks_of_warps(N) -> int:
    """Blocks of ROWS warps that share N rows, as many as the GPU holds at once."""
    check_rows(N)
    return min(8 * multiprocessors(cuda.device()), ceil_div(N, ROWS))


@lru_cache
def most_shared_memory(kind) -> int:
    """Bytes of shared memory that a block may request. kind: what `cuda.device` returns."""
    if kind == "emulator":
        return 227 * 1024
    return cuda.xp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
