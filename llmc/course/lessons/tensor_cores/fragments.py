"""Lesson 19: which lane holds what of mma's factors and sums, and what comes out where somebody takes it for another.

mma computes d (16, 8) += a (16, 16) b (16, 8). A layout is a function of lane, register and half (0 or 1: a register of
a factor has two numbers) that gives (row, column); lanes are arrays (32, 1, 1), registers (1, n, 1), halves (1, 1, 2).
"""

from functools import partial

import numpy as np

from llmc.course.lessons.tensor_cores.places import HOLDS, SWIZZLED, TURNED

LANES = np.arange(32)[:, None, None]  # (32, 1, 1)
HALVES = np.arange(2)[None, None, :]  # (1, 1, 2)


def a_layout(lane, register, half):
    """(row, k) in a (16, 16)."""
    return lane // 4 + register % 2 * 8, lane % 4 * 2 + half + register // 2 * 8


def b_layout(lane, register, half):
    """(k, column) in b (16, 8)."""
    return lane % 4 * 2 + half + register * 8, lane // 4


def d_layout(lane, register):
    """(row, column) in d (16, 8), whose registers hold one number each."""
    return lane // 4 + register // 2 * 8, lane % 4 * 2 + register % 2


def taken_for(tiles, registers, right, wrong):
    """What mma sees of tiles (…, rows, columns) if lanes load the numbers of another layout than the right one."""
    where = np.arange(registers)[None, :, None]  # (1, registers, 1)
    seen = np.empty_like(tiles)
    seen[(..., *_all(right, where))] = tiles[(..., *_all(wrong, where))]
    return seen


def _all(layout, register):
    """Two index arrays (32, registers, 2)."""
    return np.broadcast_arrays(*layout(LANES, register, HALVES), np.empty((32, register.size, 2), int))[:2]


def in_tiles(x, rows, columns):
    """(M, N) as (M / rows, N / columns, rows, columns)."""
    M, N = x.shape
    return x.reshape(M // rows, rows, N // columns, columns).swapaxes(1, 2)


def whole(tiles):
    """The opposite of in_tiles."""
    down, across, rows, columns = tiles.shape
    return tiles.swapaxes(1, 2).reshape(down * rows, across * columns)


def product(a, b):
    """a (M, K) times bᵀ, b (N, K), float16: (M, N), float32."""
    return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)


# What lanes may take for their place. Of 32 lanes, lane / 4 is 0 … 7 and lane % 4 is 0 … 3.


def _exchanged(order, layout):
    order = np.asarray(order)
    return lambda lane, register, half: layout(lane, order[register], half)


