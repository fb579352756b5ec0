"""Lesson 19: the online softmax of 16 rows in four lanes each, in NumPy, with the mistakes that lanes can make.

Lane j of a row's four holds columns 2 j and 2 j + 1 of every eight. What a lane holds for its rows, maxima and totals,
is an array (B, 2, 8, 4) here, so that lanes may disagree.
"""

import numpy as np

from llmc.course.lessons.tensor_cores.places import SOFTENED
from llmc.course.old.kernel_checks import not_finite

FORGETS = "the result with a total of the last tile alone"  # told apart while it is finite
OVERFLOW = (  # right for small scores
    "the result with a maximum of this tile alone, without top[n]",
    "the result with a maximum of tile[0] alone, without tile[1]",
    "the result with a maximum of the first of each two columns alone, without scores[i][2 * n + 1]",
)
ALL, FIRST = slice(None), slice(1)
AT_ONCE = ((1, 2),)  # xor 1 and xor 2 of one number, so that the fourth lane is missing
DOWN = -1, -2  # __shfl_down_sync
WHOLE_WARP = 16, 8, 4, 2, 1
# whether sums[2 * n + e] (n, e: last two axes) shrink by what row m (first axis) shrinks by
NONE = np.zeros((2, 2, 2), int)
OWN = NONE + np.eye(2, dtype=int)[:, :, None]


OWN_PLACE = NONE.copy()
OWN_PLACE[0, 0, 0] = OWN_PLACE[1, 0, 1] = 1


