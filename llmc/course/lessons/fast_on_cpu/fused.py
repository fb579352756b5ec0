"""Lesson 11: what fused kernels should give, in float64, and what known mistakes give instead.

References return the dtype of their input. Mistakes are {sentence after "out equals ": (array, where to look)}, one
such dict for each output where there are several.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons import layernorm
from llmc.course.lessons.matmul import results  # noqa: F401, what a function returned, one value a name
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.polynomials import compared

# where to look; a test compares these titles with the headings of notebooks/11_fast_on_cpu.ipynb
FUSED = 'lesson 11, section "4.2 · Residual and layernorm in one pass"'
ROOF = 'lesson 11, section "6 · The roofline of this processor"'

SLOPE = "lesson 04 derives the slope of GELU, and its backward pass in the memory of dout"

CANCELS = "rows around 1000, where E[x²] and E[x]² are large numbers that agree in nearly all of their digits"
SWAPPED = "mean and rstd are swapped: see the order of the arguments"


def relocated(mistakes, where) -> dict:
    """Known mistakes of an earlier lesson, with a place to look in this one."""
    return {sentence: (array, where) for sentence, (array, _) in mistakes.items()}


def in_order(got, expected) -> tuple:
    """The learner's values, one for each name; WrongAnswer if they are right, but in another order."""
    got, names = results(got, *expected._fields), expected._fields
    order = [next((name for name, e in zip(names, expected) if _equal(g, e)), None) for g in got]  # which is it?
    if sorted(map(str, order)) == sorted(names) and tuple(order) != names:
        raise WrongAnswer(f"right, but in another order: return {', '.join(names)}, and not {', '.join(order)}.")
    return got


def _equal(a, b) -> bool:
    try:
        return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6, atol=0)
    except TypeError:  # not numbers, of which `compare` has more to say
        return False


# ---------------------------------------------------------------------------------------------- exercise 1: the cost


class Cost(NamedTuple):
    """Operations; bytes of two separate functions; bytes of the fused one; its operations per byte."""

    flops: float
    separate_bytes: float
    fused_bytes: float
    intensity: float


def cost(N, C, itemsize=4) -> Cost:
    """What residual + layernorm costs on N rows of C numbers, if each array crosses once per function."""
    flops, small = 9.0 * N * C, 2 * C + 2 * N  # w and b are read, mean and rstd written
    fused = float(itemsize * (4 * N * C + small))
    return Cost(flops, float(itemsize * (5 * N * C + small)), fused, flops / fused)


