"""Mistakes that the numbers themselves reveal, whatever the layer.

A pattern is a function of a `Difference` that returns a sentence, or None; of those in a table, the first match is
reported. BUFFERS and EXACT rest on every entry; ORDERS rest on where the right numbers are.
"""

from itertools import combinations, product

import numpy as np

from llmc.course.checks.comparison import Difference, same
from llmc.course.checks.messages.diagnosis import with_verb
from llmc.course.uncleared import GARBAGE

FEW = 4  # entries; fewer of them may be alike by chance
SMALL = (2, 3, 4)  # factors that a formula may have
MOST = 6  # indices that a sentence lists
MANY = 1_000_000  # entries; larger arrays are not searched for an order
LOOSE = 1e-4  # of a number that others were added to
FAR = 30  # times as far from its place as from the number that it should be
ALONG = (
    ("has the right numbers of index 0 at every index of", lambda a, axis: a.take([0], axis)),
    ("has the right numbers of the last index at every index of", lambda a, axis: a.take([-1], axis)),
    ("holds running sums of the right numbers, along", lambda a, axis: a.cumsum(axis)),
)

# ----------------------------------------------------------------------------- what a buffer or a new array still holds


def never_written(it: Difference):
    if it.before is not None and np.array_equal(it.held, it.before, equal_nan=True):
        return f"{with_verb(it.name, 'was')} never written: it still holds what was in the buffer before the call"


def partly_written(it: Difference):
    if it.before is None:
        return None
    left = np.isclose(it.held, it.before, rtol=1e-8, atol=0) & ~np.isclose(it.target, it.before, rtol=1e-8, atol=0)
    right = ~left & ~it.wrong
    if left.any() and right.any() and (left | right).all():
        return f"part of {it.name} is as it was before the call: {_how_many(left, right)}"
    return None


def never_cleared(it: Difference):
    """Parts of a new array that hold what np.empty had left there, or all that was added to it."""
    left = it.got == GARBAGE
    if left.any() and (left | ~it.wrong).all():
        return f"part of {it.name} was never written: {_how_many(left, ~left)}; np.empty clears nothing"
    left = np.abs(it.got - it.expected - GARBAGE) <= LOOSE * GARBAGE
    if left.any() and (left | ~it.wrong).all():
        added = f"{with_verb(it.name, 'was')} added to an array of np.empty"
        return f"{added}, which holds arbitrary numbers: np.zeros makes one of zeros"
    return None


def overwritten(it: Difference):
    if it.adds and same(it.held, it.expected):
        return f"{with_verb(it.name, 'was')} overwritten instead of accumulated: add to what the buffer holds, with +="


def accumulated(it: Difference):
    if it.before is not None and not it.adds and same(it.got, it.expected + it.before):
        added = f"{with_verb(it.name, 'was')} accumulated where it should be overwritten"
        return f"{added}: what the buffer held must not matter"


def all_zero(it: Difference):
    if not it.got.any() and it.expected.any() and it.expected.ndim:
        return f"nothing was added to {it.name}" if it.adds else f"{with_verb(it.name, 'is')} all zeros"


# --------------------------------------------------------------------------------- exact: they rest on every entry


def sign_flipped(it: Difference):
    if same(it.got, -it.expected):
        return f"{with_verb(it.what, 'has')} the wrong sign"


def constant_factor(it: Difference):
    squares = np.vdot(it.expected, it.expected)
    if not 0 < squares < np.inf or it.expected.size < 3:
        return None
    factor = float(np.vdot(it.expected, it.got) / squares)
    if abs(factor) < LOOSE or abs(factor - 1.0) < 1e-2 or not same(it.got, factor * it.expected):
        return None  # nearly right: too few digits in a constant, or an eps, but not a factor in a formula
    return f"{with_verb(it.what, 'is')} {_factor(factor, it)} times what it should be, everywhere"


def _factor(factor, it) -> str:
    """ "1/7, where x.shape[-1] is 7": a length, its inverse or its root; a small number; else plain digits."""
    sign, factor = "-" if factor < 0 else "", abs(factor)
    for n, name in [*((n, name) for name, n in it.lengths.items()), *((n, "") for n in SMALL)]:
        where = f", where {name} is {n}," if name else ""
        root = n if n**0.5 % 1 else 0  # √4 is 2
        for text, value in ((f"{n}", n), (f"1/{n}", 1 / n), (f"√{n}", root**0.5), (f"1/√{n}", 1 / (root or 1) ** 0.5)):
            if n > 1 and value != 1 and np.isclose(factor, value, rtol=1e-5):
                return sign + text + where
    return f"{sign}{factor:.6g}"


