"""Blocks for kernels that reduce rows of C numbers: the number of threads that share a row."""

from llmc.kernels import ceil_div

WARP = 32
ROWS = 8  # rows per block if each warp has a row of its own: 256 threads
KEPT = 10240  # numbers that a block keeps in shared memory: 40 KB of the 48 KB that every GPU offers it


def whole_warps(C) -> int:
    """Threads for a row: about four numbers each, whole warps, at most 1024. whole_warps(768) is 192."""
    return min(1024, WARP * ceil_div(C, 4 * WARP))


def power_of_two(C) -> int:
    """The same, rounded up to a power of two, for a tree that halves: power_of_two(768) is 256."""
    return 1 << (whole_warps(C) - 1).bit_length()