def cost_mistakes(N, C, itemsize=4) -> dict:
    """Known wrong numbers."""
    right, n, rows, channels = cost(N, C, itemsize), N * C, 2 * N, 2 * C
    of = lambda numbers: float(itemsize * numbers)  # noqa: E731
    wrong = {
        "flops": {
            "8 · N · C: one operation for each number is missing; there are 1 for the sum, 1 for the mean, 3 for the "
            "variance and 4 for out": 8.0 * n,
            "the operations of one row: N is missing": right.flops / N,
            "2 · N · C: count every operation of the task, not only two": 2.0 * n,
        },
        "separate_bytes": {
            "the bytes of four large arrays, as the fused function moves them; the two functions move five, x1, x2, "
            "the sum, the sum again, and out: one writes the sum, and the other reads it": right.fused_bytes,
            "the bytes of layernorm alone: the residual addition moves three more arrays": of(2 * n + rows + channels),
            "the bytes without w and b": of(5 * n + rows),
            "the bytes without mean and rstd": of(5 * n + channels),
            "the bytes of 5 · N · C numbers alone: w, b, mean and rstd cross, too": of(5 * n),
            "the number of numbers: itemsize is missing": right.separate_bytes / itemsize,
            "the bytes of float32 numbers, whatever itemsize says": right.separate_bytes / itemsize * 4,
            "the bytes with w and b read again for every row: once is enough": of(5 * n + rows + N * channels),
        },
        "fused_bytes": {
            "the bytes of the two functions: in the fused one, the sum stays in the cache": right.separate_bytes,
            "the bytes of three large arrays and the small ones: there are four, x1, x2, out, and residual, which is "
            "an output, because the backward pass needs it": of(3 * n + rows + channels),
            "the bytes without w and b": of(4 * n + rows),
            "the bytes without mean and rstd": of(4 * n + channels),
            "the bytes of 4 · N · C numbers alone: w, b, mean and rstd cross, too": of(4 * n),
            "the number of numbers: itemsize is missing": right.fused_bytes / itemsize,
            "the bytes of float32 numbers, whatever itemsize says": right.fused_bytes / itemsize * 4,
            "the bytes with w and b read again for every row: once is enough": of(4 * n + rows + N * channels),
        },
        "intensity": {
            "bytes per operation: divide the other way round": 1 / right.intensity,
            "the intensity of the two separate functions: return that of the fused one": (
                right.flops / right.separate_bytes
            ),
            "operations per number: return operations per byte": right.intensity * itemsize,
            "its whole part": right.flops // right.fused_bytes,
        },
    }
    for name, more in _miscounted(right, N, C, itemsize).items():
        for text, value in more.items():  # but for those that happen to be right, or to have a better name
            if all(abs(value - other) > 1e-3 * other for other in (getattr(right, name), *wrong[name].values())):
                wrong[name][text] = value
    return {name: {text: (value, FUSED) for text, value in table.items()} for name, table in wrong.items()}


def formula_of(function, name):
    """A function of nothing that says what the learner's function counts as `name`, found by more calls; or None."""
    if name == "intensity":
        return None
    pick = lambda numbers: tuple(numbers)[Cost._fields.index(name)]  # noqa: E731
    sizes, wide = ("itemsize", "N", "C"), lambda term: term.count("itemsize") < 2
    return lambda: compared(name, function, cost, sizes, 3, pick, wide)


def _miscounted(right, N, C, itemsize) -> dict:
    """Numbers of somebody who counted one thing too many, or too few."""
    n, counts, each = N * C, range(1, 13), "there are 1 for the sum, 1 for the mean, 3 for the variance, 4 for out"
    known = {
        "flops": {f"{k} · N · C: {each}": float(k * n) for k in counts}
        | {f"9 · N · C + {k} · N: what happens once in a row does not count": right.flops + k * N for k in counts},
        "intensity": {
            f"the intensity rounded to {k} digits: return all of them": round(right.intensity, k) for k in range(5)
        },
    }
    for name, arrays in (
        ("separate_bytes", "the sum moves three, layernorm two"),
        ("fused_bytes", "x1, x2, residual, out"),
    ):
        nbytes, small = getattr(right, name), itemsize * 2 * (N + C)
        known[name] = {
            f"the bytes of {k} large arrays and the small ones: {arrays}": float(itemsize * k * n + small)
            for k in counts
        } | {
            "the bytes with mean and rstd for each channel: there is one for each row": nbytes + 2 * itemsize * (C - N),
            "the bytes with w and b for each row: there is one for each channel": nbytes + 2 * itemsize * (N - C),
            "the number of bits: a byte has 8 of them": 8 * nbytes,
        }
    return known


# ------------------------------------------------------------------------------------------ exercise 2: the roofline


class Roof(NamedTuple):
    """Attainable FLOP/s, the shortest possible time (seconds), the share of it that was reached (0 to 1)."""

    attainable: np.ndarray
    shortest: np.ndarray
    share: np.ndarray


def roofline(flops, nbytes, seconds, peak, bandwidth) -> Roof:
    """Where functions with these operations, bytes and seconds, (n,) each, stand under the roof."""
    flops, nbytes, seconds = (np.asarray(a, np.float64) for a in (flops, nbytes, seconds))  # (n,) each
    shortest = np.maximum(flops / peak, nbytes / bandwidth)
    return Roof(np.minimum(peak, flops / nbytes * bandwidth), shortest, shortest / seconds)


