"""Lesson 13: what well-known mistakes give in a softmax by warps, {sentence after "out equals ": (array, where)}.

Many come from lanes.py, a warp in NumPy.
"""

import numpy as np

from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.fast_on_cpu.fused import relocated
from llmc.course.lessons.reductions.lanes import (
    GAPS,
    LANES,
    LOWEST,
    back,
    by_lane,
    never_rescaled,
    online,
    shuffled_down,
    shuffled_from,
    shuffled_up,
    shuffled_xor,
    softmax_with,
    sums_gone_wrong,
    telling,
)
from llmc.course.lessons.reductions.places import ONLINE, SHUFFLE, WARP

OF_LANES = "exp(x - the lane's maximum) divided by the total of the lanes' sums"


def mistakes(x) -> dict:
    """Known wrong probabilities (N, C) of moderate x; of lanes only where they have more than a number each."""
    x64 = np.asarray(x, np.float64)
    C, e = x64.shape[1], np.exp(x64 - x64.max(axis=1, keepdims=True))  # (N, C)
    total = e.sum(axis=1, keepdims=True)  # (N, 1)
    known = {"exp(x - max), not divided by its sum": (e, WARP)}
    known |= relocated(softmax_crossentropy.softmax_mistakes(x64), WARP)
    known |= {
        "exp(x - max) multiplied by its sum": (e * total, WARP),
        "exp(x - max) divided by the logarithm of its sum": (e / np.log(total + (total == 1)), WARP),
        "exp(x - max) divided by the sum of its squares": (e / (e * e).sum(axis=1, keepdims=True), WARP),
        "exp(x - max) divided by C": (e / C, WARP),
        "exp(x - max) divided by the sum without the row's last number": (e / (total - e[:, -1:]), WARP),
        "exp(x - max) divided by the sum without the row's first number": (e / (total - e[:, :1]), WARP),
        "exp(x) divided by the sum of exp(x - max)": (
            np.exp(x64) / total,
            WARP,
        ),
        "exp(x - max) divided by 1 + the sum": (e / (1 + total), WARP),
        "x divided by the sum: the exp is missing": (x64 / total, WARP),
        "exp(x - max) divided by the sum of x - max: the exp is missing": (e / np.log(e).sum(axis=1)[:, None], WARP),
        "(x - max) divided by the sum: the exp is missing": ((x64 - x64.max(axis=1, keepdims=True)) / total, WARP),
    }
    return telling(known | _by_lanes(x64) | _online(x64) if C > LANES else known, e / total)


def online_mistakes(x) -> dict:
    """The same of kernels that find maximum and sum in one loop, where what is left is to rescale the sums."""
    return {words: (array, ONLINE) for words, (array, _) in mistakes(x).items()}


def _by_lanes(x64) -> dict:
    """The results of lanes that are not combined as they should be."""
    C, row_top = x64.shape[1], x64.max(axis=1, keepdims=True)  # (N, 1)
    e = np.exp(x64 - row_top)  # (N, C)
    total = e.sum(axis=1, keepdims=True)  # (N, 1)
    of_lane = by_lane(e, 0).sum(axis=1)  # (N, 32)   what each lane has added up
    top = by_lane(x64, LOWEST).max(axis=1)  # (N, 32)
    own = np.exp(by_lane(x64, -np.inf) - top[:, None]).sum(axis=1)  # (N, 32)   relative to the lane's own maximum
    own_top = np.exp(x64 - back(top, C))  # (N, C)
    first_turn = e[:, :LANES].sum(axis=1, keepdims=True)  # (N, 1)
    known = {
        f"exp(x - max) divided by {words}": (e / back(wrong, C), SHUFFLE)
        for words, wrong in sums_gone_wrong(of_lane).items()
    }
    return (
        known
        | _shuffled_tops(x64, top)
        | {
            "exp(x - max) divided by the sum over the first 32 numbers of the row": (e / first_turn, WARP),
            "exp(x - max) divided by its sum plus the maxima of the lanes: the sum begins at 0 in each lane": (
                e / (total + top.sum(axis=1, keepdims=True)),
                WARP,
            ),
            OF_LANES: (
                own_top / own.sum(axis=1, keepdims=True),
                SHUFFLE,
            ),
            "exp(x - the lane's maximum, not the row's) divided by the right sum": (
                own_top / total,
                ONLINE,
            ),
        }
    )


def _shuffled_tops(x64, top):
    """The results of maxima that reach only some lanes; top (N, 32) is what each lane has found."""
    left = "softmax with the maximum that {} leaves in each lane: only lane {} has that of the row"
    down = left.format("__shfl_down_sync", 0)
    tops = {
        down: shuffled_down(top, np.maximum),
        left.format("__shfl_up_sync", 31): shuffled_up(top, np.maximum),
        "softmax with the maximum that __shfl_sync leaves: its last argument is a lane, not a distance": shuffled_from(
            top, np.maximum
        ),
        "softmax with the maximum of every second lane": shuffled_xor(top, np.maximum, GAPS[:-1]),
        "softmax with the maximum over 16 of the 32 lanes, 0 to 15 or 16 to 31": shuffled_xor(
            top, np.maximum, GAPS[1:]
        ),
    }

    def added(of_lane):
        return shuffled_xor(of_lane, np.add)  # (N, 32)

    def left_over(of_lane):
        return shuffled_down(of_lane, np.add)  # (N, 32)

    both = softmax_with(x64, tops[down], left_over)
    known = {words: (softmax_with(x64, wrong, added), SHUFFLE) for words, wrong in tops.items()}
    return known | {f"{down}, and the same is true of the sum": (both, SHUFFLE)}


