"""Lesson 16: what well-known mistakes in a softmax and in merging give, {sentence after "out equals ": (function,
where to look)}. Most come from a table of probabilities (heads, T, T) that is made, masked or used in another way.
"""

import numpy as np

from llmc.course.lessons.attention_kernels.places import LEAK, NAIVE, ONLINE, SPLIT
from llmc.course.lessons.attention_kernels.references import merged, probabilities

HS = 32  # channels of a head in the exercises whose kernels scale
MASK = -1e4  # a finite one
LEAKS = "with a mask such as -10,000, which leaks where all scores of a query are lower"
NO_MASK = "of a query that sees all T keys: query t sees the keys 0 to t"
TURNED_MASK = "of a query that sees its own key and the later ones: query t sees the keys 0 to t"
MORE = "of a query that sees one key too many: query t sees the keys 0 to t, t + 1 of them"
FEWER = "of a query that does not see its own key: query t sees the keys 0 to t, t + 1 of them"
TWOS = "with powers of 2, not of e"
ON = "of heads that do not begin again: t is the row % T, and query 0 of each head sees one key"


def _table(scores, seen):
    """Softmax of the scores (heads, T, T) where `seen`; 0 in rows without a key."""
    masked = np.where(seen, np.asarray(scores, np.float64), -np.inf)
    top = np.maximum(masked.max(axis=-1, keepdims=True), -1e30)
    e = np.exp(masked - top)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def triangle(T, more=0):
    return np.tril(np.ones((T, T), bool), more)  # (T, T)