def _one_for_all(bound, above, below) -> dict:
    """{words: (n,)} where one question decides which of two limits holds for all functions. bound: (n,) bool."""
    words = "one limit for all functions, by {}(): each of them has its own"
    return {words.format(name): above if ask(bound) else below for name, ask in (("any", np.any), ("all", np.all))}


def roofline_mistakes(flops, nbytes, seconds, peak, bandwidth) -> dict:
    """Known wrong numbers."""
    flops, nbytes, seconds = (np.asarray(a, np.float64) for a in (flops, nbytes, seconds))  # (n,) each
    right = roofline(flops, nbytes, seconds, peak, bandwidth)
    slope, computing, moving = flops / nbytes * bandwidth, flops / peak, nbytes / bandwidth
    with np.errstate(divide="ignore"):
        upside_down = np.minimum(peak, np.where(flops > 0, nbytes / np.where(flops > 0, flops, 1), 0) * bandwidth)
    wrong = {
        "attainable": {
            "the larger of the two limits: the lower one holds": np.maximum(peak, slope),
            "intensity · bandwidth, even where the peak is lower": slope,
            "the peak, whatever the intensity": np.full_like(slope, peak),
            **_one_for_all(computing > moving, np.full_like(slope, peak), slope),
            "the reference with bytes per operation as the intensity": upside_down,
            "the speed that was reached: what is attainable does not depend on seconds": flops / seconds,
            "the intensity capped at the peak: bandwidth is missing": np.minimum(peak, flops / nbytes),
            "the reference with peak and bandwidth swapped": np.minimum(bandwidth, flops / nbytes * peak),
            "the reference with the intensity rounded down": np.minimum(peak, flops // nbytes * bandwidth),
            "operations / (time of the arithmetic + time of the bytes): the two overlap": (
                flops / (computing + moving)
            ),
        },
        "shortest": {
            "the sum of both times: they overlap, so the longer one counts": (computing + moving),
            "the reference with peak and bandwidth swapped": np.maximum(flops / bandwidth, nbytes / peak),
            "the shorter of the two times: both must be over": np.minimum(computing, moving),
            "the time of the arithmetic alone": computing,
            "the time of the bytes alone": moving,
            **_one_for_all(computing > moving, computing, moving),
            "the seconds that it took": seconds,
            **_of_the_roof(flops, right.attainable),
        },
        "share": {
            "seconds / shortest: divide the other way round": seconds / right.shortest,
            "the share of the peak: where memory is the limit, the roof is lower": flops / seconds / peak,
            "the share of the bandwidth alone": moving / seconds,
            "the share in percent: return a number from 0 to 1": 100 * right.share,
            "the share of the sum of both times": (computing + moving) / seconds,
            **_idle(right.share, flops),
        },
    }
    return {name: {text: (array, ROOF) for text, array in table.items()} for name, table in wrong.items()}


def _of_the_roof(flops, attainable) -> dict:
    """The shortest time by somebody who divides by what is attainable, which without operations is 0."""
    none = np.asarray(flops) == 0
    with np.errstate(invalid="ignore"):
        time = flops / attainable
    operations = "where there are no operations: take the larger of the two times"
    known = {
        f"flops / attainable, which is 0 / 0 {operations}": time,
        f"flops / attainable, and 0 {operations}, as its bytes have to move": np.where(none, 0.0, time),
    }
    return known if none.any() else {}


def _idle(share, flops) -> dict:
    """Known wrong shares where there are no operations, which moves bytes all the same."""
    share, none = np.asarray(share, np.float64), np.asarray(flops) == 0
    said = "where there are no operations: a copy has a shortest time, too, and its share is shortest / seconds"
    return {
        f"the reference with {word} {said}": np.where(none, number, share)
        for word, number in (("0", 0.0), ("1", 1.0), ("NaN", np.nan))
        if none.any()
    }


# ------------------------------------------------------------------------------- exercise 3: residual and layernorm


class Normed(NamedTuple):
    """residual, out (N, C), mean, rstd (N,)."""

    residual: np.ndarray
    out: np.ndarray
    mean: np.ndarray
    rstd: np.ndarray


def residual_layernorm(x1, x2, w, b) -> Normed:
    """x1 + x2, and the layernorm of it, rows (N, C)."""
    total = np.asarray(x1, np.float64) + x2  # (N, C)
    out, mean, rstd = layernorm.forward(total, w, b)
    return Normed(*(array.astype(x1.dtype) for array in (total, out, mean, rstd)))


def residual_layernorm_mistakes(x1, x2, w, b) -> dict:
    """Known wrong residual, mean, rstd and out."""
    x1, x2 = np.asarray(x1, np.float64), np.asarray(x2, np.float64)
    total = x1 + x2  # (N, C)
    known = {name: relocated(wrong, FUSED) for name, wrong in layernorm.forward_mistakes(total, w, b).items()}
    for name, wrong in _of_some_channels(total).items():
        known[name] |= wrong
    known["residual"] = {
        "x1 alone: x2 is not added": (x1, FUSED),
        "x2 alone: x1 is not added": (x2, FUSED),
        "x1 - x2": (x1 - x2, FUSED),
        "the layernorm: residual is the plain sum, for the backward pass": (
            layernorm.forward(total, w, b).out,
            FUSED,
        ),
    }
    added = 1 / np.sqrt(x1.var(axis=1) + x2.var(axis=1) + layernorm.EPS)  # (N,)
    apart = "the result of the variances of x1 and x2 added up: that of the sum has their covariance in it, too"
    known["rstd"][apart] = (added, FUSED)
    for text, x in (("x1 alone", x1), ("x2 alone", x2)):
        of = layernorm.forward(x, w, b)
        known["out"][f"the layernorm of {text}, not of the sum"] = (of.out, FUSED)
        known["mean"][f"the mean of {text}, not of the sum"] = (of.mean, FUSED)
    return known


def _of_some_channels(total) -> dict:
    """Known wrong mean and rstd of rows (N, C), by loops over the channels that leave out the first, or the last."""
    C, wrong = total.shape[1], {"mean": {}, "rstd": {}}
    parts = {f"channel 0 of {C}": np.arange(C) > 0}
    for left in sorted({1, *(C % width for width in (2, 4, 8, 16) if width < C)} - {0}):
        which = f"channel {C - 1}" if left == 1 else f"the channels {C - left} … {C - 1}"
        parts[f"{which} of {C}, the last"] = np.arange(C) < C - left
    squares = (total - total.mean(axis=1, keepdims=True)) ** 2  # (N, C)
    for words, used in parts.items():  # (C,)   which channels are added up
        mean, variance = (total * used).sum(axis=1) / C, (squares * used).sum(axis=1) / C  # (N,) each
        wrong["mean"][f"the reference whose sum leaves out {words}"] = (mean, FUSED)
        wrong["rstd"][f"the reference whose sum of squares leaves out {words}"] = (1 / np.sqrt(variance + 1e-5), FUSED)
    return wrong


def swapped(mean, rstd, expected) -> bool:
    """Does each of mean and rstd (N,) hold the values of the other?"""
    close = np.allclose(mean, expected.rstd, rtol=1e-4) and np.allclose(rstd, expected.mean, rtol=1e-4)
    return close and not np.allclose(mean, expected.mean, rtol=1e-4)


def same_rows(outputs, x1, x2, w, b, new=None):
    """`compare` residual, out (N, C), mean and rstd (N,) of long rows, or of many."""
    expected, (N, C) = residual_layernorm(x1, x2, w, b), x1.shape
    new = new or f"{N:,} rows of {C:,} channels"
    for name, got in zip(Normed._fields, outputs, strict=True):
        compare(f"{name} of {N} rows of {C}", got, getattr(expected, name), new=new)