def _online(x64) -> dict:
    """The results of maxima and sums that are not rescaled as they should be."""
    row_top = x64.max(axis=1, keepdims=True)  # (N, 1)
    e = np.exp(x64 - row_top)  # (N, C)
    rules = {
        "the reference with a sum that is rescaled after the new number was added": (
            lambda total, fall, e: (total + e) * np.exp(fall)
        ),
        "the reference with the last number of each lane alone: the old sum is lost": lambda total, fall, e: e,
        "the reference with a sum multiplied by old maximum - new maximum: the exp is missing": (
            lambda total, fall, e: total * fall + e
        ),
        "the reference with a sum that leaves out each new maximum": (
            lambda total, fall, e: np.where(fall < 0, total * np.exp(fall), total + e)
        ),
        "the reference with 1 added for every number: it is exp(x[c] - the maximum so far), 1 only for a new maximum": (
            lambda total, fall, e: total * np.exp(fall) + 1
        ),
        "the reference with a sum of each lane's new maxima alone: every other number counts, too, with "
        "exp(x[c] - the maximum so far)": lambda total, fall, e: np.where(fall < 0, total * np.exp(fall) + 1, total),
        "the reference with a sum that begins again at each new maximum": (
            lambda total, fall, e: np.where(fall < 0, 1.0, total + e)
        ),
    }
    known = {}
    for words, rule in rules.items():
        top, total = online(x64, rule)  # (N, 32) each
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            known[words] = (e / (total * np.exp(top - row_top)).sum(axis=1, keepdims=True), ONLINE)
    return known | _merged(x64, e)


def _merged(x64, e) -> dict:
    """The results of lanes whose right maxima and sums are merged in a wrong way; e (N, C) is exp(x - max)."""
    row_top = x64.max(axis=1, keepdims=True)  # (N, 1)
    top = by_lane(x64, LOWEST).max(axis=1)  # (N, 32)
    own = np.exp(by_lane(x64, -np.inf) - top[:, None]).sum(axis=1)  # (N, 32)   relative to the lane's own maximum
    stale, down = never_rescaled(x64), np.exp(top - row_top)  # (N, 32) each
    wrong = {
        "exp(x - max) divided by sums of the lanes that are relative to each lane's own maximum": own,
        "exp(x - max) divided by a sum that was never rescaled, neither in the loop nor between the lanes": stale,
        "the reference with a sum that is not rescaled when the maximum grows": stale * down,
        "exp(x - max) divided by sums of the lanes that are rescaled by exp(the row's maximum - the lane's): the "
        "exponent is the lane's maximum - the row's, never above 0": (own / down),
    }
    known = {words: (e / total.sum(axis=1, keepdims=True), ONLINE) for words, total in wrong.items()}
    return known | _in_pairs(x64, e, top, own)


def _in_pairs(x64, e, top, own) -> dict:
    """The results of lanes that exchange maximum and sum at once, top and own (N, 32), and then go wrong."""
    C, sums = x64.shape[1], "exp(x - max) divided by sums that two lanes merge with"
    rules = {  # of the lane's sum and the other's, and the factors that are right for them
        f"{sums} one factor, exp(the lane's own maximum - the higher one): the other's sum needs that of its own": (
            lambda mine, its, down, its_down: (mine + its) * down
        ),
        f"{sums} one factor, exp(the other's maximum - the higher one): the lane's own sum needs that of its own": (
            lambda mine, its, down, its_down: (mine + its) * its_down
        ),
        f"{sums} each other's factors: a lane's own sum needs exp(its own maximum - the higher one)": (
            lambda mine, its, down, its_down: mine * its_down + its * down
        ),
        f"{sums} the other's as it is: it, too, must be rescaled to the higher maximum": (
            lambda mine, its, down, its_down: mine * down + its
        ),
        f"{sums} the lane's own as it is: it, too, must be rescaled to the higher maximum": (
            lambda mine, its, down, its_down: mine + its * its_down
        ),
        f"{sums} the lane's own as it is, and the other's times exp(the lane's own maximum - the higher one): each sum "
        "needs the factor of its own maximum": lambda mine, its, down, its_down: mine + its * down,
    }
    lane, known = np.arange(LANES), {}
    for words, rule in rules.items():
        _, total = _exchanged(top, own, rule, [lane ^ gap for gap in GAPS])
        known[words] = e / back(total, C), ONLINE
    return known


def _exchanged(top, total, rule, partners):
    """top and total (N, 32) after lanes have merged theirs with those of each of their partners (32,), in turn."""
    for there in partners:
        higher = np.maximum(top, top[:, there])  # (N, 32)
        total = rule(total, total[:, there], np.exp(top - higher), np.exp(top[:, there] - higher))
        top = higher
    return top, total