def transposed(it: Difference):
    for i, j in reversed([*combinations(range(it.got.ndim), 2)]):
        if it.got.shape[i] == it.got.shape[j] and same(it.got.swapaxes(i, j), it.expected):
            return f"{with_verb(it.what, 'is')} transposed: axes {i} and {j} are swapped"
    return None


def shifted(it: Difference):
    difference = it.got - it.expected
    if difference.size >= 3 and same(difference, np.full_like(difference, difference.mean())):
        return f"{with_verb(it.name, 'is')} off by the same amount everywhere: got - expected = {difference.mean():.6g}"


def along_an_axis(it: Difference):
    """Running sums, or one index, in place of the numbers themselves."""
    for axis, (words, change) in product(range(it.expected.ndim if it.got.size >= FEW else 0), ALONG):
        made = change(it.expected, axis) if it.expected.shape[axis] > 1 else None
        if made is not None and same(it.got, np.zeros_like(it.expected) + made):
            return f"{it.what} {words} axis {axis}"
    return None


# --------------------------------------------------------------------------------- orders: right numbers, wrong places


def other_order(it: Difference):
    """The slices along one axis are right, but in another order."""
    for axis in range(it.got.ndim):
        order = _order_of(np.moveaxis(it.got, axis, 0), np.moveaxis(it.expected, axis, 0))
        if order is not None:
            some = f"0, 1, … hold what belongs to {', '.join(map(str, order[:8]))}{', …' * (len(order) > 8)}"
            return f"{with_verb(it.what, 'is')} right, except for the order along axis {axis}: {some}"
    return None


def leaking(it: Difference):
    """Later positions leak: entries above the diagonal of (…, T, T) that should be 0."""
    T, n = it.got.shape[-2:] if it.got.ndim > 1 else (0, 1)
    above = np.triu(np.ones((T, n), bool), 1)
    if T == n >= 2 and not it.expected[..., above].any() and it.wrong[..., above].any() and it.expected.any():
        first = [int(i) for i in np.argwhere(it.wrong & above)[0]]
        above = "above the diagonal, where a position looks at later ones"
        return f"{with_verb(it.name, 'is')} not 0 {above}, the first at {first}"
    return None


def _order_of(got, expected):
    """order with got[i] = expected[order[i]], or None; (n, …) both."""
    n = len(got)
    if n < 2 or got.size < 3 or got.size > MANY or not _distinct(expected):
        return None
    weights = np.random.default_rng(0).uniform(1, 2, got[0].size)  # one random projection of each slice, to sort by
    mine, theirs = (array.reshape(n, -1) @ weights for array in (got, expected))
    by_mine, by_theirs = mine.argsort(kind="stable"), theirs.argsort(kind="stable")
    apart = np.abs(got[by_mine] - expected[by_theirs]).max()
    if not same(got[by_mine], expected[by_theirs]) or np.abs(got - expected).max() <= FAR * apart:
        return None
    order = np.empty(n, int)
    order[by_mine] = by_theirs
    return order if (order != np.arange(n)).any() else None


def _distinct(array) -> bool:
    """Do most of its numbers differ from each other? Zeros and ones fall into some order by chance."""
    return np.count_nonzero(np.diff(np.sort(array, axis=None))) > array.size / 2


def _how_many(left, written) -> str:
    """ "4 of 12 entries, all those at index 2 of axis 1, the last": how many, and where."""
    where = f"the first at {[int(i) for i in np.argwhere(left)[0]]}"
    for axis in range(left.ndim if left.ndim > 1 else 0):
        there = np.unique(np.argwhere(left)[:, axis])  # (n,)
        if len(there) < left.shape[axis] and not written.take(there, axis).any() and len(there) <= MOST:
            indices = f"index {there[0]}" if len(there) == 1 else f"indices {', '.join(map(str, there))}"
            at_the_end = [*there] == [*range(left.shape[axis])][-len(there) :]
            last = f", the last{f' {len(there)}' * (len(there) > 1)}" * at_the_end
            where = f"all those at {indices} of axis {axis}{last}"
    return f"{left.sum()} of {left.size} entries, {where}"


BUFFERS = (never_cleared, never_written, partly_written, overwritten, accumulated, all_zero)
EXACT = (sign_flipped, constant_factor, transposed, shifted, along_an_axis)
ORDERS = (other_order, leaking)


def first_match(it: Difference, patterns) -> str | None:
    """The sentence of the first pattern that matches, or None."""
    with np.errstate(all="ignore"):
        return next((sentence for pattern in patterns if (sentence := pattern(it))), None)
