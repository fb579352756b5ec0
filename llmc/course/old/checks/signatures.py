"""Mistakes that the numbers themselves reveal, whatever the layer: the table that `compare` goes through.

Each entry is a small function of a `Case` that returns one sentence, or None when the mistake is not this one. The
order matters, because the first match is reported. To add a mistake, write a function and list it in one of
the three tables at the end.
"""

from itertools import combinations, product

import numpy as np

from llmc.course.old.checks import evidence, second_draw
from llmc.course.old.checks.arrangement import (
    interleaved_heads,
    leaking,
    names,
    off_by_one,
    other_order,
    reordered_blocks,
    scattered,
)
from llmc.course.old.checks.case import LIKE, Case, same
from llmc.course.old.checks.text import computes_in
from llmc.course.uncleared import GARBAGE

FEW = 4  # entries; fewer of them may be alike by chance
SMALL = (2, 3, 4)  # factors that a formula may have, and lengths
MOST = 6  # indices that a sentence lists
RESHAPE = "reshape does not transpose"
INVERSE = "is 1 divided by what it should be"
ROOT, SQUARE = "is the square root of what it should be", "is the square of what it should be"
ALONG = (
    ("has the right numbers of index 0 at every index of", lambda a, axis: a.take([0], axis)),
    ("has the right numbers of the last index at every index of", lambda a, axis: a.take([-1], axis)),
    ("has the mean of the right numbers in place of each, along", lambda a, axis: a.mean(axis, keepdims=True)),
    ("holds running sums of the right numbers, along", lambda a, axis: a.cumsum(axis)),
)


def never_written(case: Case):
    if case.before is not None and (same(case.held, case.before) or np.array_equal(case.held, case.before)):
        return f"{case.name} was never written: it still holds what was in the buffer before the call"


def overwritten(case: Case):
    if case.adds and same(case.held, case.expected):
        scratch = computes_in(evidence.learners_function(), case.name)
        instead = f"compute in a new array, and add that to {case.name} once, at the end"
        add = instead if scratch else "add to what the buffer holds, with +="
        return f"{case.name} was overwritten instead of accumulated: {add}"


def multiplied(case: Case):
    """What the buffer held was multiplied, or added again: by one number, or by another in each row."""
    if not case.adds or case.before is None or case.got.ndim == 0 or case.got.shape[-1] < FEW or not case.before.all():
        return None
    change = (case.got - case.expected) / case.before  # (…, n)
    if np.abs(change).max() < LIKE or np.ptp(change, axis=-1).max() > LIKE * np.abs(change).max():
        return None
    numbers = np.unique(np.round(1 + change[..., 0], 4))
    if set(numbers) <= {0, 1}:
        return None  # some rows were overwritten, and that has a cause of its own
    if min(numbers) > 0 and (numbers == np.round(numbers)).all():
        times = " to ".join(f"{n:g}" for n in dict.fromkeys((numbers[0], numbers[-1])))
        return f"what {case.name} held is in it {times} times, and should be once: add only what is new"
    by = f"{numbers[0]:g}" if len(numbers) == 1 else "another number in each row"
    return f"what {case.name} held was multiplied by {by}, and must stay as it is: multiply only what you add to it"


def accumulated(case: Case):
    if case.before is not None and not case.adds and same(case.got, case.expected + case.before):
        return f"{case.name} was accumulated where it should be overwritten: what the buffer held must not matter"


def partly_written(case: Case):
    if case.before is None:
        return None
    left = np.isclose(case.held, case.before, rtol=LIKE * LIKE, atol=0)  # entries that were not touched
    target = case.expected + case.before if case.adds else case.expected
    left &= ~np.isclose(target, case.before, rtol=LIKE * LIKE, atol=0)  # where 0 had to be added, that is right
    right = ~left & (np.abs(case.held - target) <= LIKE * np.abs(target).max())
    if left.any() and right.any() and (left | right).all():
        places = np.argwhere(left)
        first = [int(i) for i in places[0]]
        where = _all_along_an_axis(left, right & ~np.isclose(target, case.before, rtol=LIKE * LIKE, atol=0))
        where = where or f"the first at {first}"
        return f"part of {case.name} was never written: {len(places)} of {left.size} entries, {where}"
    return None


