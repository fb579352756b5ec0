"""Lesson 15: products and tiles whose numbers come from other places than they should; {what that is: array}.

And what a sum gives that holds whole numbers alone.
"""

import numpy as np


def in_an_int(a, b):
    """Product (M, N) of a (M, K) and b (N, K) that loses what is behind its point after each k."""
    total = np.zeros((len(a), len(b)))
    for k in range(a.shape[1]):
        total = np.trunc(total + np.outer(a[:, k], b[:, k]))
    return total


def behind_the_end(a, b, slices) -> dict:
    """Products (M, N) of a (M, K) and b (N, K) if the last slice takes numbers of the matrices where K has ended."""
    K = a.shape[1]
    k = np.arange(-(-K // slices) * slices)  # of whole slices
    places = {
        "the last k added again for each one": np.minimum(k, K - 1),
        "k = 0 added again for each one": np.where(k < K, k, 0),
        "k % K for each k": k % K,
    }
    return {
        f"the product with {words} that the last slice has no number for": a[:, at] @ b[:, at].T
        for words, at in places.items()
    }


def first_slice_of_one(a, b, slices) -> dict:
    """Products (M, N) of a (M, K) and b (N, K) in which one of them stays at its first slice."""
    K = a.shape[1]
    k = np.arange(-(-K // slices) * slices)
    wide_a, wide_b = (np.pad(m, ((0, 0), (0, len(k) - K))) for m in (a, b))
    first = k % slices
    return {
        "the product with the first slice of a in all of them": wide_a[:, first] @ wide_b.T,
        "the product with the first slice of b in all of them": wide_a @ wide_b[:, first].T,
    }


def turned_slices_of_a(a, b, tile) -> dict:
    """Products (M, N) of a (M, K) and b (N, K) in which each slice of a, or of both, is turned."""
    M, N = len(a), len(b)
    wide_a, wide_b = (_padded(m, tile) for m in (a, b))
    turned_a, turned_b = _each_turned(wide_a, tile), _each_turned(wide_b, tile)
    return {
        "the product with each slice of a turned": ((turned_a @ wide_b.T)[:M, :N]),
        "the product with each slice of a and of b turned": ((turned_a @ turned_b.T)[:M, :N]),
    }


def of_other_tiles(right, tile) -> dict:
    """right (M, N), a product, with numbers of other rows or columns."""
    M, N = right.shape
    m, n = np.indices(right.shape)
    wide = _padded(right, tile)
    return {
        "the product with the first rows of a in every tile": right[m % tile, n],
        "the product with the first rows of b in every tile": right[m, n % tile],
        "the product with the first rows of both in every tile": right[m % tile, n % tile],
        "the right numbers with bs[row] in place of bs[column]: a column of the result has its own row of b": wide[
            m, n // tile * tile + m % tile
        ],
        "the right numbers with as[column] in place of as[row]: a row of the result has its own row of a": wide[
            m // tile * tile + n % tile, n
        ],
    }


def turned(a, tile=32) -> dict:
    """a (M, K), turned, (K, M), as tiles of 32 x 32 make it that go wrong; NaN where nothing is."""
    K, M = a.shape[::-1]
    k, m = np.indices((K, M))
    wide = np.full([-(-n // tile) * tile for n in a.shape], np.nan)
    wide[: a.shape[0], : a.shape[1]] = a
    row, column, first_m, first_k = m % tile, k % tile, m // tile * tile, k // tile * tile
    swizzle = "tile that is written and not read in the same way, or the reverse"
    both = "the swizzle is written with a plus, (lane + row) % 32, and read with a minus, or the reverse"
    return {
        "a with rows and columns exchanged for the tiles, and not inside of each: the tile is turned twice, "
        "where it is written and where it is read, or never": wide[first_m + column, first_k + row],
        f"a, turned, with number lane ^ row in place of number lane: a swizzle, of a {swizzle}": wide[
            m, first_k + (column ^ row)
        ],
        f"a, turned, with each row of a tile moved back by its number: (lane + row) % 32 of a {swizzle}": wide[
            m, first_k + (column + row) % tile
        ],
        f"a, turned, with each row of a tile moved on by its number: (lane + row) % 32 of a {swizzle}": wide[
            m, first_k + (column - row) % tile
        ],
        f"a, turned, with each row of a tile moved back by twice its number: {both}": wide[
            m, first_k + (column + 2 * row) % tile
        ],
        f"a, turned, with each row of a tile moved on by twice its number: {both}": wide[
            m, first_k + (column - 2 * row) % tile
        ],
        "a, turned, with rows in reverse in each tile": wide[first_m + tile - 1 - row, k],
        "a, turned, with columns in reverse in each tile": wide[m, first_k + tile - 1 - column],
    }


def _padded(m, tile):
    """With zeros up to whole tiles."""
    return np.pad(m, [(0, -n % tile) for n in m.shape])


def _each_turned(m, tile):
    """m, of whole tiles, each of them turned in its place."""
    i, j = np.indices(m.shape)
    return m[i // tile * tile + j % tile, j // tile * tile + i % tile]
