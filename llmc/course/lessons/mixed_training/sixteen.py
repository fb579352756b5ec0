"""Lesson 20: what its first two kernels should give, and what each known mistake gives instead.

Arrays of 16 bits are ml_dtypes' bfloat16. Mistakes are {sentence after "out equals ": (float64 array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons import layernorm
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.mixed_training import eights
from llmc.course.lessons.mixed_training.places import GELU, NORM, PACKED
from llmc.course.old.checks.comparison import compare
from llmc.precision import bfloat16

NEAREST = 2.0**-8  # the largest relative error of rounding to the nearest
FLIPPED = 0.02  # of the numbers: float32 may round to the other neighbour
SLACK = 1.02  # a kernel rounds what it computed in float32
BF16 = bfloat16()
CUT = "the reference cut off after 16 bits, not rounded to the nearest"


def compare_16(name, got, exact, known=None, look=None, atol=1e-6, by_chance=False):
    """WrongAnswer unless `got`, bfloat16, is `exact` (float64, of the same shape) rounded to the nearest, or by chance.

    known: as the module says; the mistake that comes closest is named, if it comes as close as rounding does.
    """
    wide, exact = _as_float32(got), np.asarray(exact, np.float64)
    found = ({} if by_chance else {CUT: (cut_off(exact), PACKED)}) | (known or {})
    off = _off(wide, exact, atol, 2.0 if by_chance else 1.0)  # like wide
    allowed = atol + SLACK * _step(exact) * (1.0 if by_chance else 0.5)  # like wide
    arrays = {said: array for said, (array, _) in found.items() if np.shape(array) == wide.shape}
    apart = {said: _apart(wide, array, atol, off) for said, array in arrays.items()}
    best = min(apart, key=apart.get, default=None)
    fits = best is not None and apart[best] <= FLIPPED
    named = {best: (wide.copy(), found[best][1])} if fits else {}
    compare(name, wide, exact.astype(np.float32), 0.0, allowed, known=named, look=look)


def _step(x):
    """The distance of bf16's numbers around x (any shape, float64)."""
    return 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 1e-30))) - 7)


def _off(got, array, atol, steps=1.0):
    """Where two arrays differ by more than rounding does; the second is float64."""
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.asarray(array, np.float32).astype(BF16).astype(np.float64)
        near = np.abs(got - low) <= atol + 1.1 * steps * NEAREST * np.abs(low)
    return ~(near | np.isnan(got) & np.isnan(low))


def _apart(got, array, atol, off) -> float:
    """The share of numbers that a mistake does not explain: of all, or of those that are wrong, whichever is larger."""
    unlike = _off(got, array, atol)
    return max(unlike.mean(), unlike[off].mean() if off.any() else 0.0)


