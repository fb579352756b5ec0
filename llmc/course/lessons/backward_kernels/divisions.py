"""Lesson 14: sums of rows and numbers that are divided among warps and blocks in another way than they should be.

All but `added_up` return {what the sums are: array}.
"""

from contextlib import contextmanager

import numpy as np

from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.evidence import explaining
from llmc.course.old.checks.explain import WrongAnswer

ANY = "The blocks may divide the rows in any way. Added up over the blocks"


@contextmanager
def added_up(partial, expected):
    """Around a comparison of sums (blocks, 2, C): its message lists what is wrong once the blocks are added up.

    Of another division of the rows, which is as good, every number of a block would be wrong.
    """
    try:
        yield
    except WrongAnswer as wrong:
        mine, right = (np.sum(sums, axis=0, dtype=np.float64) for sums in (partial, expected))  # (2, C) each
        was = explaining(False)
        try:
            compare("", mine, right, rtol=0, atol=1e-4 * np.abs(expected).max())
        except WrongAnswer as of_sums:
            said, table = (each.message.split("\n\n") for each in (wrong, of_sums))
            if table[1:]:
                wrong.message, wrong.picture = f"{said[0]}\n\n{ANY}, {table[1]}", None
        finally:
            explaining(was)
        raise


def of_warps(d, warps) -> dict:
    """Of rows d (N, C) that the warps of one block share: (C,)."""
    N = len(d)
    n = np.arange(N)  # (N,)
    share = -(-N // warps)

    def rows(times):
        return (times[:, None] * d).sum(axis=0)  # (C,)

    return {
        "the sums with warp 0 counted twice": (d.sum(axis=0) + d[::warps].sum(axis=0)),
        "the sums with every row added by each warp that has come to it": rows(np.minimum(n + 1, warps)),
        "the sums of all rows, from every warp: the warps share the rows": rows(np.full(N, warps)),
        "the sums of rows warp, warp + 32, …": rows(n % 32 < warps),
        "the sums of the first rows, one for each warp": rows(n < warps),
        "the sums of rows warp, warp + blockDim.x, …": rows(n % (32 * warps) < warps),
        "the sums of warp 0 and of the last warp alone": rows(np.isin(n % warps, (0, warps - 1))),
        "the sums without the last warp": rows(n % warps < warps - 1),
        "the sums of stretches of rows that overlap by one row": rows(1 + ((n % share == 0) & (n > 0))),
        "the sums of |dout|": np.abs(d).sum(axis=0),
        "the sums of dout²": (d * d).sum(axis=0),
    }


def of_chunks(terms, blocks) -> dict:
    """Of the terms of dw and db, (N, C) each, that the blocks share row by row: (blocks, 2, C)."""
    N = len(terms[0])
    n, block = np.arange(N), np.arange(blocks)[:, None]

    def rows(seen):
        return np.stack([seen.astype(np.float64) @ t for t in terms], axis=1)  # (blocks, 2, C)   seen: (blocks, N)

    return {
        "the reference with every row from the block's first on": rows(n >= block),
        "the reference with the block's first row alone": rows(n == block),
        "the reference without the block's first row": rows((n % blocks == block) & (n >= blocks)),
        "the reference divided by how many rows the block has: these are sums, to be added up later": (
            rows(n % blocks == block) / np.maximum((n % blocks == block).sum(axis=1), 1)[:, None, None]
        ),
        "the reference without the last row, N - 1": rows((n % blocks == block) & (n < N - 1)),
    }


def of_turns(parts) -> dict:
    """Of numbers (turns, blocks, threads) whose squares are added up: (blocks,)."""
    turns, blocks, threads = parts.shape
    squares = parts**2
    right, flat = squares.sum(axis=(0, 2)), squares.reshape(-1)
    begins = np.arange(blocks) * threads  # (blocks,)
    steps = [flat[begin::blocks].sum() for begin in range(blocks)]
    return {
        "the sum with warp 0 counted twice": (right + squares[:, :, :32].sum(axis=(0, 2))),
        "the sum of all numbers, in every block: the blocks share them": np.full(blocks, flat.sum()),
        "the sum of all numbers from the block's first on": np.array([flat[begin:].sum() for begin in begins]),
        "what lane 0 of each warp has, without the other lanes": squares[:, :, ::32].sum(axis=(0, 2)),
        "what thread 0 has, without the other lanes and warps": squares[:, :, 0].sum(axis=0),
        "what the last warp has: the other warps' sums are missing": squares[:, :, -32:].sum(axis=(0, 2)),
        "the sum of numbers blockIdx.x, blockIdx.x + gridDim.x, …: a block has blockDim.x neighbours in each turn": (
            np.array(steps)
        ),
        "half of the sum of squares": right / 2,
        "the mean of the squares": right / max(np.count_nonzero(parts), 1),
        "the sum of cubes": (parts**3).sum(axis=(0, 2)),
        "the sum of fourth powers": (squares**2).sum(axis=(0, 2)),
    }