def softmaxes(scores) -> dict:
    """Of masked_softmax: p (heads, T, T)."""
    heads, T, _ = scores.shape
    rows = np.arange(heads * T).reshape(heads, T, 1)  # (heads, T, 1)
    keys, all_keys = np.arange(T), np.ones((T, T), bool)
    right, stats = probabilities(scores)
    masked = np.where(triangle(T), np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    top = masked.max(axis=-1, keepdims=True)  # (heads, T, 1)

    def among(seen):
        return lambda: _table(scores, seen)

    def turned():
        return np.swapaxes(scores, 1, 2)  # (heads, T, T)

    found = {
        f"the probabilities {MORE}": among(triangle(T, 1)),
        f"the probabilities {NO_MASK}": among(all_keys),
        f"the probabilities {ON}": among(keys <= rows),
        f"the probabilities {TURNED_MASK}": among(keys >= keys[:, None]),
        "the probabilities of a query t = row / heads: it is row % T": among(keys <= rows // heads),
        "the probabilities of a query t = row % heads: it is row % T": among(keys <= rows % heads),
        "the probabilities of a query t = row / T, which is the head: it is row % T": among(keys <= rows // T),
        f"the probabilities {TWOS}": lambda: probabilities(scores * np.log(2))[0],
        "the probabilities with a score of 0 for each later key": lambda: probabilities(scores, 0.0)[0],
        "the probabilities of scores that are read down a column: a row of scores is a query": lambda: _table(
            turned(), triangle(T)
        ),
        "the probabilities among all T keys, with zeros at the later ones: the largest score and the sum are those of "
        "the keys that the query sees": lambda: _table(scores, all_keys) * triangle(T),
        "exp(score - top), not divided by their sum": lambda: np.exp(masked - top),
        "exp(score) divided by the sum of exp(score - top)": lambda: right * np.exp(np.minimum(top, 700.0)),
        "exp(score - top), divided twice by their sum": (
            lambda: right / np.exp(masked - top).sum(axis=-1, keepdims=True)
        ),
        "the logarithm of the probabilities": lambda: np.where(
            triangle(T), np.asarray(scores, np.float64) - stats[..., None], 0.0
        ),
    }
    return {words: (make, NAIVE) for words, make in found.items()} | {
        f"the probabilities {LEAKS}": (lambda: probabilities(scores, MASK)[0], LEAK),
        "the probabilities with totals that are relative to each lane's own maximum": (
            lambda: _totals_of_lanes(scores),
            ONLINE,
        ),
    }


def _totals_of_lanes(scores):
    """Probabilities (heads, T, T) divided by the sum of the lanes' totals, each relative to the lane's own maximum."""
    heads, T, _ = scores.shape
    masked = np.where(triangle(T), np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    lanes = np.pad(masked, ((0, 0), (0, 0), (0, -T % 32)), constant_values=-np.inf).reshape(heads, T, -1, 32)
    own = np.maximum(lanes.max(axis=2, keepdims=True), -1e30)  # (heads, T, 1, 32)
    total = np.exp(lanes - own).sum(axis=(2, 3))[..., None]  # (heads, T, 1)
    return np.exp(masked - masked.max(axis=-1, keepdims=True)) / total


def stats_of_a_lane(scores) -> dict:
    """stats (heads, T) of masked_softmax from what lane 0 alone has met: the same with its own top or the row's."""
    masked = np.where(triangle(scores.shape[1]), np.asarray(scores, np.float64), -np.inf)  # (heads, T, T)
    words = "the logarithm of the sum of exp(score) over lane 0's own keys (0, 32, …)"
    return {words: (lambda: np.logaddexp.reduce(masked[..., ::32], axis=-1), NAIVE)}


def _exp(x):
    """exp, of no more than float64 has room for."""
    return np.exp(np.minimum(np.asarray(x, np.float64), 700.0))


def stats_of(stats, top, name="top") -> dict:
    """stats and the largest scores, of one shape; name: what the largest one is called."""
    return {
        f"the logarithm of the sum of exp(score - {name})": (
            lambda: stats - top,
            ONLINE,
        ),
        "the largest score": (lambda: top, ONLINE),
        f"{name} minus the logarithm of the sum": (lambda: 2 * top - stats, ONLINE),
        f"the logarithm of the sum minus {name}": (lambda: stats - 2 * top, ONLINE),
        f"{name} plus the logarithm of the sum to base 2": (lambda: top + (stats - top) / np.log(2), ONLINE),
        f"{name} · log2(e) plus the logarithm of the sum": (
            lambda: top / np.log(2) + (stats - top),
            ONLINE,
        ),
        "a logarithm to base 2": (lambda: stats / np.log(2), ONLINE),
        f"{name} plus the logarithm of the sum to base 10": (
            lambda: top + (stats - top) / np.log(10),
            ONLINE,
        ),
        f"{name} times the logarithm of the sum": (lambda: top * (stats - top), ONLINE),
        f"{name} of the unscaled products plus the logarithm of the sum": (
            lambda: np.sqrt(HS) * top + (stats - top),
            ONLINE,
        ),
        f"1 / the sum of exp(score - {name})": (lambda: _exp(top - stats), ONLINE),
        f"the sum of exp(score - {name})": (lambda: _exp(stats - top), ONLINE),
        "the sum of exp(score)": (lambda: _exp(stats), ONLINE),
        f"{name} plus the sum of exp(score - {name})": (
            lambda: top + _exp(stats - top),
            ONLINE,
        ),
        f"-3.4e38, with which {name} begins": (
            lambda: np.full_like(stats, -3.4e38),
            ONLINE,
        ),
    }


# ----------------------------------------------------------------------------------------------------- merging


def merges(top, total, sums) -> dict:
    """Of merge_parts: out (rows, hs)."""
    top, total, sums = (np.asarray(a, np.float64) for a in (top, total, sums))
    rows, parts, hs = sums.shape
    factor = np.exp(top - top.max(axis=1, keepdims=True))  # (rows, parts)
    whole = (total * factor).sum(axis=1, keepdims=True)  # (rows, 1)
    turned = np.swapaxes(sums.reshape(rows, hs, parts), 1, 2)  # (rows, parts, hs)
    weighed = (sums * factor[..., None]).sum(axis=1)  # (rows, hs)
    reached = np.maximum.accumulate(top, axis=1)  # (rows, parts)   the highest so far
    so_far, as_it_comes = np.exp(top - reached), np.exp(reached - top.max(axis=1, keepdims=True))  # (rows, parts)
    weighed_so_far = (sums * so_far[..., None]).sum(axis=1) / (total * so_far).sum(axis=1, keepdims=True)  # (rows, hs)
    with np.errstate(all="ignore"):
        mean = (sums / total[..., None]).mean(axis=1)
        last = sums[:, -1] / total[:, -1:]
        weighed_back = (sums / factor[..., None]).sum(axis=1)  # (rows, hs)
        whole_back = (total / factor).sum(axis=1, keepdims=True)  # (rows, 1)
        each = np.where(total[..., None] > 0, sums / total[..., None], 0.0)  # (rows, parts, hs)
        by_tops = factor * (total > 0)  # (rows, parts)
        of_lanes = total * factor  # (rows, parts)   lane s adds up the parts s, s + 32, …; there are fewer than 32
        of_lanes = np.pad(of_lanes, ((0, 0), (0, 32 - parts)))[:, np.arange(hs) % 32]  # (rows, hs)
        by_lanes = weighed / of_lanes
        of_lane = np.pad(factor, ((0, 0), (0, 32)))[:, np.arange(hs) % 32]  # (rows, hs)   lane s has that of part s
    later = "the result with a part of a lower top added as it comes, once a higher one has been met"

    def added(as_they_come, divided_by):
        return lambda: (sums * as_they_come[..., None]).sum(axis=1) / divided_by

    never = "not multiplied by exp(old - new) when the highest grows"

    def total_of(weights):
        return (total * weights).sum(axis=1, keepdims=True)  # (rows, 1)

    more = {
        "what the parts have found, weighed by exp(top - highest) alone: a part's weight is that times its total": (
            lambda: (each * by_tops[..., None]).sum(axis=1) / by_tops.sum(axis=1, keepdims=True)
        ),
        "what the parts have found, times exp(top - highest), and divided by nothing else": (
            lambda: (each * factor[..., None]).sum(axis=1)
        ),
        "what the parts have found, times exp(top - highest), divided by the right total: sums hold no "
        "quotients": lambda: (each * factor[..., None]).sum(axis=1) / whole,
        "the result with each part multiplied by its total, too: sums are not divided yet": (
            lambda: (sums * (total * factor)[..., None]).sum(axis=1) / whole
        ),
        later: added(
            as_it_comes, total_of(as_it_comes)
        ),
        f"{later}, in the sums": added(as_it_comes, whole),
        f"{later}, in the total": added(factor, total_of(as_it_comes)),
        f"the result with a total that is {never}": added(factor, total_of(so_far)),
        f"the result with sums that are {never}": added(so_far, whole),
        "the result with the sums of part 0 in every part: it is sums[s * hs + c]": (
            lambda: (sums[:, :1] * factor[..., None]).sum(axis=1) / whole
        ),
        "the result with the sums of part 0 once more: a sum begins at 0": lambda: (weighed + sums[:, 0]) / whole,
        "the result with channel 0 in every channel: it is sums[s * hs + c]": (
            lambda: np.repeat(weighed[:, :1], hs, axis=1) / whole
        ),
        "the sums divided by a total of the lane's own parts, from s = lane on: every lane needs the total of all": (
            lambda: by_lanes
        ),
        "the result with the factor of part `lane` in every part, 0 where there is no such part: each part s has its "
        "own, expf(top[s] - highest)": lambda: sums.sum(axis=1) * of_lane / whole,
        "sums divided by a total that each channel of a lane has added to, never set back to 0": (
            lambda: weighed / (whole * (1 + np.arange(hs) // 32))
        ),
        f"the result {TWOS}": (
            lambda: merged(top * np.log(2), total, sums)[0]
        ),
    }  # fmt: skip
    return {words: (make, SPLIT) for words, make in more.items()} | {
        "the sums as they are, divided by the totals as they are": (
            lambda: sums.sum(axis=1) / total.sum(axis=1, keepdims=True),
            SPLIT,
        ),
        "the sums as they are, divided by the right total": (lambda: sums.sum(axis=1) / whole, SPLIT),
        "corrected sums, divided by totals as they are: both need the factor": (
            lambda: weighed / total.sum(axis=1, keepdims=True),
            SPLIT,
        ),
        "the sums times exp(highest - top): the exponent is top - highest, never above 0": (
            lambda: weighed_back / whole,
            SPLIT,
        ),
        "the sums and totals times exp(highest - top): the exponent is top - highest, never above 0": (
            lambda: weighed_back / whole_back,
            SPLIT,
        ),
        "the result with sums and totals that do not shrink when a part brings a larger top": (
            lambda: weighed_so_far,
            SPLIT,
        ),
        "the mean of what the parts have found: a part with larger scores weighs more": (lambda: mean, SPLIT),
        "what the last part has found": (lambda: last, SPLIT),
        "the sums without division": (lambda: weighed, SPLIT),
        "the result with sums[c * parts + s]: channels are the last axis, so it is sums[s * hs + c]": (
            lambda: merged(top, total, turned)[0],
            SPLIT,
        ),
    }


def merged_stats(stats, top, total) -> dict:
    """stats of merge_parts (rows,); top, total (rows, parts)."""
    top, total = np.asarray(top, np.float64), np.asarray(total, np.float64)
    highest = top.max(axis=1)  # (rows,)
    with np.errstate(divide="ignore"):
        each = top + np.log(total)  # (rows, parts)
    of_parts = {
        "the stats of part 0 alone{}: all parts count": 0,
        "the stats of the last part alone{}": each.shape[1] - 1,
    }
    largest = {*each.argmax(axis=1).tolist()}  # where one part has it in all rows, two mistakes give the same
    both = ", or the largest of all, which is the same here"
    known = {words.format(both * (largest == {s})): each[:, s] for words, s in of_parts.items()}
    if len(largest) > 1 or not largest <= {*of_parts.values()}:
        known["the largest of the parts' own stats"] = each.max(axis=1)
    known = {words: (lambda array=array: array, SPLIT) for words, array in known.items()}
    return (
        stats_of(stats, highest, "highest")
        | known
        | {
            "highest plus the logarithm of the totals as they are": (
                lambda: highest + np.log(total.sum(axis=1)),
                SPLIT,
            ),
            "the sum of the parts' own stats, which are logarithms": (
                lambda: each.sum(axis=1),
                SPLIT,
            ),
        }
    )
