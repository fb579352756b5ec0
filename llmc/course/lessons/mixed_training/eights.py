"""Lesson 20: what a layernorm gives whose lanes load eights wrongly, or add up what they must not; all float64.

Lane l of a row has the eights l, l + 32, l + 64, … of its C numbers.
"""

import numpy as np

from llmc.course.lessons import layernorm


def wrong_rstd(centred, right) -> dict:
    """{sentence: rstd (N,)} of what lanes may add up wrongly; centred: x - mean (N, C)."""
    N, C = centred.shape
    place, eps, squares = np.arange(C), layernorm.EPS, centred**2
    variance, turns = squares.mean(axis=1), -(-C // 256)  # (N,)
    means = {  # of squares, with eps
        "the squares of lane 0 alone": _part(squares, place // 8 % 32 == 0) + eps,
        "the squares of the first 256 numbers, divided by C: a lane has more than one eight": (
            _part(squares, place < 256) + eps
        ),
        "the squares of four of each eight numbers, divided by C": _part(squares, place % 8 < 4) + eps,
        "squares in which a lane goes on by 8 numbers: the lanes together take 256": (
            _part(squares, times_added(C, 1)) + eps
        ),
        "squares in which a lane goes on by 32 numbers: the lanes together take 256": (
            _part(squares, times_added(C, 4)) + eps
        ),
        "32 · eps in place of eps": variance + 32 * eps,
        "eps / C in place of eps": variance + eps / C,
        "C · eps in place of eps": variance + C * eps,
        "|x - mean| in place of its square": np.abs(centred).mean(axis=1) + eps,
        "the variance divided by C once more": variance / C + eps,
        "the sum of squares divided by 256, not by C": variance * C / 256 + eps,
        "the variance divided by 32": variance / 32 + eps,
    }
    for width in dict.fromkeys((256 * turns, 1024)):
        means[f"(0 - mean)² for numbers behind the row's end, as if it had {width}"] = (
            variance + (width - C) / C * right.mean**2 + eps
        )
    return {f"the reference with {said}": 1 / np.sqrt(each) for said, each in means.items()}


def _part(squares, times):
    """(N,): the sum over a row of squares (N, C), each so many times (C,), divided by C."""
    return (squares * times).sum(axis=1) / squares.shape[1]


def last_eights(C):
    """(C,): for each channel, the one at its place in the last eight that its lane has."""
    eight, inside = np.divmod(np.arange(C), 8)
    last = (C // 8 - 1 - eight) // 32 * 32 + eight
    return 8 * last + inside


def not_loaded(v, w, b, norm):
    """(N, C): of what v (N, C) holds at first, and then of the result before."""
    out, C = v.copy(), v.shape[1]
    for first in range(0, C, 256):
        here = slice(first, first + 256)
        held = v[:, here] if first == 0 else out[:, first - 256 : first][:, : C - first]  # (N, 256) or less
        out[:, here] = weighed(held, w[here], b[here], norm)
    return out


def times_added(C, step):
    """(C,): how often a number is added where each lane goes on by `step` eights."""
    eight = np.arange(C) // 8
    lanes = np.arange(32)[:, None]  # (32, 1)
    return ((lanes <= eight) & ((eight - lanes) % step == 0)).sum(axis=0)


def weighed(x, w, b, norm):
    """(x - mean) · rstd · w + b (N, C) of any x (N, C)."""
    return (x - norm.mean[:, None]) * norm.rstd[:, None] * w + b