def attend(scores, values):
    """softmax(scores) values in float64: scores (B, 16, T), values (B, T, 8)."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True).astype(np.float64))  # (B, 16, T)
    return e / e.sum(axis=-1, keepdims=True) @ values.astype(np.float64)  # (B, 16, 8)


def online(
    scores,
    values,
    *,
    meet=(1, 2),
    total_meets=(1, 2),
    sums_shrink=OWN,
    total_shrinks=True,
    scores_exchanged=False,
    scores_turned=False,
    total_forgets=False,
    top_stays=True,
    seen=(ALL, ALL),
    counted=(ALL, ALL),
    met_each_tile=False,
    meets_at_the_end=True,
    upside_down=False,
    shrinks_late=False,
    top_stored=True,
    raw=False,
    power=np.exp,
):
    """The same tile by tile, as the lanes do it, weights rounded to float16.

    meet: lanes exchange maxima with those so far away (_exchange): xor 1 and 2 share their rows, 4 and 8 do not.
    total_meets: so do totals, at the end. sums_shrink: which sums shrink by what, as OWN. scores_exchanged: numbers 1
    and 2 of the four that mma leaves in a lane are taken for each other. scores_turned: columns of a tile are taken for
    its rows. total_forgets: tiles before do not count. top_stays: maxima of tiles before count. seen, counted: which
    tile[i] and which of two columns the maximum and the total are made from.
    met_each_tile, meets_at_the_end: when lanes add up their totals. upside_down: totals and sums grow where they should
    shrink. shrinks_late: this tile's share of the total shrinks, too. top_stored: maxima stay for the next tile. raw:
    scores are not replaced by weights. power: what weights are made with.
    """
    B, _, T = scores.shape
    tiles = scores.astype(np.float32).reshape(B, 2, 8, T // 16, 2, 4, 2)  # n, row, tile, i, lane, number
    values = values.astype(np.float64)
    top, total = np.full((B, 2, 8, 4), -np.inf, np.float32), np.zeros((B, 2, 8, 4))  # n, row, lane
    sums = np.zeros((B, 2, 8, 4, 2))  # n, row, lane, number: columns 2 lane + number
    for k in range(T // 16):
        tile = tiles[:, :, :, k]  # (B, 2, 8, 2, 4, 2)
        tile = tile.swapaxes(1, 5) if scores_exchanged else tile.swapaxes(1, 3) if scores_turned else tile
        highest = tile[:, :, :, seen[0], :, seen[1]].max(axis=(3, 5))  # (B, 2, 8, 4)
        higher = _exchange(np.maximum(top, highest) if top_stays else highest, meet, np.maximum)
        shrink = power(higher - top if upside_down else top - higher).astype(np.float32)  # overflows as a kernel's does
        weights = power(tile - higher[:, :, :, None, :, None]).astype(np.float32)
        more = weights[:, :, :, counted[0], :, counted[1]].sum(axis=(3, 5))  # (B, 2, 8, 4)
        shrunk = shrink if total_shrinks else 1
        total = (total + more) * shrunk if shrinks_late else (0 if total_forgets else total) * shrunk + more
        total = _exchange(total, total_meets, np.add) if met_each_tile else total
        powers = shrink[:, :, None, :, :, None] ** sums_shrink[:, :, None, None, :]  # (B, 2, 2, 8, 4, 2): m, n, …
        sums *= powers.prod(axis=1)
        weights = tile if raw else weights
        weights = weights.swapaxes(1, 5) if scores_exchanged else weights.swapaxes(1, 3) if scores_turned else weights
        weights = weights.astype(np.float16).astype(np.float64)
        more = weights.reshape(B, 16, 16) @ values[:, 16 * k : 16 * k + 16]  # (B, 16, 8)
        sums += more.reshape(sums.shape)
        top = higher if top_stored else top
    total = _exchange(total, total_meets, np.add) if meets_at_the_end else total
    return (sums / total[..., None]).reshape(B, 16, 8)


def _exchange(x, distances, together):
    """(B, 2, 8, 4) after shuffles over these distances, as lanes: xor d, of several at once, or down by -d."""
    lanes = np.arange(32)
    x = x.reshape(*x.shape[:2], 32)
    for each in distances:
        others = each if isinstance(each, tuple) else (each,)
        for other in [x[..., lanes ^ d if d > 0 else np.where(lanes - d < 32, lanes - d, lanes)] for d in others]:
            x = together(x, other)
    return x.reshape(*x.shape[:2], 8, 4)


def mistakes(scores, values) -> dict:
    """Known wrong results of softmax_in_fragments: {"…": (array (B, 16, 8), where to look)}."""
    ways = {
        "the result with sums that do not shrink when the maximum grows": dict(sums_shrink=NONE),
        "the result with a total that does not shrink when the maximum grows": dict(total_shrinks=False),
        "the result with neither sums nor total shrinking when the maximum grows": dict(
            sums_shrink=NONE, total_shrinks=False
        ),
        "the result with totals that are added up over the four lanes after every tile: what was added up before is "
        "then counted 4, 16, … times": dict(met_each_tile=True),
        "the result with totals added up over the four lanes after every tile, and not at the end: of what the tiles "
        "before gave, each lane then has the sum of all four already": dict(met_each_tile=True, meets_at_the_end=False),
        "the result with exp(higher - top[n]) for exp(top[n] - higher): sums and total must shrink": dict(
            upside_down=True
        ),
        "the result with this tile's share of the total shrunk, too: first total shrinks, then the tile is added": dict(
            shrinks_late=True
        ),
        "the result with top[n] as it was at the start": dict(top_stored=False),
        "the result with the scores themselves weighing the values, not exp(score - higher)": dict(raw=True),
        "the result with a maximum of each lane's own numbers: four lanes share a row": dict(meet=()),
        "the result with a maximum of two of the four lanes of a row (xor 1 alone)": dict(meet=(1,)),
        "the result with a maximum of two of the four lanes of a row (xor 2 alone)": dict(meet=(2,)),
        "the result with maxima exchanged between other rows: the lanes of a row are 1 and 2 apart (xor)": dict(
            meet=(4, 8)
        ),
        "the result with each lane's own total: four lanes share a row": dict(total_meets=()),
        "the result with the total of two of the four lanes of a row": dict(total_meets=(1,)),
        "the result with totals of other rows added: the lanes of a row are 1 and 2 apart (xor)": dict(
            total_meets=(4, 8)
        ),
        "the result with totals of other rows added (xor 8 and 16): the lanes of a row are 1 and 2 apart": dict(
            total_meets=(8, 16)
        ),
        "the result with maxima of other rows (xor 8 and 16): the lanes of a row are 1 and 2 apart": dict(meet=(8, 16)),
        "the result with the lanes' own maxima and their own totals": dict(meet=(), total_meets=()),
        OVERFLOW[0]: dict(top_stays=False),
        OVERFLOW[1]: dict(seen=(FIRST, ALL)),
        OVERFLOW[2]: dict(seen=(ALL, FIRST)),
        "the result with powers of 2 in place of powers of e (exp2f)": dict(power=np.exp2),
        FORGETS: dict(total_forgets=True),
        "the result with scores[n][…] in place of scores[i][2 * n + …]: the first index is of columns": dict(
            scores_turned=True
        ),
        "the result with scores[i][1] and scores[i][2] taken for each other: the first two of four are one row's": dict(
            scores_exchanged=True
        ),
        "the result with sums[1] and sums[2] taken for each other: the first two of four are one row's": dict(
            sums_shrink=NONE + np.eye(2, dtype=int)[:, None]
        ),
        "the result with sums[0] shrunk by the first row and sums[1] by the second, sums[2] and sums[3] not at all: "
        "the first two of four are the first row's": dict(sums_shrink=OWN_PLACE),
        "the result with all four sums shrunk for each row: sums[2 * n] and sums[2 * n + 1] are row n's": dict(
            sums_shrink=NONE + 1
        ),
        "the result with sums[2 * n] shrunk, and sums[2 * n + 1] not": dict(sums_shrink=OWN * [1, 0]),
        "the result with a maximum over all 32 lanes, which hold eight rows: four lanes share a row": dict(
            meet=WHOLE_WARP
        ),
        "the result with totals of all 32 lanes, which hold eight rows: four lanes share a row": dict(
            total_meets=WHOLE_WARP
        ),
        "the result with maxima and totals of all 32 lanes, which hold eight rows: four lanes share a row": dict(
            meet=WHOLE_WARP, total_meets=WHOLE_WARP
        ),
        "the result with a maximum of three of the four lanes of a row": dict(meet=AT_ONCE),
        "the result with a total of three of the four lanes of a row": dict(total_meets=AT_ONCE),
        "the result with maxima and totals of three of the four lanes of a row": dict(
            meet=AT_ONCE, total_meets=AT_ONCE
        ),
        "the result with each lane's maximum made with the lanes after it (__shfl_down_sync): for a row's last lanes, "
        "these are another row's": dict(meet=DOWN),
        "the result with each lane's total made with the lanes after it (__shfl_down_sync): for a row's last lanes, "
        "these are another row's": dict(total_meets=DOWN),
        "the result with each lane's maximum and total made with the lanes after it (__shfl_down_sync): for a row's "
        "last lanes, these are another row's": dict(meet=DOWN, total_meets=DOWN),
        "the result with a total of tile[0] alone, without tile[1]": dict(counted=(FIRST, ALL)),
        "the result with a total of the first of each two columns alone, without scores[i][2 * n + 1]": dict(
            counted=(ALL, FIRST)
        ),
    }
    with np.errstate(all="ignore"):
        known = {words: online(scores, values, **how).astype(np.float32) for words, how in ways.items()}
    finite = {words: bool(np.isfinite(wrong).all()) for words, wrong in known.items()}
    unsure = {words for words in known if words == FORGETS and not finite[words] or words in OVERFLOW and finite[words]}
    known = {words: (wrong, SOFTENED) for words, wrong in known.items() if words not in unsure}
    quarter = online(scores, values).astype(np.float32) / 4  # (B, 16, 8)
    known["a quarter of the result, as with four times the total"] = quarter, SOFTENED
    e = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))  # (B, 16, T)
    known["the result that nobody has divided by the total"] = (
        (e @ values.astype(np.float64)).astype(np.float32),
        SOFTENED,
    )
    return known


def why_not_finite(out):
    """For `compare`: a function that says with which scores the kernel leaves NaN or infinities in out (B, 16, 8)."""
    return lambda: None if np.isfinite(out).all() else _with_which_scores(out)


def _with_which_scores(out) -> str | None:
    given = not_finite.arguments()
    if given is None:
        return None
    everywhere, shape = np.ones(out.shape, bool), given[1].shape
    cases = [
        not_finite.Case(words, {1: np.array(np.broadcast_to(scores, shape), order="C")}, asked, everywhere)
        for words, (scores, asked) in not_finite.profiles(shape[-1]).items()
    ]
    said = not_finite.told("out", 0, cases)
    return f"out has NaN or infinite entries. {said.removesuffix('.')}" if said else None
