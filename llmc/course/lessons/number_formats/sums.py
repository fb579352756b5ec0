"""Lesson 18: sums whose rounding errors grow in different ways, row by row and in the numbers' own precision.

`kahan` is the reference of the exercise, `kahan_mistakes` what each known mistake gives. Arrays are (n, C), and sums go
over the first axis. Source: Kahan, "Further remarks on reducing truncation errors" (1965).
"""

from math import fsum

import numpy as np

from llmc.course.old.checks import causes, evidence, text
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer

# where to look; a test compares this title with the headings of notebooks/18_number_formats.ipynb
KAHAN = 'lesson 18, section "3.3 · Kahan"'
LISTED = 3  # wrong sums that are shown


def plain(x):
    """(C,) one row after the other."""
    total = np.zeros_like(x[0])
    for row in x:
        total = total + row  # (C,)
    return total


def pairwise(x):
    """(C,) the sum of the sums of both halves."""
    return x[0].copy() if len(x) == 1 else pairwise(x[: len(x) // 2]) + pairwise(x[len(x) // 2 :])


def kahan(x):
    """(C,) with a second number: what each addition has added too much."""
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])  # (C,) both
    for row in x:
        wanted = row - excess  # (C,)
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


def exact(x):
    """(C,) float64, rounded once, at the very end."""
    return np.array([fsum(column) for column in x.astype(np.float64).T])


def columns(rng, n, dtype):
    """(n, 5): sums that halves lose, that rows lose, of numbers that become smaller, of numbers of both signs, and of
    equal ones, whose last bits a plain sum loses in any order."""
    eps, i = float(np.finfo(dtype).eps), np.arange(n)
    x = rng.uniform(0.5, 1.5, (n, 5))  # (n, 5)
    place = i % 64  # in a block: 1, then six groups of 1, 2, 4, … 32 numbers, each nearly half the last bit of 1
    x[:, 0] = np.where(place == 0, 1, 0.49 * eps / 2 ** np.floor(np.log2(np.maximum(place, 1))))
    x[:, 1] = rng.uniform(0.8, 0.98, n)
    x[n // 3, 1] = 2 / eps * rng.uniform(1, 1.5)  # its last bit is 2; whichever end is first, others come after it
    x[:, 2] *= np.linspace(1, 0.01, n) * 2 / eps / n
    x[:, 3] *= rng.choice([-0.3, 1], n)
    x[:, 4] = 1 + eps * (2 ** max(0, int(n - 1).bit_length() - 2) - 1)  # just below half the last bit of large totals
    return x.astype(dtype)


def kahan_mistakes(x) -> dict:
    """{sentence after "the sum equals ": (C,)}."""
    return {
        "the plain sum: what an addition drops is never added again": plain(x),
        "the plain sum from the last row to the first: what an addition drops is never added again": plain(x[::-1]),
        "the plain sum from the smallest row to the largest, in each column: what an addition drops is never added "
        "again": plain(np.take_along_axis(x, np.argsort(np.abs(x), axis=0, kind="stable"), axis=0)),
        "the pairwise sum: it often loses less than a plain sum, but never adds again what it lost": pairwise(x),
        "the reference with the sign of the excess turned round: what was added too much must be subtracted": _kahan(
            x, sign=-1
        ),
        "the reference with the row itself in place of what was to be added, row − excess": _kahan(x, of="row"),
        "the reference with the new total in place of the old one in the excess": _kahan(x, of="late"),
        "the reference with every excess kept: the newest one replaces the last, which is made up for": _kahan(
            x, of="all"
        ),
        "the reference with other brackets: new − (total − wanted) is not (new − total) − wanted": _kahan(
            x, of="brackets"
        ),
        "the reference with (total − new) − wanted: the total has grown by new − total": _kahan(x, of="turned"),
        "the reference without its first row": kahan(x[1:]),
        "the reference with the first row counted twice": kahan(x[[0, *range(len(x))]]),
        "the reference without its last row": kahan(x[:-1]),
        "the reference with each column's last excess taken over by the next: every column begins with 0": _in_turn(x),
        "the reference with one excess for all columns, from which each column takes that of the one before it: every "
        "column needs its own": _row_by_row(x),
        "the reference divided by n: the sum is wanted, not the mean": kahan(x) / x.dtype.type(len(x)),
        "the plain sum in float64, rounded at the end": plain(x.astype(np.float64)).astype(x.dtype),
    }


def _kahan(x, sign=1, of="wanted"):
    """Kahan's sum with a mistake."""
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])  # (C,) both
    with np.errstate(all="ignore"):
        for row in x:
            wanted = row - sign * excess  # (C,)
            new = total + wanted
            old = new if of == "late" else total
            if of == "brackets":
                excess = new - (old - wanted)
            else:
                earlier = excess if of == "all" else 0
                grown = old - new if of == "turned" else new - old
                excess = earlier + (grown - (row if of == "row" else wanted))
            total = new
    return total.astype(x.dtype)