def _by_eights(layout):
    """lane % 8 and lane / 8 in place of lane / 4 and lane % 4."""
    return lambda lane, register, half: layout(lane % 8 * 4 + lane // 8, register, half)


WRONG_A = {
    "with registers 1 and 2 of a exchanged: register 1 holds the rows 8 further down": _exchanged(
        [0, 2, 1, 3], a_layout
    ),
    "with row lane % 8 and pair lane / 8 in a: a lane's row is lane / 4": _by_eights(a_layout),
    "with k = lane % 4 in place of lane % 4 * 2 in a: each register holds two numbers": (
        lambda lane, register, half: (lane // 4 + register % 2 * 8, lane % 4 + half + register // 2 * 8)
    ),
    "with four neighbours a lane in a, k = lane % 4 * 4 and the next three: it has lane % 4 * 2 and the next, and the "
    "two that come eight further on": lambda lane, register, half: (
        a_layout(lane, register, half)[0],
        lane % 4 * 4 + half + register // 2 * 2,
    ),
    "with all four registers of a from its first eight rows": _exchanged([0, 0, 2, 2], a_layout),
    "with all four registers of a from its first eight k": _exchanged([0, 1, 0, 1], a_layout),
    "with rows lane / 4 * 2 and the next one of a: a lane has row lane / 4, and in registers 1 and 3 the one 8 below": (
        lambda lane, register, half: (lane // 4 * 2 + register % 2, a_layout(lane, register, half)[1])
    ),
    "with a turned: its rows taken for its k": lambda *which: a_layout(*which)[::-1],
}
WRONG_B = {
    "with registers 0 and 1 of b exchanged": _exchanged([1, 0], b_layout),
    "with both registers of b from its first eight k": _exchanged([0, 0], b_layout),
    "with column lane % 8 and pair lane / 8 in b: a lane's column is lane / 4": _by_eights(b_layout),
    "with four neighbours a lane in b, k = lane % 4 * 4 and the next three: it has lane % 4 * 2 and the next, and the "
    "two that come eight further on": lambda lane, register, half: (lane % 4 * 4 + half + register * 2, lane // 4),
    "with k = lane % 4 in place of lane % 4 * 2 in b: each register holds two numbers": (
        lambda lane, register, half: (lane % 4 + half + register * 8, lane // 4)
    ),
}
D_BY_EIGHTS = "with row lane % 8 and pair lane / 8 in d: a lane's row is lane / 4"
WRONG_D = {  # where a lane writes d[register]
    "with the middle two numbers of d exchanged: d[1] is right of d[0], d[2] eight rows below it": (
        lambda lane, register: d_layout(lane, np.array([0, 2, 1, 3])[register])
    ),
    "with the rows of d exchanged: d[0] and d[1] are in row lane / 4, the others eight rows below": (
        lambda lane, register: d_layout(lane, (register + 2) % 4)
    ),
    "with rows lane / 4 * 2 and the next one of d: d[0] and d[1] are in row lane / 4, the others eight rows below": (
        lambda lane, register: (lane // 4 * 2 + register // 2, d_layout(lane, register)[1])
    ),
    "with four numbers of d side by side, in row lane / 2: d[0] and d[1] are in row lane / 4, at column lane % 4 * 2, "
    "the others eight rows below": lambda lane, register: (lane // 2, lane % 2 * 4 + register),
    "with columns lane % 4 and 4 further on in d: d[0] and d[1] are at columns lane % 4 * 2 and one more": (
        lambda lane, register: (d_layout(lane, register)[0], lane % 4 + register % 2 * 4)
    ),
    D_BY_EIGHTS: (lambda lane, register: d_layout(lane % 8 * 4 + lane // 8, register)),
}


def mistakes(a, b) -> dict:
    """Known wrong results of mma_by_hand: {"with …": (array (M, N), where to look)}."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    K, N = a.shape[1], len(b)
    at, bt = in_tiles(a64, 16, 16), in_tiles(b64.T.copy(), 16, 8)  # (M/16, K/16, 16, 16), (K/16, N/8, 16, 8)
    see_a, see_b = partial(taken_for, at, 4, a_layout), partial(taken_for, bt, 2, b_layout)
    known = {words: _product(see_a(layout), bt) for words, layout in WRONG_A.items()}
    known |= {words: _product(at, see_b(layout)) for words, layout in WRONG_B.items()}
    narrow = "with k = lane % 4 in place of lane % 4 * 2 in {}: each register holds two numbers".format
    known[narrow("a and b")] = _product(see_a(WRONG_A[narrow("a")]), see_b(WRONG_B[narrow("b")]))
    both = see_a(_by_eights(a_layout)), see_b(_by_eights(b_layout))
    known["with column lane % 4 * 2 and k = lane / 4 in b: they are exchanged"] = _product(at, _turned_b(b64))
    right = in_tiles(a64 @ b64.T, 16, 8)
    by_eights = _product(*both)  # (M, N)
    known["with row lane % 8 and pair lane / 8 in a and b: it is lane / 4 and lane % 4"] = by_eights
    for words, layout in WRONG_D.items():
        known[words] = _written_at(layout, right)
    known["with row lane % 8 and pair lane / 8 in a, b and d: it is lane / 4 and lane % 4"] = _written_at(
        WRONG_D[D_BY_EIGHTS], in_tiles(by_eights, 16, 8)
    )
    for words, wrong in _of_other_places(a, b).items():
        if not any(np.array_equal(wrong, each) for each in (*known.values(), a64 @ b64.T)):  # of a small matrix
            known[words] = wrong
    known["written as if it were (N, M): row m, column n is at m * N + n"] = (b64 @ a64.T).reshape(len(a), N)
    as_kn = b.reshape(-1)[: K * N].reshape(K, N).astype(np.float64)
    known["with b read as (K, N), as if the numbers of a column lay N apart"] = a64 @ as_kn
    a_again, b_again = (np.tile(x[:, :16], K // 16) for x in (a64, b64))  # (M, K), (N, K)
    for which, first, second in (("", a_again, b_again), (" of a", a_again, b64), (" of b", a64, b_again)):
        known[f"with the first 16 k{which} again and again"] = first @ second.T
    known["of the last 16 k alone"] = a64[:, -16:] @ b64[:, -16:].T
    return {f"the product {words}": (array.astype(np.float32), HOLDS) for words, array in known.items()}


def _written_at(layout, tiles):
    """(M, N) if lanes write the sums of the tiles (M/16, N/8, 16, 8) to the places of this layout."""
    lane, register = LANES[..., 0], np.arange(4)[None, :]  # (32, 1), (1, 4)
    moved = np.empty_like(tiles)
    moved[(..., *layout(lane, register))] = tiles[(..., *d_layout(lane, register))]
    return whole(moved)


def _of_other_places(a, b) -> dict:
    """Products of what lanes load with `pair` from other addresses, two numbers side by side from each.

    An address behind the end is one that the emulator has refused: any number will do there.
    """
    (M, K), N = a.shape, len(b)
    row, k = np.indices((M, K))
    column, depth = np.indices((N, K))
    below, behind = row % 16 // 8, depth % 16 // 8
    by_pairs = (row // 16 * 16 + k % 8 // 2 + 8 * below) * K + k // 16 * 16 + k % 16 // 8 * 8 + row % 8 * 2 + k % 2
    turned = (row // 16 * 16 + k % 8 // 2 * 2 + 8 * below) * K + k // 16 * 16 + k % 16 // 8 * 8 + row % 8 + k % 2
    columns_by_pairs = (column // 8 * 8 + depth % 8 // 2) * K + depth // 8 * 8 + column % 8 * 2 + depth % 2
    places = {  # of a (M, K), or of b (N, K)
        "with a read as if it were (K, M): the numbers of a row lie side by side, at m * K + k": (
            k // 2 * 2 * M + row + k % 2,
        ),
        "with b read as if it were (K, N): the numbers of a column lie side by side along k, at n * K + k": (
            None,
            depth // 2 * 2 * N + column + depth % 2,
        ),
        "with lines of a that are N long: from row to row there are K numbers": (row * N + k,),
        "with lines of b that are N long: from column to column there are K numbers": (None, column * N + depth),
        "with 8 further k where a register holds 8 rows further down (x[1], x[3]): these are 8 * K further on": (
            (row - 8 * below) * K + k + 8 * below,
        ),
        "with y[1] from 8 columns further on: it holds the same column's next 8 k": (
            None,
            (column + 8 * behind) * K + depth - 8 * behind,
        ),
        "with the first pair of k in all lanes of a": (row * K + k // 8 * 8 + k % 2,),
        "with the first pair of k in all lanes of b": (None, column * K + depth // 8 * 8 + depth % 2),
        "with row lane % 4 and k = lane / 4 * 2 in a: they are exchanged": (by_pairs,),
        "with row lane % 4 * 2 and k = lane / 4 in a: they are exchanged": (turned,),
        "with column lane % 4 and k = lane / 4 * 2 in b: they are exchanged": (None, columns_by_pairs),
        "with row or column lane % 4 and k = lane / 4 * 2 in a and b: they are exchanged": (by_pairs, columns_by_pairs),
        "with the block's row m0 missing in a": (row % 16 * K + k,),
        "with the block's column n0 missing in b": (None, column % 8 * K + depth),
    }
    found = {}
    for words, (of_a, of_b) in ((words, (*each, None)[:2]) for words, each in places.items()):
        seen_a, seen_b = (
            x.astype(np.float64) if index is None else x.reshape(-1).take(index, mode="clip").astype(np.float64)
            for x, index in ((a, of_a), (b, of_b))
        )
        found[words] = seen_a @ seen_b.T
    return found


def _product(a, b):
    """Of tiles."""
    return np.einsum("mkij,knjl->minl", a, b).reshape(len(a) * 16, -1)


def _turned_b(b):
    """What mma sees of b (N, K) where a lane loads column lane % 4 * 2, k = lane / 4: (K/16, N/8, 16, 8)."""
    N, K = b.shape
    k, column = _all(b_layout, np.arange(2)[None, :, None])  # (32, 2, 2)
    first, half = LANES // 4, HALVES + 8 * np.arange(2)[None, :, None]  # k = first + half, perhaps beyond these 16
    seen, flat = np.empty((K // 16, N // 8, 16, 8)), b.reshape(-1)
    for k0, n0 in np.ndindex(seen.shape[:2]):
        place = (8 * n0 + LANES % 4 * 2) * K + 16 * k0 + first + half  # (32, 2, 2)
        seen[k0, n0, k, column] = flat[np.minimum(place, flat.size - 1)]
    return seen


# ------------------------------------------------------------------------------------------------- of swizzle


def turned_mistakes(a) -> dict:
    """Known wrong results of swizzle: {"…": (array (K, M), where to look)}."""
    lines, groups = np.arange(64)[:, None], np.arange(8)[None, :]

    def without_place(place):
        tiles = in_tiles(a, 64, 64).reshape(len(a) // 64, -1, 64, 8, 8)  # lines, groups, eight numbers
        kept = np.empty_like(tiles)
        kept[:, :, lines, place(lines, groups)] = tiles[:, :, lines, groups]
        return whole(kept.reshape(*tiles.shape[:3], 64)).T.copy()

    ways = {
        "groups read where others are kept": lambda line, group: group ^ line % 8,
        "groups read where others are kept, which a sum has moved": lambda line, group: (group + line) % 8,
    }
    known = {f"the turned matrix with {words}": (without_place(way), SWIZZLED) for words, way in ways.items()}
    ways = {
        "place of the square's row, square / 8, in place of the line": lambda line, group: group ^ line % 8 ^ line // 8,
        "place of the square's row, square / 8, in place of the line, a sum": (
            lambda line, group: (group + line - line // 8) % 8
        ),
    }
    known |= {f"the turned matrix with {words}": (without_place(way), SWIZZLED) for words, way in ways.items()}
    by_groups = in_tiles(a, 64, 8).reshape(len(a) // 64, -1, 8, 64, 8)  # (M/64, K/64, groups, lines, 8)
    known["the turned matrix with groups 0 to 3 of each line also for its groups 4 to 7: the group is square % 8"] = (
        whole(by_groups[:, :, np.arange(8) % 4].reshape(len(a) // 64, -1, 64, 8)).T.copy(),
        TURNED,
    )
    known[
        "the turned matrix with the first eight lines of each tile for all of them: lines begin at square / 8 * 8"
    ] = (
        in_tiles(a, 64, 64)[:, :, np.arange(64) % 8].swapaxes(1, 2).reshape(a.shape).T.copy(),
        TURNED,
    )
    squares = in_tiles(a, 8, 8)  # (M/8, K/8, 8, 8)
    known["the turned matrix with the first line of each square in place of all eight: lane l gives line l % 8"] = (
        whole(squares[:, :, :1].repeat(8, axis=2)).T.copy(),
        TURNED,
    )
    by_fours = squares[:, np.arange(a.shape[1] // 8)[:, None], np.arange(a.shape[1] // 8)[:, None] % 4]  # (…, 1, 8)
    known["the turned matrix with line i of the i-th of four squares eight times: lane l gives line l % 8"] = (
        whole(by_fours.repeat(8, axis=2)).T.copy(),
        TURNED,
    )
    known["the turned matrix with the first of four squares four times: lane l gives a line of square l / 8"] = (
        whole(squares[:, ::4].repeat(4, axis=1)).T.copy(),
        TURNED,
    )
    each = in_tiles(a, 64, 64).reshape(len(a) // 64, -1, 8, 8, 8, 8)  # i, line, g, number of square 8 i + g
    exchanged = whole(each.swapaxes(2, 4).reshape(*each.shape[:2], 64, 64)).T.copy()
    words = "the lines of square % 8 and group square / 8, for those of square / 8 and square % 8"
    known[f"the turned matrix with {words}"] = exchanged, TURNED  # in a single tile, the next one is the same
    known["squares that are turned each, but lie where they lay in a"] = (
        np.ascontiguousarray(whole(squares.swapaxes(2, 3))).reshape(a.shape[::-1]),
        TURNED,
    )
    exchanged = in_tiles(a, 8, 8).reshape(len(a) // 8, -1, 4, 8, 8)  # four squares side by side
    stacked = exchanged.reshape(*exchanged.shape[:2], 32, 8)  # square l / 8, line l % 8
    by_fours = stacked[:, :, np.arange(32) % 4 * 8 + np.arange(32) // 4].reshape(exchanged.shape)
    known["the turned matrix with line l / 4 of square l % 4 given by lane l, not line l % 8 of square l / 8"] = (
        whole(by_fours.reshape(len(a) // 8, -1, 8, 8)).T.copy(),
        TURNED,
    )
    return known
