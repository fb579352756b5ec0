"""Lesson 20: what its three kernels should give, and what each known mistake gives instead.

Arrays of 16 bits are ml_dtypes' bfloat16. Mistakes are {sentence after "out equals ": (float64 array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.backends.mixed import random_bits
from llmc.course.checks.comparison import compare
from llmc.course.checks.explain import WrongAnswer
from llmc.course.lessons import layernorm
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.mixed_training.places import CHANCE, GELU, NORM, PACKED, UPDATE
from llmc.precision import bfloat16

NEAREST = 2.0**-8  # the largest relative error of rounding to the nearest
FLIPPED = 0.02  # of the numbers: float32 may round to the other neighbour
SLACK = 1.02  # a kernel rounds what it computed in float32
BF16 = bfloat16()
CUT = "the reference cut off after 16 bits: round to the nearest"


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
    found["x itself: nothing was computed"] = wide, PACKED
    right, out = gelu.forward(wide), widened(got)
    whole = np.arange(len(x)) < len(x) // 8 * 8
    wrong = np.abs(out - right) > SLACK * NEAREST * np.abs(right) + 1e-6  # (n,)
    if wrong.any() and not (wrong & whole).any():
        found["the reference, except behind the last whole eight: look at what happens to the tail"] = out, PACKED
    for swap, words in _ORDERS.items():
        moved = right.copy()
        moved[whole] = right[whole].reshape(-1, 8)[:, list(swap)].ravel()
        found[f"the reference with the numbers of each eight in another order: {words}"] = moved, PACKED
    lost = whole & (np.arange(len(x)) % 2 == 1)  # (n,)   upper halves of words
    if lost.any() and not out[lost].any():
        words = (
            "numbers of which every second one is 0: a word is its lower half, and its upper half shifted by 16 bits"
        )
        found[words] = out, PACKED
    return found


_ORDERS = {
    (1, 0, 3, 2, 5, 4, 7, 6): "the two halves of a word are exchanged. The lower 16 bits come first in memory",
    (6, 7, 4, 5, 2, 3, 0, 1): "x, y, z and w are in the opposite order",
    (7, 6, 5, 4, 3, 2, 1, 0): "from the last to the first",
    (0, 0, 2, 2, 4, 4, 6, 6): "the lower half of each word stands twice",
    (1, 1, 3, 3, 5, 5, 7, 7): "the upper half of each word stands twice",
}


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


def norm_mistakes(x, w, b) -> dict:
    """{"out", "mean", "rstd": known mistakes}."""
    x64, w, b = (np.asarray(a, np.float64) for a in (x, widened(w), widened(b)))
    right, C = normed(x, w.astype(BF16), b.astype(BF16)), x.shape[1]
    known = {
        name: {said: (array, NORM) for said, (array, _) in wrong.items()}
        for name, wrong in layernorm.forward_mistakes(x64, w, b).items()
    }
    low = x.astype(BF16).astype(np.float64)  # (N, C)
    lane = np.arange(C) // 8 % 32
    first = np.where(lane == 0, x64, 0).sum(axis=1)  # (N,)
    once = np.where(np.arange(C) < 256, x64, 0).sum(axis=1)  # (N,)
    known["mean"] = known.get("mean", {}) | {
        "the mean of x rounded to bf16: statistics are made from float32": (low.mean(axis=1), NORM),
        "the right mean rounded to bf16: statistics stay float32": (_rounded(right.mean), NORM),
        "lane 0's own sum, divided by C: the lanes have not been added up": (first / C, NORM),
        "the sum of the first 256 numbers, divided by C: a lane has more than one eight": (once / C, NORM),
        "the sum of the row: divide by C": (x64.sum(axis=1), NORM),
        "an eighth of the reference: eight numbers are added for each load": (right.mean / 8, NORM),
    }
    known["rstd"] |= {
        "the right rstd rounded to bf16: statistics stay float32": (_rounded(right.rstd), NORM),
        "the variance: rstd is 1 / √(variance + eps)": (right.rstd**-2 - layernorm.EPS, NORM),
        "the reference of x rounded to bf16: statistics are made from float32": (
            1 / np.sqrt(low.var(axis=1) + layernorm.EPS),
            NORM,
        ),
        "the reference with the squares of lane 0 alone: add up the lanes' squares, too": (
            1 / np.sqrt(np.where(lane == 0, (x64 - right.mean[:, None]) ** 2, 0).sum(axis=1) / C + layernorm.EPS),
            NORM,
        ),
    }
    known["out"] |= {
        "the reference of x rounded to bf16: x is float32, read it as float": (
            _out(low, w, b, normed(low, w.astype(BF16), b.astype(BF16))),
            NORM,
        ),
        "norm rounded to bf16 before w and b: round once, at the end": (
            _rounded((x64 - right.mean[:, None]) * right.rstd[:, None]) * w + b,
            NORM,
        ),
        "x itself: nothing was normalised": (x64, NORM),
    }
    return known


def _out(x, w, b, norm):
    return (x - norm.mean[:, None]) * norm.rstd[:, None] * w + b


def _rounded(x):
    return np.asarray(x, np.float32).astype(BF16).astype(np.float64)


# ------------------------------------------------------------------------------------------------------------- AdamW


class Updated(NamedTuple):
    """After a step: the weights before they are rounded, m, v; (n,) float64."""

    exact: np.ndarray
    m: np.ndarray
    v: np.ndarray


def settings(rng):
    """lr, beta1, beta2, eps, weight_decay, factor, as float32."""
    some = rng.uniform(0.02, 0.1), rng.uniform(0.8, 0.95), rng.uniform(0.9, 0.999), 0.05, 0.3, rng.uniform(0.1, 0.5)
    return [np.float32(x) for x in some]


def cleared(grads, held):
    """WrongAnswer unless grads, bfloat16 (n,), are 0. held: what they were."""
    known = {"what it held before: every step ends with gradients of 0": (widened(held).astype(np.float32), UPDATE)}
    got = grads.astype(np.float32)
    compare("grads", got, np.zeros_like(got), known=known, look=UPDATE)


def updated(weights, grads, m, v, numbers, t) -> Updated:
    """One step from weights (n,), float32 or bfloat16; gradients count `factor` times."""
    lr, beta1, beta2, eps, decay, factor = (float(x) for x in numbers)
    start = weights.astype(np.float64)
    step = optimizer.adamw(
        start, widened(grads) * factor, *(a.astype(np.float64) for a in (m, v)), lr, beta1, beta2, eps, decay, t
    )
    return Updated(step.params, step.m, step.v)


def update_mistakes(weights, rounded, grads, m, v, numbers, t, has_master) -> dict:
    """{"weights", "m", "v": known mistakes}. rounded: what params held; weights: what the step begins with."""
    lr, beta1, beta2, eps, decay, factor = (float(x) for x in numbers)
    start, m, v = (a.astype(np.float64) for a in (weights, m, v))
    g = widened(grads)
    rest = lr, beta1, beta2, eps, decay, t
    known = optimizer.adamw_mistakes(start, g * factor, m, v, *rest)
    found = {name: {said: (array, UPDATE) for said, (array, _) in known[name].items()} for name in ("m", "v")}
    found["weights"] = {said: (array, UPDATE) for said, (array, _) in known["params"].items()}
    others = {
        "the reference without the factor: gradients count `factor` times": g,
        "the reference with gradients divided by factor: multiply": g / factor,
    }
    for said, gradient in others.items():
        step = optimizer.adamw(start, gradient, m, v, *rest)
        for name, array in (("weights", step.params), ("m", step.m), ("v", step.v)):
            found[name][said] = array, UPDATE
    if has_master:
        step = optimizer.adamw(widened(rounded), g * factor, m, v, *rest)
        words = "a step from params, not from master: small updates are lost again"
        found["weights"][words] = step.params, UPDATE
    return found


def compare_chance(params, exact, before, key):
    """WrongAnswer unless params, bfloat16, is exact (float32, (n,)) rounded up or down by the random bits of key.

    Where float32's last digits decide, either neighbour will do. before: what params held.
    """
    bits = np.asarray(exact, np.float32).view(np.uint32).astype(np.int64)
    places = np.arange(len(bits))
    random = _low(key, places)  # (n,)
    got = params.view(np.uint16).astype(np.int64)
    upper, lower = bits >> 16, bits & 0xFFFF
    expected, close = (bits + random) >> 16, np.abs(lower + random - 0x10000) <= 256
    near = (got == expected) | close & ((got == upper) | (got == upper + 1))
    if near.all():
        return
    nearest = np.asarray(exact, np.float32).astype(BF16).view(np.uint16)
    wrong = {
        "rounded to the nearest: the random bits make no difference": nearest,
        "cut off: nothing ever goes up. Are the random bits added to the bits of the float, before the shift?": upper,
        "what it held before: the new weights are not written": before.view(np.uint16),
        "rounded by the random bits of place 0 for all: a weight's place is i": (bits + _low(key, 0 * places)) >> 16,
        "rounded by random bits that do not depend on the key: then each step rounds alike": (bits + _low(0, places))
        >> 16,
        "rounded by the random bits of the thread's number within its block: take the weight's place, i": (
            (bits + _low(key, places % 256)) >> 16
        ),
        "rounded by all 32 random bits: only the lower 16 may be added": (
            (bits + random_bits_of(key, places) & 0xFFFFFFFF) >> 16
        ),
        "rounded to the nearest after the random bits were added: what is cut off counts twice": (
            (bits + random + 0x7FFF + (bits + random >> 16 & 1)) >> 16
        ),
        "the lower 16 bits: a bfloat16 is the upper half": (bits + random) & 0xFFFF,
    }
    same = [said for said, codes in wrong.items() if (np.asarray(codes).astype(np.int64) == got).mean() > 0.995]
    at = int(np.argmin(near))
    off = int((~near).sum())
    lines = [
        f"params is {same[0]}." if same else "params has wrong values, though the weights before rounding are right."
    ]
    lines += [f"→ Where to look: {CHANCE}.", "", f"Wrong: {off} of {len(got)}. The first of them, number {at}:"]
    lines += [f"    before rounding  0x{bits[at]:08X}, so lower = 0x{lower[at]:04X}; random 0x{random[at]:04X}"]
    lines += [f"    expected 0x{expected[at]:04X}   got 0x{got[at]:04X}"]
    raise WrongAnswer("\n".join(lines))


def random_bits_of(key, places):
    """All 32 random bits of these places (n,); int64."""
    few = random_bits(int(key), 0, int(np.max(places)) + 1)
    return few[np.asarray(places)].astype(np.int64)


def _low(key, places):
    return random_bits_of(key, places) & 0xFFFF
