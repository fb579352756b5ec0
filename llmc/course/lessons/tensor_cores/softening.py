"""Lesson 19: the online softmax of 16 rows in four lanes each, in NumPy, with the mistakes that lanes can make.

Lane j of a row's four holds columns 2 j and 2 j + 1 of every eight. What a lane holds for its rows, maxima and totals,
is an array (B, 2, 8, 4) here, so that lanes may disagree.
"""

import numpy as np

from llmc.course.lessons.tensor_cores.places import SOFTENED

FORGETS = "the result with a total of the last tile alone: += adds to what was there"  # told apart while it is finite
OVERFLOW = (  # right for small scores
    "the result with a maximum of this tile alone, without top[n]",
    "the result with a maximum of tile[0] alone, without tile[1]",
)


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
    sums_shrink=True,
    total_shrinks=True,
    scores_exchanged=False,
    scores_turned=False,
    sums_exchanged=False,
    total_forgets=False,
    all_shrinks=False,
    top_stays=True,
    first_half=False,
    power=np.exp,
):
    """The same tile by tile, as the lanes do it, weights rounded to float16.

    meet: lanes exchange maxima with those so far away (xor): 1 and 2 share their rows, 4 and 8 do not. total_meets: so
    do totals, at the end. exchanged: numbers 1 and 2 of the four that mma leaves in a lane are taken for each other.
    scores_turned: the columns of a tile are taken for its rows. total_forgets: tiles before do not count. all_shrinks:
    the total shrinks after this tile has been added to it. top_stays: maxima of tiles before count. first_half: tile[1]
    does not. power: what weights are made with.
    """
    B, _, T = scores.shape
    tiles = scores.astype(np.float64).reshape(B, 2, 8, T // 16, 2, 4, 2)  # n, row, tile, i, lane, number
    values = values.astype(np.float64)
    top, total = np.full((B, 2, 8, 4), -np.inf), np.zeros((B, 2, 8, 4))  # n, row, lane
    sums = np.zeros((B, 2, 8, 4, 2))  # n, row, lane, number: columns 2 lane + number
    for k in range(T // 16):
        tile = tiles[:, :, :, k]  # (B, 2, 8, 2, 4, 2)
        tile = tile.swapaxes(1, 5) if scores_exchanged else tile.swapaxes(1, 3) if scores_turned else tile
        highest = (tile[:, :, :, :1] if first_half else tile).max(axis=(3, 5))  # (B, 2, 8, 4)
        higher = _exchange(np.maximum(top, highest) if top_stays else highest, meet, np.maximum)
        shrink = power(top - higher).astype(np.float32)  # which overflows where a kernel's does
        weights = power(tile - higher[:, :, :, None, :, None]).astype(np.float32)
        added = weights.sum(axis=(3, 5))  # (B, 2, 8, 4)
        total = (0 if total_forgets else total) * (shrink if total_shrinks else 1) + added
        total = (total - added) + added * shrink if all_shrinks else total
        if sums_shrink:
            turned = sums.swapaxes(1, 4) if sums_exchanged else sums
            turned *= shrink[..., None]
        weights = weights.swapaxes(1, 5) if scores_exchanged else weights.swapaxes(1, 3) if scores_turned else weights
        weights = weights.astype(np.float16).astype(np.float64)
        more = weights.reshape(B, 16, 16) @ values[:, 16 * k : 16 * k + 16]  # (B, 16, 8)
        sums += more.reshape(sums.shape)
        top = higher
    return (sums / _exchange(total, total_meets, np.add)[..., None]).reshape(B, 16, 8)


def _exchange(x, distances, together):
    """(B, 2, 8, 4) after shuffles over these distances: 1, 2 among the four lanes of a row, 4, 8 to other rows."""
    for distance in distances:
        near = distance < 4
        other = x[..., np.arange(4) ^ distance] if near else x[:, :, np.arange(8) ^ distance // 4]
        x = together(x, other)
    return x


def mistakes(scores, values) -> dict:
    """Known wrong results of softmax_in_fragments: {"…": (array (B, 16, 8), where to look)}."""
    ways = {
        "the result with sums that do not shrink when the maximum grows": dict(sums_shrink=False),
        "the result with a total that does not shrink when the maximum grows": dict(total_shrinks=False),
        "the result with neither sums nor total shrinking when the maximum grows": dict(
            sums_shrink=False, total_shrinks=False
        ),
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
        OVERFLOW[1]: dict(first_half=True),
        "the result with powers of 2 in place of powers of e (exp2f)": dict(power=np.exp2),
        FORGETS: dict(total_forgets=True),
        "the result with a total that shrinks after this tile was added to it: shrink first, then add": dict(
            all_shrinks=True
        ),
        "the result with scores[n][…] in place of scores[i][2 * n + …]: the first index is of columns": dict(
            scores_turned=True
        ),
        "the result with scores[i][1] and scores[i][2] taken for each other: the first two of four are one row's": dict(
            scores_exchanged=True
        ),
        "the result with sums[1] and sums[2] taken for each other: the first two of four are one row's": dict(
            sums_exchanged=True
        ),
    }
    with np.errstate(all="ignore"):
        known = {words: online(scores, values, **how).astype(np.float32) for words, how in ways.items()}
    finite = {words: bool(np.isfinite(wrong).all()) for words, wrong in known.items()}
    unsure = {words for words in known if words == FORGETS and not finite[words] or words in OVERFLOW and finite[words]}
    known = {words: (wrong, SOFTENED) for words, wrong in known.items() if words not in unsure}
    quarter = online(scores, values).astype(np.float32) / 4  # (B, 16, 8)
    known["a quarter of the result: four lanes add up a total that is the whole row's already"] = quarter, SOFTENED
    if scores.shape[-1] > 16:
        last = "the result of the last 16 keys alone: top[n] must keep the maximum from one tile to the next"
        known[last] = online(scores[:, :, -16:], values[:, -16:]).astype(np.float32), SOFTENED
    e = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))  # (B, 16, T)
    known["the result that nobody has divided by the total"] = (
        (e @ values.astype(np.float64)).astype(np.float32),
        SOFTENED,
    )
    return known
