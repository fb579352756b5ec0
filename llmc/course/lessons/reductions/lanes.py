"""Lesson 13: what the 32 lanes of a warp do, in NumPy; lane l has the numbers l, l + 32, l + 64, … of a row.

From it the checks know the results of kernels whose lanes do something wrong.
"""

import numpy as np

LANES = 32
GAPS = 16, 8, 4, 2, 1
LOWEST = -3.4e38  # where a lane's maximum starts


def by_lane(x, fill):
    """Rows (N, C) as (N, turns, 32): what each lane sees in each turn of its loop; fill where a row has ended."""
    N, C = x.shape
    turns = -(-C // LANES)
    padded = np.full((N, turns * LANES), fill, np.float64)
    padded[:, :C] = x
    return padded.reshape(N, turns, LANES)


def back(of_lanes, C):
    """A number of each lane (N, 32), for each of the C numbers of a row: (N, C)."""
    return of_lanes[:, np.arange(C) % LANES]


def shuffled_down(v, combine):
    """What `v = combine(v, __shfl_down_sync(ALL, v, gap))`, gap = 16 … 1, leaves in each lane; v (N, 32)."""
    lane = np.arange(LANES)
    for gap in GAPS:
        there = np.where(lane + gap < LANES, lane + gap, lane)  # its own where no lane is there
        v = combine(v, v[:, there])  # (N, 32)
    return v


def shuffled_xor(v, combine, gaps=GAPS):
    """What `v = combine(v, __shfl_xor_sync(ALL, v, gap))` leaves in each lane; v (N, 32)."""
    for gap in gaps:
        v = combine(v, v[:, np.arange(LANES) ^ gap])  # (N, 32)
    return v


def shuffled_up(v, combine):
    """What `v = combine(v, __shfl_up_sync(ALL, v, gap))`, gap = 16 … 1, leaves in each lane; v (N, 32)."""
    return shuffled_down(v[:, ::-1], combine)[:, ::-1]


def shuffled_from(v, combine):
    """What `v = combine(v, __shfl_sync(ALL, v, gap))` leaves: lane `gap` is what all read; v (N, 32)."""
    for gap in GAPS:
        v = combine(v, v[:, gap : gap + 1])  # (N, 32)
    return v


def sums_gone_wrong(of_lane) -> dict:
    """{what went wrong in adding up the lanes: what each lane has then}; of_lane and results (N, 32)."""
    everything = of_lane.sum(axis=1, keepdims=True) + np.zeros_like(of_lane)
    return {
        "the lane's own sum, not that of all lanes": of_lane,
        "the sum over 16 of the 32 lanes, 0 to 15 or 16 to 31": shuffled_xor(of_lane, np.add, GAPS[1:]),
        "the sum over every second lane": shuffled_xor(of_lane, np.add, GAPS[:-1]),
        "what __shfl_down_sync leaves in each lane: only lane 0 has the whole sum": shuffled_down(of_lane, np.add),
        "what __shfl_up_sync leaves in each lane: only lane 31 has the whole sum": shuffled_up(of_lane, np.add),
        "what __shfl_sync leaves: its last argument is a lane, not a distance": shuffled_from(of_lane, np.add),
        "the largest of the lanes' sums": of_lane.max(axis=1, keepdims=True) + np.zeros_like(of_lane),
        "another lane's own sum, that of lane 31 - lane": of_lane[:, ::-1],
        "lane 0's own sum, not that of all lanes": of_lane[:, :1] + np.zeros_like(of_lane),
        "what shuffles that subtract leave in each lane": shuffled_xor(of_lane, np.subtract),
        "32 times the sum": 32 * everything,
    }


def online(x, add):
    """Each lane's top and total (N, 32) after total = add(total, fall, e) for every one of its numbers of x (N, C).

    fall: old maximum - new maximum, at most 0. e: exp(the number - new maximum).
    """
    seen = by_lane(x, np.nan)  # (N, turns, 32)
    top, total = np.full(seen[:, 0].shape, LOWEST), np.zeros(seen[:, 0].shape)  # (N, 32) each
    for v in np.moveaxis(seen, 1, 0):
        there, higher = ~np.isnan(v), np.fmax(top, v)  # (N, 32) each
        total = np.where(there, add(total, top - higher, np.exp(np.where(there, v, higher) - higher)), total)
        top = higher
    return top, total


def softmax_with(x, tops, totals):
    """Probabilities (N, C) where the lanes subtract tops (N, 32) and divide by totals(what each has added up)."""
    C = x.shape[1]
    e = np.exp(x - back(tops, C))  # (N, C)
    return e / back(totals(by_lane(e, 0).sum(axis=1)), C)


def never_rescaled(x):
    """(N, 32): for each lane the sum of exp(x - the maximum so far), in the order of its loop; x (N, C)."""
    seen = by_lane(x, -np.inf)  # (N, turns, 32)
    return np.exp(seen - np.maximum.accumulate(np.maximum(seen, LOWEST), axis=1)).sum(axis=1)


def telling(known, right):
    """The known mistakes {sentence: (array, where)} that do not happen to give finite numbers which are right."""
    return {
        words: (array, where)
        for words, (array, where) in known.items()
        if np.isfinite(array).all() and np.abs(array - right).max() > 4e-4 * max(np.abs(array).max(), 1e-30)
    }


# ------------------------------------------------------------------------------------------- moments that merge


def merge(a, b):
    """The moments of both parts, each (count, mean, squares); a part may be empty."""
    gap, share = b[1] - a[1], share_of_b(a, b)
    return a[0] + b[0], a[1] + gap * share, a[2] + b[2] + gap**2 * a[0] * share


def share_of_b(a, b):
    """The share of the numbers that b has; 0 where there are none."""
    return b[0] / np.maximum(a[0] + b[0], 1)


def merged(x, mean=None, squares=None, count=None):
    """Mean and squares (N,) of rows x (N, C), as the lanes of a warp merge them.

    mean(a, b), squares(a, b), count(a, b): what a kernel puts in place of the right ones.
    """

    def rule(a, b):
        right = merge(a, b)
        wrong = (replaced(a, b) if replaced else None for replaced in (count, mean, squares))
        return tuple(there if put is None else put for there, put in zip(right, wrong))

    turns = np.moveaxis(by_lane(x, np.nan), 1, 0)  # (turns, N, 32)
    seen = tuple(np.zeros(turns[0].shape) for _ in range(3))  # count, mean, squares, (N, 32) each
    for v in turns:
        there = ~np.isnan(v)  # (N, 32)
        one = there * 1.0, np.where(there, v, 0.0), np.zeros(v.shape)
        seen = tuple(np.where(there, new, old) for new, old in zip(rule(seen, one), seen))
    for gap in GAPS:  # what wraps around the end never reaches lane 0
        seen = rule(seen, tuple(np.roll(array, -gap, axis=1) for array in seen))
    return seen[1][:, 0], seen[2][:, 0]
