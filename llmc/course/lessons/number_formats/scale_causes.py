"""Lesson 18: why is the learner's scale worse than amax / 448? More calls of the function are the evidence.

Each sentence says what such a call gave. Advice is given only where following it mended the error in a call.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from llmc.course.lessons.number_formats.eight_bits import (
    codes_of,
    dequantised,
    error,
    of_another_largest,
    returned_scale,
    usual,
)
from llmc.course.lessons.number_formats.formats import E4M3, decode
from llmc.course.old.checks import causes
from llmc.course.old.checks.contrast import outcome

TIMES = 2.0**12  # how much larger the numbers of another call are
ALIKE = 1.01  # scales that differ by less are taken for the same
BESIDE = 2.0 ** (np.arange(-8, 9) / 16)  # times a scale: what else may have been tried
IN_UNITS = "sum of squared errors in units of the scale (of x / scale, not of x)"
ALLOWED = 1.001  # times the error of amax / 448


def too_large(function, scale, x) -> str:
    """Sentences, each in a line of its own, about a scale whose error for x is too large; "" where nothing is known."""
    tries = (_remembered, _of_positive_numbers, _stays, of_another_largest, _of_another_measure)
    tries += (_of_smaller_codes, _of_rows, _too_few_digits)
    return next((f"{said}\n" for look in tries if (said := look(function, float(scale), x))), "")


def good(result, x) -> bool:
    """Is the error of a result for x no larger than that of amax / 448?"""
    with np.errstate(all="ignore"):
        try:
            return error(*result, x) <= ALLOWED * error(*usual(x), x) + 1e-7
        except (TypeError, ValueError, IndexError):  # it is no result at all
            return False


def _remembered(function, scale, x) -> str | None:
    said = causes.stale()
    return said and f"{said[0].upper()}{said[1:]}."


def _of_positive_numbers(function, scale, x) -> str | None:
    """Is -x quantised well, though it has the same sizes?"""
    if x.max() < np.abs(x).max() and good(outcome(function, -x), -x):
        return "-x is quantised well, and the largest number of x is negative: amax is the largest of np.abs(x)."
    return None


def _stays(function, scale, x) -> str | None:
    """Does the scale hardly grow with x?"""
    small = np.abs(x).max() < 1
    factor = TIMES if small else 1 / TIMES
    other = returned_scale(outcome(function, x * x.dtype.type(factor)))
    if other is None or not 1 / 4 < other / scale < 4:
        return None
    size = "large" if small else "small"
    words = f"With numbers {TIMES:.0f} times as {size} your scale is {other:.4g}, and here {scale:.4g}"
    return f"{words}, but it should grow with the numbers."


def _of_smaller_codes(function, scale, x) -> str | None:
    """Do its codes end at the same number below the largest, or is its scale the same share of the largest number?"""
    rng = np.random.default_rng(0)
    tensors = x, *(rng.standard_normal(64).astype(np.float32) for _ in range(4))
    with suppress(Exception):
        codes, scales = zip(*(outcome(function, each) for each in tensors))
        times = [448 * float(found) / np.abs(each).max() for found, each in zip(scales, tensors)]
        if np.ptp(times) < 1e-5 * times[0]:
            return f"For other numbers, too, your scale is {times[0]:.3g} · amax / 448."
        ends = {float(np.nanmax(np.abs(decode(np.asarray(each, np.uint8), E4M3)))) for each in codes}
        if len(ends) == 1 and (end := ends.pop()) < E4M3.largest:
            return f"Its codes end at {end:g}, here and for other numbers; the largest number of e4m3 is 448."
    return None


def _of_rows(function, scale, x) -> str | None:
    """Is it the mean of the scales of the rows, for x and for a matrix?"""
    y = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    found = returned_scale(outcome(function, y))
    pairs = [(each, s) for each, s in ((x, scale), (y, found)) if s]
    means = [np.abs(each).reshape(len(each), -1).max(axis=1).mean() / 448 for each, _ in pairs]
    if len(pairs) < 2 or not np.allclose(means, [s for _, s in pairs], rtol=1e-5):
        return None
    return "Your scale is the mean of those of the rows of x: larger numbers are clipped."


def _of_another_measure(function, scale, x) -> str | None:
    """Is the scale the best by another measure than the sum of squares, for x and for other numbers?"""
    rng = np.random.default_rng(0)
    others = [rng.standard_normal(n).astype(np.float32) for n in (64, 7, 12, 20)]
    found = [returned_scale(outcome(function, y)) for y in others]
    if None in found:
        return None
    for words, measure in MEASURES.items():
        large = words == IN_UNITS  # which most large scales are good for: it takes more tensors to tell
        most, worse = (BELOW_TWO, 1.0) if large else (WIDE, 1.01)
        more = [*zip(found, others)][: None if large else 1]
        if _is_best(measure, scale, x, most, worse) and all(_is_best(measure, s, y, most, 1.0) for s, y in more):
            return (
                f"Among the scales around it, yours has the smallest {words}, not the smallest sum of squared errors."
            )
    return None


def _too_few_digits(function, scale, x) -> str | None:
    """Does x in float64 mend it, or the same numbers in the middle of float32's range?"""
    if good(outcome(function, x.astype(np.float64)), x):
        return "With x in float64 your function is right."
    power = int(np.frexp(np.abs(x).max())[1])
    moved = np.ldexp(x, -power)
    if np.array_equal(np.ldexp(moved, power), x) and good(outcome(function, moved), moved):
        return f"The same numbers divided by 2**{power} are quantised well."
    return None


WIDE, BELOW_TWO = 2.0001, 1.99  # times amax / 448: how far searches go
MEASURES: dict[str, Callable] = {  # of (errors, x, scale)
    "error of each number in relation to that number": lambda missed, x, scale: np.mean(
        (missed[x != 0] / x[x != 0]) ** 2
    ),
    "sum of such errors, not squared": lambda missed, x, scale: np.mean(np.abs(missed[x != 0] / x[x != 0])),
    "sum of the sizes of the errors": lambda missed, x, scale: np.mean(np.abs(missed)),
    "largest single error": lambda missed, x, scale: np.abs(missed).max(),
    "sum of errors, whose signs cancel": lambda missed, x, scale: abs(missed.sum()),
    IN_UNITS: lambda missed, x, scale: np.mean((missed / scale) ** 2),
}


def _is_best(measure, scale, x, most, worse) -> bool:
    """By this measure, and worse by the sum of squares?"""
    x = x.astype(np.float64)
    usual = np.abs(x).max() / E4M3.largest
    scales = [factor * scale for factor in BESIDE if factor <= 1 or factor * scale <= most * usual]
    tried = [dequantised(codes_of(x / scale), scale) - x for scale in scales]
    values = [measure(each, x, scale) for each, scale in zip(tried, scales)]
    squares, middle = [np.sum(each**2) for each in tried], scales.index(scale)
    least = min(*squares, np.sum((dequantised(codes_of(x / usual), usual) - x) ** 2))
    return values[middle] <= min(values) * 1.0001 and squares[middle] >= worse * least