def never_cleared(case: Case):
    """Parts of a new array that hold what np.empty had left there, or all that was added to it."""
    right = np.abs(case.got - case.expected) <= LIKE * np.abs(case.expected).max(initial=0.0)
    left = case.got == GARBAGE
    if left.any() and (left | right).all():
        where = _all_along_an_axis(left, right) or f"the first at {[int(i) for i in np.argwhere(left)[0]]}"
        many = f"{left.sum()} of {left.size} entries"
        return f"part of {case.name} was never written: {many}, {where}; np.empty clears nothing"
    left = np.abs(case.got - case.expected - GARBAGE) <= LIKE * GARBAGE
    if left.any() and (left | right).all():
        return f"{case.name} was added to an array of np.empty, which holds any numbers: np.zeros makes one of zeros"
    return None


def _all_along_an_axis(left, written) -> str:
    """ "all those at index 4 of axis 1, the last" if all that was left out lies there, and nothing else; or ""."""
    for axis in range(left.ndim if left.ndim > 1 else 0):
        there = np.unique(np.argwhere(left)[:, axis])  # (n,)
        if len(there) < left.shape[axis] and not written.take(there, axis).any():
            last = there[-1] == left.shape[axis] - 1 and len(there) == there[-1] - there[0] + 1
            indices = f"index {there[0]}" if len(there) == 1 else f"indices {', '.join(map(str, there))}"
            return f"all those at {indices} of axis {axis}" + ", the last" * bool(last) if len(there) <= MOST else ""
    return ""


def cleared(case: Case):
    if case.adds and not case.held.any() and np.any(case.before):
        return f"{case.name} was set to zero: what the buffer held is lost"


def all_zero(case: Case):
    largest = np.abs(case.expected).max(initial=0)
    if not case.got.any() and case.expected.any():
        return f"{case.name} is all zeros"
    if not case.adds and np.isfinite(largest) and np.abs(case.got).max(initial=0) < case.rounding * largest:
        return f"{case.name} is all zeros, but for rounding"


def sign_flipped(case: Case):
    if same(case.got, -case.expected):
        return f"{case.what} has the wrong sign" + ("" if case.adds else ": got equals -1 times expected")


def _name_factor(factor: float, case: Case) -> str:
    """ "1/C (C = 7)", "-2", "1/15 (15 = the number of entries)"; plain digits when no formula has such a factor."""
    sign = "-" if factor < 0 else ""
    small = any(np.isclose(abs(factor), value, rtol=LIKE) for n in SMALL for value in (n, 1 / n))
    plain = small and bool(case.sizes) and evidence.is_explaining() and second_draw.always_times(case.name, factor)
    for n, name in _lengths(case):
        if plain and not name.isdigit():
            continue  # it is no length, which would differ from call to call
        length = "" if name.isdigit() else f" [{name} = {n}]"
        name = f"({name})" if "·" in name or " or " in name else name
        for text, value in ((name, n), (f"1/{name}", 1 / n), (f"√{name}", n**0.5), (f"1/√{name}", n**-0.5)):
            if n > 1 and np.isclose(abs(factor), value, rtol=LIKE):
                return sign + text + length
    return f"{factor:.6g}"


def _lengths(case: Case):
    """(length, name) that a factor may consist of: the named sizes first, then small numbers, then the array's own."""
    for n in dict.fromkeys(case.sizes.values()):
        yield n, " or ".join(name for name, size in case.sizes.items() if size == n)
    yield from ((n, str(n)) for n in (*SMALL, *case.expected.shape, case.expected.size))