def _in_turn(x):
    """Kahan's sum, one column after the other, without a new start of the excess."""
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0, 0])  # (C,), a number
    with np.errstate(all="ignore"):
        for j in range(x.shape[1]):
            for number in x[:, j]:
                wanted = number - excess
                new = total[j] + wanted
                excess, total[j] = (new - total[j]) - wanted, new
    return total


def _row_by_row(x):
    """Kahan's sum, all columns of a row after each other, with one excess for all of them."""
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0, 0])  # (C,), a number
    with np.errstate(all="ignore"):
        for row in x:
            for j, number in enumerate(row):
                wanted = number - excess
                new = total[j] + wanted
                excess, total[j] = (new - total[j]) - wanted, new
    return total


def allowed(x):
    """(C,) float64: Kahan's bound on the error, about two roundings of the sum of the sizes."""
    eps = np.finfo(x.dtype).eps
    return eps * (np.abs(x.astype(np.float64)).sum(axis=0) + np.abs(exact(x)))


def compare_sum(got, x, ruled_out=()):
    """Raise WrongAnswer unless `got` (C,), of the dtype of x (n, C), is its sum up to Kahan's bound.

    ruled_out: sentences about mistakes that an earlier call has not made. Returns those that this one has not made.
    """
    right = exact(x)  # (C,)
    sums = kahan_mistakes(x)
    same = [words for words in sums if words not in ruled_out and _equal(sums[words], got)]
    off = {words for words in sums if _too_far(sums[words], x).any()}  # mistakes that these numbers show
    found = next((words for words in same if words in off), None)
    if found is None:
        compare("the sum", got, right.astype(x.dtype), rtol=0, atol=np.inf)  # type, shape and dtype alone
    wrong = _too_far(got, x)  # (C,)
    if not wrong.any():
        return off
    error, bound = np.abs(got.astype(np.float64) - right), allowed(x)  # (C,) both
    first = f"the sum equals {found}." if found else "the sum is too far from the exact one."
    told = _in_the_text(x) if found else _mended()
    first = f"{first}\n{told[0].upper()}{told[1:]}." if told else first
    lines = [first, f"→ Where to look: {KAHAN}.", "", f"Wrong sums: {int(wrong.sum())} of {wrong.size}."]
    rounded = right.astype(x.dtype)  # (C,)
    lines += [f"    sum[{j}]   expected {rounded[j]}, got {got[j]}" for j in np.flatnonzero(wrong)[:LISTED]]
    if np.isfinite(error).all():
        j, plainly = np.argmax(error / bound), np.abs(plain(x).astype(np.float64) - right)
        ends = f"Kahan's bound is {bound[j]:.2g}, and a plain sum's error {plainly[j]:.3g}."
        lines.append(f"The error of sum[{j}] is {error[j]:.3g}; {ends}")
    raise WrongAnswer("\n".join(lines))


def _in_the_text(x) -> str | None:
    """A sentence about lines of the learner's that make an excess useless."""
    function = evidence.learners_function()
    return (text.one_under_two_names(function, (x,)) or text.always_zero(function)) if function else None


def _mended() -> str | None:
    """Which small change of the learner's function brings the sums of this check inside the bound? A sentence."""

    def inside(sums, x):
        same_kind = np.shape(sums) == x[0].shape and sums.dtype == x.dtype
        return same_kind and not _too_far(sums, x).any()

    return causes.whole("sum", evidence.calls_so_far(), lambda x: x, inside, ours=False)


def _equal(sums, got) -> bool:
    """The same numbers of the same type; NaN is none, and says nothing about its cause."""
    return isinstance(got, np.ndarray) and got.dtype == sums.dtype and np.array_equal(sums, got)


def _too_far(sums, x):
    """(C,) which sums of x are outside of Kahan's bound."""
    with np.errstate(invalid="ignore"):
        return ~(np.abs(sums.astype(np.float64) - exact(x)) <= allowed(x))
