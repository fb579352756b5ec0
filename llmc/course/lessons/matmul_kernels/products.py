"""Lesson 15: what its kernels should give, and what well-known mistakes give.

Mistakes are {sentence after "result equals ": (array, where to look)}; arrays of products are (M, N).
"""

import re

import numpy as np

from llmc.course.lessons.matmul_kernels import misplaced
from llmc.course.lessons.matmul_kernels.places import BACKGROUND, BACKWARD, BANKS, NAIVE, SQUARE, TILES


def product(a, b, a_runs, b_runs):
    """Result (M, N), float32, from float64 sums. a: (M, K), or (K, M) where k does not run; b: (N, K) or (K, N)."""
    a64, b64 = _upright(a, a_runs), _upright(b, b_runs)  # (M, K), (N, K)
    return (a64 @ b64.T).astype(np.float32)


def mistakes(a, b, a_runs, b_runs, slices, look=TILES) -> dict:
    """Known wrong results (M, N) of a kernel that takes that many k at a time.

    look: where slices are explained.
    """
    a64, b64 = _upright(a, a_runs), _upright(b, b_runs)  # (M, K), (N, K)
    K, right = a64.shape[1], a64 @ b64.T  # (M, N)
    found = {
        "the transposed result: result[m][n] lies at m * N + n": (right.T.reshape(right.shape), NAIVE),
        "the product without the last k": (a64[:, :-1] @ b64[:, :-1].T, TILES),
        "the products of the last k alone": (a64[:, -1:] @ b64[:, -1:].T, TILES),
    }
    if look != BACKGROUND:  # or else `next_mistakes` tells which calls of `ask` misread them
        found |= {
            f"the product with a read as {_named('M', not a_runs)}: {_where('a', 'm', 'M', a_runs)}": (
                _misread(a, a_runs) @ b64.T,
                BACKWARD,
            ),
            f"the product with b read as {_named('N', not b_runs)}: {_where('b', 'n', 'N', b_runs)}": (
                a64 @ _misread(b, b_runs).T,
                BACKWARD,
            ),
        }
    found |= {
        "the sum of a, times the sum of b": (a64.sum(axis=1)[:, None] * b64.sum(axis=1), TILES),
        "the sum of a + b over k": (a64.sum(axis=1)[:, None] + b64.sum(axis=1), TILES),
        "the product without the first k": (a64[:, 1:] @ b64[:, 1:].T, TILES),
    }
    found["the product with a sum that is kept in an int, which cuts it off to a whole number after each k"] = (
        misplaced.in_an_int(a64, b64),
        TILES,
    )
    if K % slices:
        found |= {words: (array, look) for words, array in misplaced.behind_the_end(a64, b64, slices).items()}
    if K > slices:
        stays = misplaced.first_slice_of_one(a64, b64, slices)
        found |= {words: (array, look) for words, array in stays.items()}
        often = -(-K // slices) - np.arange(K) // slices  # (K,) slices from that of k on, its own among them
        found["the totals so far added after every slice"] = (
            (a64 * often) @ b64.T,
            look,
        )
        whole, rest = K // slices * slices, K % slices
        found |= {
            f"the sum over the first {slices} k alone": (
                a64[:, :slices] @ b64[:, :slices].T,
                look,
            ),
            "the sum over the last slice alone": (
                a64[:, (K - 1) // slices * slices :] @ b64[:, (K - 1) // slices * slices :].T,
                look,
            ),
            f"the first slice of {slices} k again and again": (
                _again(a64, b64, slices),
                look,
            ),
        }
        if K > 2 * slices:
            found["the product without the second slice"] = (
                right - a64[:, slices : 2 * slices] @ b64[:, slices : 2 * slices].T,
                look,
            )
        if rest:
            left = slice(whole - slices + rest, whole)  # what the slice before has left behind
            found["the sum without the last slice, which is not a whole one"] = (
                a64[:, :whole] @ b64[:, :whole].T,
                look,
            )
            found["the product, plus what the slice before has left behind the end of K"] = (
                right + a64[:, left] @ b64[:, left].T,
                look,
            )
        else:
            found["the sum without the last slice"] = (
                a64[:, :-slices] @ b64[:, :-slices].T,
                look,
            )
    return telling(found, right)


def tile_mistakes(right, tile) -> dict:
    """Known results (M, N) of a kernel that takes rows for columns in each tile, or the rows of another tile."""
    words = f"the right numbers with each tile of {tile} x {tile} turned"
    whole, m, n = _whole(right, tile)  # (M, N) each
    turned = whole[m // tile * tile + n % tile, n // tile * tile + m % tile]  # (M, N)
    found = {words: turned[: right.shape[0], : right.shape[1]]} | misplaced.of_other_tiles(right, tile)
    return telling({words: (array, TILES) for words, array in found.items()}, right)


def turned_slice_mistakes(a, b, tile) -> dict:
    """Known results (M, N) of a kernel for a (M, K) times b (N, K) in which each slice of b, a or both is turned."""
    (M, K), N = a.shape, b.shape[0]
    whole = np.zeros((-(-N // tile) * tile, -(-K // tile) * tile))
    whole[:N, :K] = b
    n, k = np.indices(whole.shape)
    turned = whole[n // tile * tile + k % tile, k // tile * tile + n % tile]  # (N, K) of whole tiles
    right = a.astype(np.float64) @ b.astype(np.float64).T
    wide = np.zeros((M, whole.shape[1]))  # a, with zeros behind the end of K
    wide[:, :K] = a
    found = {"the product with each slice of b turned": (wide @ turned.T)[:, :N]} | misplaced.turned_slices_of_a(
        a.astype(np.float64), b, tile
    )
    return telling({words: (array, TILES) for words, array in found.items()}, right)


def next_mistakes(a, b, slices, tile) -> dict:
    """Known wrong results (M, N) of a (M, K) times b (K, N), if a slice that is asked for is not the next one."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    (M, K), N = a.shape, b.shape[1]
    found = {}
    for more, places in ((1, f"0, 1, {1 + slices}"), (0, f"0, 0, {slices}")):  # k0 + 1, k0
        starts = [0, *(k0 + more for k0 in range(0, K, slices))][: -(-K // slices)]
        words = f"the product of slices that begin at k = {places}, …"
        found[words] = sum(a64[:, s : s + slices] @ b64[s : s + slices] for s in starts)
    if K > 2 * slices:
        starts = [0, *[slices] * (-(-K // slices) - 1)]
        words = "the product of the first slice and then of the second again and again"
        found[words] = sum(a64[:, s : s + slices] @ b64[s : s + slices] for s in starts)
    place, across = np.arange(M) % tile, np.arange(N) % tile  # in the tile: (M,), (N,)
    rows, columns = place // 4 * 4 + place, 2 * across  # what lies there if `first` is the thread's row or column
    of_rows = np.where((rows < M)[:, None], a64[np.minimum(rows, M - 1)], 0)  # (M, K)
    of_columns = np.where(columns < N, b64[:, np.minimum(columns, N - 1)], 0)  # (K, N)
    start = np.arange(K)
    flat = np.minimum(start[:, None] * M + np.arange(N), K * N - 1)  # (K, N)
    rows_of_m = np.where(np.arange(N) < M, b64.reshape(-1)[flat], 0)  # (K, N)   what M in place of N makes of b
    rows_to_n = np.where(np.arange(M)[:, None] < N, a64, 0)  # (M, K)
    for which, wrong in (
        ("all slices", start >= 0),
        ("the first slice", start < slices),
        ("the later slices", start >= slices),
    ):
        words = f"the product with {{0}} in place of {{1}} in the call of ask for {which} of {{2}}"
        found[words.format("row", "m0", "a")] = np.where(wrong, of_rows, a64) @ b64
        found[words.format("column", "n0", "b")] = a64 @ np.where(wrong[:, None], of_columns, b64)
        words = f"the product with {{0}} in place of {{1}}, the size, in the call of ask for {which} of {{2}}"
        found[words.format("M", "N", "b")] = a64 @ np.where(wrong[:, None], rows_of_m, b64)
        found[words.format("N", "M", "a")] = np.where(wrong, rows_to_n, a64) @ b64
        words = f"the product with {which} of {{0}} read as if {{0}} were ({{1}})"
        found[words.format("a", "K, M")] = np.where(wrong, a64.reshape(K, M).T, a64) @ b64
        found[words.format("b", "N, K")] = a64 @ np.where(wrong[:, None], b64.reshape(N, K).T, b64)
    right = a64 @ b64
    found |= _of_the_other_side(a64, b64, slices, right, tile)
    return telling({words: (array, BACKGROUND) for words, array in found.items()}, right)


def _of_the_other_side(a64, b64, slices, right, tile) -> dict:
    """What the product is if a block begins at n0 in a's rows, or at m0 in b's columns, for some slices."""
    if max(right.shape) <= tile:  # one block, where both are 0
        return {}
    first = a64[:, :slices] @ b64[:slices]  # (M, N), as all here
    later, (M, N) = right - first, right.shape
    m, n = np.arange(M)[:, None], np.arange(N)
    row, column = n // tile * tile + m % tile, m // tile * tile + n % tile
    found = {}
    for words, at, there in (("n0 in place of m0", (row, n), row < M), ("m0 in place of n0", (m, column), column < N)):
        at = np.minimum(at[0], M - 1), np.minimum(at[1], N - 1)
        moved = [np.where(there, part[at], 0) for part in (first, later)]
        side = "a" if words[0] == "n" else "b"
        for which, array in (
            ("all slices", moved[0] + moved[1]),
            ("the first slice", moved[0] + later),
            ("the later slices", first + moved[1]),
        ):
            found[f"the product with {words} in the call of ask for {which} of {side}"] = array
    return found


def square_mistakes(right, size, tile) -> dict:
    """Known wrong results (M, N) of threads with size x size results each, in tiles of tile x tile."""
    whole, m, n = _whole(right, tile)  # (M, N) each
    (m0, row, i), (n0, column, j) = (_in_tiles(index, size, tile) for index in (m, n))
    down, across = m0 + row + size <= right.shape[0], n0 + column + size <= right.shape[1]
    cut_off = "the right numbers of {} alone"
    first = (
        "the right numbers, but with the first {0} of each thread's square all over it: {0} {1} has numbers of its own"
    )
    other = "the product with {0} read at this thread's {1}, not its {2}"
    found = {
        f"the right numbers with each thread's square of {size} x {size} turned": (
            whole[m0 + row + j, n0 + column + i]
        ),
        cut_off.format(f"whole squares of {size} x {size}"): np.where(down & across, whole, 0),
        cut_off.format(f"squares with all {size} rows"): np.where(down, whole, 0),
        cut_off.format(f"squares with all {size} columns"): np.where(across, whole, 0),
        first.format("row", "i"): whole[m0 + row, n],
        first.format("column", "j"): whole[m, n0 + column],
        other.format("as", "column", "row"): whole[m0 + column + i, n],
        other.format("bs", "row", "column"): whole[m, n0 + row + j],
    }
    cut = (slice(right.shape[0]), slice(right.shape[1]))
    found = {words: array[cut] for words, array in found.items()}
    for words, array in _other_places(whole, m, n, size, tile).items():
        found.setdefault(words, array[cut])
    told = {words: (array, SQUARE) for words, array in _told_apart(found).items()}
    return telling(told, right)


def _other_places(whole, m, n, size, tile) -> dict:
    """Known wrong results of threads that multiply in other places than they write: {words: array}, of whole tiles.

    `source` of a place in a tile is the place whose number lies there; a thread's places are size * t + 0, 1, 2, 3.
    """
    threads = tile // size
    begin = f"the right numbers in other places: a thread's {size} {{0}} "
    sources = {
        f"{begin}lie {threads} apart where they are written, and side by side where they are multiplied": (
            lambda p: p % threads * size + p // threads
        ),
        f"{begin}begin at {size} · t where they are written, and at t where they are multiplied": (
            lambda p: p // size + p % size
        ),
        f"{begin}come in reverse, where they are written or where they are multiplied": (
            lambda p: p // size * size + size - 1 - p % size
        ),
    }
    for stride in range(2, threads + 1):
        words = f"{begin}lie {stride} apart where they are multiplied, and side by side where they are written"
        sources[words] = lambda p, stride=stride: p // size + stride * (p % size)
    found = {}
    for words, source in sources.items():
        rows, columns = (index // tile * tile + source(index % tile) for index in (m, n))
        for which, array in (
            ("rows and columns", whole[rows, columns]),
            ("rows", whole[rows, n]),
            ("columns", whole[m, columns]),
        ):
            found[words.format(which)] = array
    (m0, row, i), (n0, column, j) = (_in_tiles(index, size, tile) for index in (m, n))
    words = "a thread's row and column are exchanged, where it multiplies or where it writes"
    return found | {f"the right numbers in other places: {words}": whole[m0 + column + i, n0 + row + j]}


def _told_apart(found) -> dict:
    """Of mistakes that give the same numbers in a result as small as this, none by its name, but all by what is common.

    Only distances can be such: how far apart rows lie of which there is but one.
    """
    alike = {}
    for words, array in found.items():
        alike.setdefault(np.ascontiguousarray(array, np.float64).tobytes(), []).append(words)
    return {
        re.sub(r"lie \d+ apart", "lie apart", many[0]) if many[1:] else many[0]: found[many[0]]
        for many in alike.values()
        if len({re.sub(r"\d+", "", words) for words in many}) == 1
    }


def _whole(right, tile):
    """right (M, N) with the zeros of rows and columns that do not exist, up to whole tiles, and its indices."""
    whole = np.zeros(tuple(-(-n // tile) * tile for n in right.shape))
    whole[: right.shape[0], : right.shape[1]] = right
    return whole, *np.indices(whole.shape)


def _in_tiles(index, size, tile):
    """Where the tile begins, where the thread's square begins in it, and the place in the square."""
    return index // tile * tile, index % tile // size * size, index % size


def turned_mistakes(a) -> dict:
    """Known wrong results (K, M) of a kernel that turns a (M, K)."""
    a64 = a.astype(np.float64)
    copied = a64.reshape(a.shape[::-1])
    known = {"a, copied as it lies: rows must become columns": copied} | misplaced.turned(a64)
    return telling({words: (array, BANKS) for words, array in known.items()}, a64.T)


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