def constant_factor(case: Case):
    squares = np.vdot(case.expected, case.expected)
    if not 0 < squares < np.inf:
        return None
    factor = np.vdot(case.expected, case.got) / squares
    if abs(factor - 1.0) < 1e-2:  # nearly right: too few digits in a constant, or an eps, but not a factor in a formula
        return None
    if case.expected.size >= 3 and same(case.got, factor * case.expected):
        return f"{case.what} is {_name_factor(factor, case)} times what it should be, everywhere"


def power(case: Case):
    """1 / x, √x or x² in place of x, entry by entry."""
    got, right = case.got, case.expected
    if case.adds or right.size < FEW or not (right.all() and got.all() and np.isfinite(right).all()):
        return None
    alike = lambda one, other: np.abs(one / other - 1).max() < LIKE  # noqa: E731
    if alike(got * right, 1.0):
        return f"{case.name} {INVERSE}: got · expected is 1, everywhere"
    if alike(got * got, right):
        return f"{case.name} {ROOT}: got² is expected, everywhere"
    if alike(got, right * right):
        return f"{case.name} {SQUARE}: got is expected², everywhere"
    return None


def transposed(case: Case):
    axes = range(case.got.ndim)
    last = [(-2, -1)] * (case.got.ndim >= 2)
    for i, j in last + [(i, j) for i in axes for j in axes if i < j]:
        if case.got.shape[i] == case.got.shape[j] and same(case.got.swapaxes(i, j), case.expected):
            which = "its last two axes" if i < 0 else f"axes {i} and {j}"
            return f"{case.what} is transposed: {which} are swapped"
    return None


def shifted(case: Case):
    difference = case.got - case.expected
    if difference.size >= 3 and same(difference, np.full_like(difference, difference.mean())):
        return f"{case.name} is off by the same amount everywhere: got - expected = {difference.mean():.6g}"


def reshaped(case: Case):
    """(N, M) numbers put into (M, N) places; of more axes, those up to some axis are the rows."""
    shape, numbers = case.expected.shape, case.expected.size
    for k in range(1, len(shape)):
        rows = int(np.prod(shape[:k]))
        if 1 < rows < numbers and same(case.got, case.expected.reshape(rows, -1).T.reshape(shape)):
            order = f"({rows}, {numbers // rows}) matrix"
            said = f"{case.what} holds the right numbers in another order, that of its transposed {order}"
            return f"{said}: {RESHAPE}" if names("reshape") else said
    for i, j in combinations(range(len(shape)), 2):
        other = case.expected.swapaxes(i, j)
        if 1 < shape[i] != shape[j] > 1 and same(case.got, other.reshape(shape)):
            laid_out = f"as if its axes {i} and {j} were swapped, {other.shape} in place of {shape}"
            return f"{case.what} holds the right numbers in another order, laid out {laid_out}"
    return None


def along_an_axis(case: Case):
    """Running sums, one index or the mean in place of the numbers themselves."""
    if case.got.size < FEW:
        return None
    for axis, (words, change) in product(range(case.expected.ndim), ALONG):
        if case.expected.shape[axis] < 2:
            continue
        made = change(case.expected, axis)
        shared = made.shape[axis] == 1 and np.sum(case.expected == made) > made.size  # a limit that many entries reach
        if not shared and same(case.got, np.zeros_like(case.expected) + made):
            return f"{case.what} {words} axis {axis}"
    return None


BUFFERS = (  # what an array holds, whatever was computed
    never_cleared,
    never_written,
    partly_written,
    cleared,
    overwritten,
    multiplied,
    accumulated,
    all_zero,
)
EXACT = (  # they rest on every entry
    sign_flipped,
    constant_factor,
    power,
    transposed,
    shifted,
    reshaped,
    along_an_axis,
)
PATTERNS = (  # they rest on where the wrong entries are, or on an order: weaker than a mutant that gives the numbers
    off_by_one,
    interleaved_heads,
    other_order,
    reordered_blocks,
    scattered,
    leaking,
)


def diagnose(case: Case, signatures=(*BUFFERS, *EXACT, *PATTERNS)):
    """The sentence of the first signature that matches, or None."""
    return next((sentence for signature in signatures if (sentence := signature(case))), None)
