"""Lesson 15: what its kernels should give, and what well-known mistakes give.

Mistakes are {sentence after "result equals ": (array, where to look)}; arrays of products are (M, N).
"""

import numpy as np

from llmc.course.lessons.matmul_kernels.places import BACKWARD, NAIVE, SQUARE, TILES


def product(a, b, a_runs, b_runs):
    """Result (M, N), float32, from float64 sums. a: (M, K), or (K, M) where k does not run; b: (N, K) or (K, N)."""
    a64, b64 = _upright(a, a_runs), _upright(b, b_runs)  # (M, K), (N, K)
    return (a64 @ b64.T).astype(np.float32)


def mistakes(a, b, a_runs, b_runs, slices, stuck="is k0 missing in an index?") -> dict:
    """Known wrong results (M, N) of a kernel that takes that many k at a time. stuck: why it may stay at the first."""
    a64, b64 = _upright(a, a_runs), _upright(b, b_runs)  # (M, K), (N, K)
    K, right = a64.shape[1], a64 @ b64.T  # (M, N)
    found = {
        "the transposed result: result[m][n] lies at m * N + n": (right.T.reshape(right.shape), NAIVE),
        f"the product with a read as {_named('M', not a_runs)}: {_where('a', 'm', 'M', a_runs)}": (
            _misread(a, a_runs) @ b64.T,
            BACKWARD,
        ),
        f"the product with b read as {_named('N', not b_runs)}: {_where('b', 'n', 'N', b_runs)}": (
            a64 @ _misread(b, b_runs).T,
            BACKWARD,
        ),
        "the product without the last k": (a64[:, :-1] @ b64[:, :-1].T, TILES),
        "the products of the last k alone: add up, with +=": (a64[:, -1:] @ b64[:, -1:].T, TILES),
    }
    if K > slices:
        whole, rest = K // slices * slices, K % slices
        found |= {
            f"the sum over the first {slices} k alone: take slice after slice": (
                a64[:, :slices] @ b64[:, :slices].T,
                TILES,
            ),
            "the sum over the last slice alone: add up, with +=": (
                a64[:, (K - 1) // slices * slices :] @ b64[:, (K - 1) // slices * slices :].T,
                TILES,
            ),
            f"the first slice of {slices} k again and again: {stuck}": (
                _again(a64, b64, slices),
                TILES,
            ),
        }
        if K > 2 * slices:
            found["the product without the second slice: the next one begins at k0 + " + str(slices)] = (
                right - a64[:, slices : 2 * slices] @ b64[:, slices : 2 * slices].T,
                TILES,
            )
        if rest:
            left = slice(whole - slices + rest, whole)  # what the slice before has left behind
            found["the sum without the last slice, which is not a whole one"] = (
                a64[:, :whole] @ b64[:, :whole].T,
                TILES,
            )
            found["the product, plus what the slice before has left behind the end of K: put zeros there"] = (
                right + a64[:, left] @ b64[:, left].T,
                TILES,
            )
    return telling(found, right)


def square_mistakes(right, size) -> dict:
    """Known wrong results (M, N) of threads with size x size of them each, next to one another."""
    M, N = (-(-n // size) * size for n in right.shape)
    padded = np.zeros((M, N))  # (M, N)
    padded[: right.shape[0], : right.shape[1]] = right
    squares = padded.reshape(M // size, size, N // size, size)  # (down, i, across, j)
    words = (
        "the right numbers, but with the first {} of each thread's square all over it: is the {} missing in an index?"
    )
    found = {
        f"the right numbers with each thread's square of {size} x {size} turned: are i and j exchanged?": (
            squares.swapaxes(1, 3)
        ),
        words.format("row", "+ i"): np.repeat(squares[:, :1], size, axis=1),
        words.format("column", "+ j"): np.repeat(squares[..., :1], size, axis=3),
    }
    cut = (slice(right.shape[0]), slice(right.shape[1]))
    return telling({said: (array.reshape(M, N)[cut], SQUARE) for said, array in found.items()}, right)


def turned_mistakes(a) -> dict:
    """Known wrong results (K, M) of a kernel that turns a (M, K)."""
    a64 = a.astype(np.float64)
    copied = a64.reshape(a.shape[::-1])
    return telling({"a, copied as it lies: rows must become columns": (copied, NAIVE)}, a64.T)


def telling(known, right) -> dict:
    """The known mistakes that do not happen to give what is right."""
    return {
        words: (array, where)
        for words, (array, where) in known.items()
        if array.size and np.abs(array - right).max() > 4e-4 * max(np.abs(array).max(), 1e-30)
    }


def _upright(a, runs):
    """Float64 (n, K) of a matrix as it lies."""
    a64 = np.asarray(a, np.float64)
    return a64 if runs else a64.T


def _misread(a, runs):
    """(n, K) if the axes of the memory are taken for one another."""
    a64 = np.asarray(a, np.float64)
    return a64.reshape(a64.shape[::-1]) if not runs else a64.reshape(a64.shape[::-1]).T


def _named(rows, runs):
    return f"({rows}, K)" if runs else f"(K, {rows})"


def _where(name, i, n, runs):
    """Where a number lies."""
    return f"{name}[{i}][k] lies at {i} * K + k" if runs else f"{name}[k][{i}] lies at k * {n} + {i}"


def _again(a64, b64, slices):
    """The first slice in each turn."""
    turns = -(-a64.shape[1] // slices)
    return turns * (a64[:, :slices] @ b64[:, :slices].T)  # (M, N)