def _as_float32(x):
    """bfloat16 as float32, with one kind of NaN: NumPy warns of the others."""
    wide = (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    wide[np.isnan(wide)] = np.nan
    return wide


def cut_off(x):
    """x without what bf16 does not hold; float64."""
    return (np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def widened(x):
    """bfloat16 as float64."""
    return _as_float32(x).astype(np.float64)


# -------------------------------------------------------------------------------------------------------------- GELU


def gelu_right(x):
    """GELU of x (n,), bfloat16; float64."""
    return gelu.forward(widened(x))


def gelu_mistakes(x, got) -> dict:
    """Known wrong GELUs of x (n,), bfloat16; and what `got` shows."""
    wide = widened(x)
    found = {said: (array, GELU) for said, (array, _) in gelu.forward_mistakes(wide).items()}
    found |= {said: (array, GELU) for said, (array, _) in gelu.tail_mistakes(wide).items()}
    found["x itself"] = wide, PACKED
    bits = x.view(np.uint16).astype(np.float64)  # (n,)
    found["GELU of the bits, taken for whole numbers"] = gelu.forward(bits), PACKED
    with np.errstate(divide="ignore", invalid="ignore"):
        gate = np.where(wide == 0, 0.5, gelu.forward(wide) / wide)  # (n,)
    found["the reference with the gate rounded to bf16"] = wide * _rounded(gate), PACKED
    right, out = gelu.forward(wide), widened(got)
    whole = np.arange(len(x)) < len(x) // 8 * 8
    wrong = np.abs(out - right) > SLACK * NEAREST * np.abs(right) + 1e-6  # (n,)
    if wrong.any() and not (wrong & whole).any():
        found["the reference, except behind the last whole eight"] = out, PACKED
    lost = whole & (np.arange(len(x)) % 2 == 1)  # (n,)   upper halves of words
    if lost.any() and not out[lost].any():
        found["numbers of which every second one, the upper half of each word, is 0"] = out, PACKED
    first = whole & (np.arange(len(x)) % 2 == 0)  # (n,)   lower halves
    if first.any() and not out[first].any() and out[whole].any():
        found[_without_lower_halves(got, right, np.flatnonzero(whole))] = out, PACKED
    found |= {said: (array, PACKED) for said, array in _of_halves(x, right, whole).items()}
    in_order, theirs = right[whole].reshape(-1, 8), out[whole].reshape(-1, 8)  # (n / 8, 8) both
    found |= {said: (out, PACKED) for said in (*moved(theirs, in_order), *in_eights(wrong[whole].reshape(-1, 8)))}
    return found


def _without_lower_halves(got, right, whole) -> str:
    """The sentence on words whose lower halves hold 0, by what the upper ones hold; whole: the places of all halves."""
    lower, upper = whole[::2], whole[1::2]
    bits, rights = (x.view(np.uint16).astype(int) for x in (got, right.astype(np.float32).astype(BF16)))  # (n,) each
    more = (bits[upper] - rights[upper] - rights[lower] + 2**15) % 2**16 - 2**15  # than the bits of both
    zero = "numbers of which every first of two, the lower half of each word, is 0"
    if (np.abs(more) > 2).mean() <= FLIPPED:
        return f"{zero}, and every second one has the bits of both, added up: `a + b << 16` is `(a + b) << 16`"
    if _off(widened(got)[upper], right[upper], 1e-6).mean() > FLIPPED:
        return f"{zero}, and the others are wrong, too"
    return zero


def _of_halves(x, right, whole) -> dict:
    """{sentence: GELUs (n,)} where only one half of each word is right. whole (n,): which numbers lie in an eight."""
    wide = widened(x)
    upper = whole & (np.arange(len(x)) % 2 == 1)  # (n,)
    lower = whole & ~upper
    bits = x.view(np.uint16).astype(np.uint32)  # (n,)
    words = bits.copy()
    words[1::2] = bits[1::2] << 16 | bits[: len(x) // 2 * 2 : 2]
    found = {
        "the reference with the upper half of each word copied from x": np.where(upper, wide, right),
        "the reference with the lower half of each word copied from x": np.where(lower, wide, right),
        "the reference with the upper half of each word cut off after 16 bits, not rounded to the nearest": (
            np.where(upper, cut_off(right), right)
        ),
        "the reference with the lower half of each word cut off after 16 bits, not rounded to the nearest": (
            np.where(lower, cut_off(right), right)
        ),
        "the reference with the whole word taken for its upper half": (
            np.where(upper, gelu.forward(words.view(np.float32).astype(np.float64)), right)
        ),
        "the reference with 0 for each number behind the last whole eight": np.where(whole, right, 0.0),
    }
    return {said: array for said, array in found.items() if upper.any() and not np.array_equal(array, right)}


_ORDERS = {
    (1, 0, 3, 2, 5, 4, 7, 6): "the two halves of a word are exchanged. The lower 16 bits come first in memory",
    (6, 7, 4, 5, 2, 3, 0, 1): "x, y, z and w are in the opposite order",
    (0, 0, 2, 2, 4, 4, 6, 6): "the lower half of each word stands twice",
    (1, 1, 3, 3, 5, 5, 7, 7): "the upper half of each word stands twice",
}


def moved(got, right):
    """A sentence if the numbers of each eight, (n, 8), are the right ones in another order, else nothing."""
    if len(got) < 2:
        return
    off = [[_off(got[:, j], right[:, k], 1e-6, 1.0).mean() for k in range(8)] for j in range(8)]
    order = tuple(int(k) for k in np.argmin(off, axis=1))
    if order != tuple(range(8)) and max(np.min(off, axis=1)) <= FLIPPED:
        words = _ORDERS.get(order, f"they are numbers {', '.join(map(str, order))} of it")
        yield f"the reference with the numbers of each eight in another order: {words}"


def in_eights(wrong):
    """A sentence if only some of the numbers of each eight are wrong, (n, 8), else nothing."""
    bad = [k for k in range(8) if wrong[:, k].any()]
    if 0 < len(bad) < 8 and wrong[:, bad].mean() > 0.5:
        yield f"the reference, except for numbers {', '.join(map(str, bad))} of each eight, counted from 0"


# --------------------------------------------------------------------------------------------------------- layernorm


class Norm(NamedTuple):
    """out (N, C), before it is rounded, mean and rstd (N,); float64."""

    out: np.ndarray
    mean: np.ndarray
    rstd: np.ndarray


def normed(x, w, b) -> Norm:
    """x (N, C) float32, w and b (C,) bfloat16."""
    x, w, b = (np.asarray(a, np.float64) for a in (x, widened(w), widened(b)))
    mean, variance = x.mean(axis=1), x.var(axis=1)  # (N,)
    rstd = 1 / np.sqrt(variance + layernorm.EPS)
    return Norm((x - mean[:, None]) * rstd[:, None] * w + b, mean, rstd)


def norm_mistakes(x, w, b, got=None) -> dict:
    """{"out", "mean", "rstd": known mistakes}. got: out (N, C) as the kernel wrote it, and what it shows."""
    x64, w, b = (np.asarray(a, np.float64) for a in (x, widened(w), widened(b)))
    right, C = normed(x, w.astype(BF16), b.astype(BF16)), x.shape[1]
    known = {
        name: {said: (array, NORM) for said, (array, _) in wrong.items()}
        for name, wrong in layernorm.forward_mistakes(x64, w, b).items()
    }
    # 1 / √variance + eps gives the same numbers, and so does eps²
    no_eps = "the reference without eps under the root, or with far less than 1e-5"
    known["rstd"][no_eps] = known["rstd"].pop("the reference without eps")
    centred = x64 - right.mean[:, None]  # (N, C)
    low = x.astype(BF16).astype(np.float64)  # (N, C)
    lane = np.arange(C) // 8 % 32
    first = np.where(lane == 0, x64, 0).sum(axis=1)  # (N,)
    once = np.where(np.arange(C) < 256, x64, 0).sum(axis=1)  # (N,)
    known["mean"] = known.get("mean", {}) | {
        "the mean of x rounded to bf16: statistics are made from float32": (low.mean(axis=1), NORM),
        "the right mean rounded to bf16: statistics stay float32": (_rounded(right.mean), NORM),
        "lane 0's own sum, divided by C": (first / C, NORM),
        "the sum of the first 256 numbers, divided by C: a lane has more than one eight": (once / C, NORM),
        "the sum of the row, not divided by C": (x64.sum(axis=1), NORM),
        "the mean of x read as bf16, with half the bytes for each number: x is float32": (
            widened(np.ascontiguousarray(x).view(BF16)[:, :C].copy()).mean(axis=1),
            NORM,
        ),
        "the sum in which a lane goes on by 8 numbers, divided by C: the lanes together take 256": (
            (x64 * eights.times_added(C, 1)).sum(axis=1) / C,
            NORM,
        ),
        "the sum in which a lane goes on by 32 numbers, divided by C: the lanes together take 256": (
            (x64 * eights.times_added(C, 4)).sum(axis=1) / C,
            NORM,
        ),
        "the sum of four of each eight numbers, divided by C": (
            np.where(np.arange(C) % 8 < 4, x64, 0).sum(axis=1) / C,
            NORM,
        ),
        "the sum of the row, divided by 256, not by C": (x64.sum(axis=1) / 256, NORM),
        "the reference divided by 32 once more": (
            right.mean / 32,
            NORM,
        ),
        "an eighth of the reference": (right.mean / 8, NORM),
    }
    known["rstd"] |= {
        "the right rstd rounded to bf16: statistics stay float32": (_rounded(right.rstd), NORM),
        "the variance: rstd is 1 / √(variance + eps)": (right.rstd**-2 - layernorm.EPS, NORM),
        "the reference of x rounded to bf16: statistics are made from float32": (
            1 / np.sqrt(low.var(axis=1) + layernorm.EPS),
            NORM,
        ),
        **{said: (array, NORM) for said, array in eights.wrong_rstd(centred, right).items()},
    }
    known["out"] |= {
        "the reference of x rounded to bf16: x is float32": (
            eights.weighed(low, w, b, normed(low, w.astype(BF16), b.astype(BF16))),
            NORM,
        ),
        "norm rounded to bf16 before w and b": (
            _rounded((x64 - right.mean[:, None]) * right.rstd[:, None]) * w + b,
            NORM,
        ),
        "x itself": (x64, NORM),
        "the reference with the mean subtracted twice": (
            (centred - right.mean[:, None]) * right.rstd[:, None] * w + b,
            NORM,
        ),
        "the reference with the last eight of each lane in place of all of its eights": (
            eights.weighed(x64[:, eights.last_eights(C)], w, b, right),
            NORM,
        ),
        "the reference in which a lane's next eight is made from what v holds already": (
            eights.not_loaded(x64[:, eights.last_eights(C)], w, b, right),
            NORM,
        ),
        "x - mean · rstd · w + b: brackets around x - mean are missing": (
            x64 - (right.mean * right.rstd)[:, None] * w + b,
            NORM,
        ),
        "the reference with the upper half of each word cut off after 16 bits, not rounded to the nearest": (
            np.where(np.arange(C) % 2, cut_off(right.out), right.out),
            NORM,
        ),
        "the reference with the lower half of each word cut off after 16 bits, not rounded to the nearest": (
            np.where(np.arange(C) % 2, right.out, cut_off(right.out)),
            NORM,
        ),
        "norm · (w + b): b is added at the end": (centred * right.rstd[:, None] * (w + b), NORM),
        "the reference with rstd multiplied twice": (centred * (right.rstd**2)[:, None] * w + b, NORM),
        "the reference with mean - x in place of x - mean": (-centred * right.rstd[:, None] * w + b, NORM),
    }
    again = np.arange(C) % 256  # (C,)
    for names, scale, shift in (("w and b", w[again], b[again]), ("w", w[again], b), ("b", w, b[again])):
        said = f"the reference with {names} of the first 256 channels again behind them"
        known["out"][said] = eights.weighed(x64, scale, shift, right), NORM
    if got is not None:
        mine = widened(got)  # (N, C)
        for said in moved(mine.reshape(-1, 8), right.out.reshape(-1, 8)):
            known["out"][said] = mine, NORM
    return known


def far_from_zero(x, rstd):
    """A sentence if rstd (N,) is nearly right, but not where a row's mean is many times its spread; else None."""
    right = 1 / np.sqrt(x.var(axis=1, dtype=np.float64) + layernorm.EPS)  # (N,)
    off = np.abs(np.asarray(rstd, np.float64) / right - 1)  # (N,)
    wrong = ~(off < 1e-4)
    if (np.abs(x.mean(axis=1, dtype=np.float64))[wrong] * right[wrong] > 20).all() and (off < 0.05).all():
        return "rstd has lost digits where the mean is far from 0"
    return None


def _rounded(x):
    return np.asarray(x, np.float32).astype(BF16).astype(np.float64)
