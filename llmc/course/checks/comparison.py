"""`compare`: is this array the expected one, and if not, what exactly is wrong with it?

It looks at type, shape, dtype and values, in this order, and reports only the first that is wrong: in an array of the
wrong shape, no entry can be called wrong yet. Wrong values become a Difference, which `explanation.py` explains.
"""

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from llmc.course.checks.calls import alike
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer, describe

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}  # relative to the largest expected entry
ROUNDING = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2}  # relative to the largest: smaller errors do not count
LIKE = 1e-4  # two arrays are "the same" when they differ by less than this share of the largest entry
ROWS = 4  # wrong entries that are listed at most
MOST, MANY = 5, 1 << 17  # axes and entries of an array whose axes are tried in every order


@dataclass
class Difference:
    """A wrong array and the right one: the same shape, float64.

    If the call had to add to a buffer (`adds`), got and expected are what it added and what it should have added.
    """

    name: str
    got: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray  # bool: beyond the bounds
    allowed: np.ndarray  # the error that is allowed, entry by entry
    dtype: str = "float64"
    before: np.ndarray | None = None  # what the buffer held before the call, where there was a buffer
    adds: bool = False
    lengths: dict = field(default_factory=dict)  # {"x.shape[2]": 7}, to name a factor
    known: dict = field(default_factory=dict)  # {what a mistake gives, in words: the array}

    @property
    def what(self) -> str:
        """What `got` is, in a sentence: the array, or what was added to it."""
        return f"what was added to {self.name}" if self.adds else self.name

    @property
    def held(self):
        """What the buffer holds after the call."""
        return self.got + self.before if self.adds else self.got

    @property
    def target(self):
        """What it should hold."""
        return self.expected + self.before if self.adds else self.expected

    @property
    def rounding(self) -> float:
        """Share of the largest entry: smaller errors do not count."""
        return ROUNDING.get(self.dtype, ROUNDING["float64"])

    @property
    def finite(self) -> bool:
        """Is there a number wherever one is expected?"""
        return bool(np.isfinite(self.held[np.isfinite(self.target)]).all())

    def table(self) -> list[str]:
        """How many entries are wrong, and the first of them."""
        got, expected, wrong = self.held, self.target, self.wrong
        if wrong.ndim == 0:
            digits = _digits_apart([(expected, got)])
            allowed = f" (allowed error: {float(self.allowed):.1g})" if self.finite else ""
            return [f"expected {expected:.{digits}g}, got {got:.{digits}g}{allowed}"]
        places = [tuple(int(i) for i in index) for index in np.argwhere(wrong)[:ROWS]]
        digits = _digits_apart([(expected[at], got[at]) for at in places])
        wide = 9 + digits  # 16 for seven digits
        many = "are wrong. The first of them" if len(places) > 1 else "is wrong"
        head = f"    {'index':<14}{'expected':>{wide}}{'got':>{wide}}"
        lines = [f"{int(wrong.sum())} of {wrong.size} entries {many}:", head]
        for at in places:
            lines.append(f"    {str(list(at)):<14}{expected[at]:>{wide}.{digits}g}{got[at]:>{wide}.{digits}g}")
        with np.errstate(invalid="ignore"):  # inf - inf
            error = np.abs(got - expected)[wrong]
        if (error < 3 * self.allowed[wrong]).all():  # by so little that one wonders how much is allowed
            lines.append(f"The largest error is {error.max():.3g}; {self.allowed[wrong].max():.3g} is allowed.")
        return lines


def same(a, b) -> bool:
    """Equal up to LIKE, and not both zero; an array that holds an infinity is like no other."""
    largest = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return bool(0 < largest < np.inf and np.abs(a - b).max() <= LIKE * largest)


def compare(name, got, expected, rtol=None, atol=None, *, before=None, added_to=None, look="", known=None):
    """Raise WrongAnswer when `got` is not `expected`; the message says how, and names the mistake if it can.

    name: what the learner calls it, "dx". expected: array of the wanted shape and dtype; a text, a whole number, or a
    list of them must be equal.
    rtol, atol: |got - expected| <= atol + rtol · |expected| must hold everywhere. Default: rtol by dtype (1e-9 float64,
        1e-4 float32) and atol = rtol · max|expected|, so that entries near zero are judged by the size of the others.
    added_to: what the buffer held before, if the call had to ADD `expected` to it.
    before: what the buffer held before, if the call had to OVERWRITE it.
    look: where to look, 'lesson 01, section "2 · Forward"'. known: {"x · x: the square": array}, mistakes to recognise.
    """
    from llmc.course.checks.explanation import explain  # which compares, too

    if isinstance(expected, str | int | list | tuple) or expected is None:
        told = _not_equal(name, got, expected)
        if told:
            raise WrongAnswer(explain(told, None, name, got, expected, look))
        return
    expected = np.asarray(expected)
    told = wrong_kind(name, got, expected)
    if told:
        raise WrongAnswer(explain(Diagnosis(Kind.SHAPE, told, name), None, name, got, expected, look))
    difference = difference_of(name, got, expected, rtol, atol, before, added_to)
    if difference is not None:
        difference.known = known or {}
        raise WrongAnswer(explain(None, difference, name, got, expected, look))


def difference_of(name, got, expected, rtol=None, atol=None, before=None, added_to=None) -> Difference | None:
    """The Difference of two arrays of one shape, bounds as in `compare`; None if there is none."""
    start = 0.0 if added_to is None else np.asarray(added_to, np.float64)
    with np.errstate(invalid="ignore"):  # a NaN of 16 bits
        got64, expected64 = np.asarray(got, np.float64), expected.astype(np.float64)
    rtol = TOLERANCE.get(expected.dtype.name, 0.0) if rtol is None else rtol
    target = start + expected64
    if atol is None:
        sizes = [np.abs(each[np.isfinite(each)]).max(initial=0.0) for each in (target, expected64)]
        atol = rtol * max(sizes)
    with np.errstate(invalid="ignore"):  # inf - inf
        allowed = atol + rtol * np.abs(target)
        wrong = ~((got64 == target) | (np.abs(got64 - target) <= allowed))
        if not np.isfinite(target).all():  # an infinite target allows no distance at all; NaN wants NaN
            exact = (got64 == target) | (np.isnan(got64) & np.isnan(target))
            wrong = np.where(np.isfinite(target), wrong, ~exact)
        if not np.any(wrong):
            return None
        held = added_to if before is None else before
        held = None if held is None else np.asarray(held, np.float64)
        dtype, adds = expected.dtype.name, added_to is not None
        return Difference(name, got64 - start, expected64, wrong, allowed, dtype, held, adds)


def _not_equal(name, got, expected) -> Diagnosis | None:
    """For texts, whole numbers, and lists of anything."""
    if isinstance(expected, list | tuple):
        return _list_differs(name, got, expected)
    whole = isinstance(expected, int) and isinstance(got, int | np.integer | float | np.floating | np.bool_)
    equal = got == expected if whole or type(got) is type(expected) else False
    if isinstance(equal, bool | np.bool_) and equal:
        return None
    other = "" if whole or isinstance(got, type(expected)) else f", which is {describe(got)}"
    if isinstance(got, str | int | float | np.generic) and isinstance(expected, str | int) and not other:
        return Diagnosis(Kind.PLACE, f"{name} is {got!r}, expected {expected!r}", name)
    return Diagnosis(Kind.SHAPE, f"{name} should be {expected!r}, but is {describe(got)}", name)


def _list_differs(name, got, expected) -> Diagnosis | None:
    if not isinstance(got, list | tuple | np.ndarray):
        return Diagnosis(Kind.SHAPE, f"{name} should be a {type(expected).__name__}, but is {describe(got)}", name)
    got = [value.item() if isinstance(value, np.generic) else value for value in got]
    pairs = list(zip(got, expected))
    first = next((k for k, (mine, right) in enumerate(pairs) if not _equal(mine, right)), len(pairs))
    if first == len(got) == len(expected):
        return None
    if first < len(pairs):
        shown = f"{name}[{first}] is {describe(got[first])}, expected {describe(expected[first])}"
        shown += f"; {first} before it are right" if first else ""
    else:
        shown = f"{name} has {len(got)} entries, expected {len(expected)}"
        shown += f"; the first {first} are right" if first else ""
    short = max(len(repr(got)), len(repr(list(expected)))) <= 72
    table = [f"    expected  {list(expected)!r}", f"    got       {got!r}"] if short else []
    return Diagnosis(Kind.PLACE, shown, name, table=table)


def _equal(mine, right) -> bool:
    if isinstance(right, float) and isinstance(mine, int | float):
        return mine == right or abs(mine - right) <= 1e-9 * abs(right) or (mine != mine and right != right)
    if isinstance(right, list | tuple) and isinstance(mine, list | tuple):
        return len(mine) == len(right) and all(map(_equal, mine, right))
    return type(mine) is not bool and bool(np.all(mine == right)) if not isinstance(right, bool) else mine == right


def _digits_apart(pairs) -> int:
    """How many digits show that two numbers differ: six, or more where they are close."""
    for digits in range(6, 17):
        if all(f"{one:.{digits}g}" != f"{other:.{digits}g}" or one == other for one, other in pairs):
            return digits
    return 17


def wrong_kind(name, got, expected) -> str:
    """A sentence about type, shape or dtype; "" if they are right."""
    if got is None:
        return f"{name} is None: nothing was returned for it"
    if not isinstance(got, np.ndarray | np.generic | float | int):
        return f"{name} should be {'a number' if expected.ndim == 0 else 'a NumPy array'}, but is {describe(got)}"
    if np.shape(got) != expected.shape:
        return f"{name} has shape {np.shape(got)}, expected {expected.shape}{_about_shape(np.asarray(got), expected)}"
    if isinstance(got, np.ndarray | np.generic) and got.dtype != expected.dtype:
        if expected.ndim == 0 and {got.dtype.kind, expected.dtype.kind} <= {*"fiu"}:
            return ""  # a number is a number
        wide = got.dtype == np.float64 and expected.dtype.kind == "f"
        made = ": an array made without dtype=, or a NumPy number such as np.sqrt(2), makes it float64" if wide else ""
        return f"{name} has dtype {got.dtype}, expected {expected.dtype}{made}"
    return ""


def exchanged(found, expected) -> bool:
    """Are these {name: result} the right ones, but with some of them under each other's names?"""
    pairs = [(found[name], np.asarray(right)) for name, right in expected.items()]
    if not all(isinstance(got, np.ndarray | np.generic | float | int) for got, _ in pairs):
        return False
    alike = [[_alike(got, right) for _, right in pairs] for got, _ in pairs]
    return all(map(any, alike)) and all(map(any, zip(*alike))) and not all(row[k] for k, row in enumerate(alike))


def _about_shape(got, expected) -> str:
    """What would make the shape right, where its numbers show it."""
    if got.ndim == 0 and expected.size > 1:
        over = next((word for word in ("sum", "mean") if _alike(getattr(expected, word)(), got)), None)
        return f": it is one number, the {over} of all that is expected" if over else ": it is one number"
    if got.shape == (*expected.shape, 1):
        return f": the last axis has length 1{'; drop it with [..., 0]' * _alike(got[..., 0], expected)}"
    if got.size == expected.size:
        return _as_many(got, expected)
    lead = got.ndim - expected.ndim
    for axes in (tuple(range(lead)), tuple(range(expected.ndim, got.ndim))) if lead > 0 else ():
        if tuple(n for k, n in enumerate(got.shape) if k not in axes) == expected.shape:
            return _not_reduced(got, expected, axes)
    for axis in range(expected.ndim):
        if got.shape == (*expected.shape[:axis], *expected.shape[axis + 1 :]):
            reduced = [(f"the {word} over it", getattr(expected, word)(axis)) for word in ("sum", "mean", "max")]
            reduced += [(f"what belongs at its index {k}", expected.take(k, axis)) for k in (0, -1)]
            came = next((f": your result is {word}" for word, array in reduced if _alike(array, got)), "")
            return f": axis {axis} of what is expected is missing{came}"
    return ""


def _as_many(got, expected) -> str:
    """Which order of the axes, or which reshape, makes an array of as many numbers right."""
    if [n for n in expected.shape if n != 1] == [n for n in got.shape if n != 1]:
        return f": an axis of length 1 {'is missing' if got.ndim < expected.ndim else 'is superfluous or out of place'}"
    if got.size > MANY or got.ndim > MOST:
        return ""
    if _alike(got.reshape(expected.shape), expected):
        return ": the numbers are right; reshape them"
    for axes in permutations(range(got.ndim)):
        moved = got.transpose(axes)
        if moved.shape == expected.shape and _alike(moved, expected):
            return f": its axes are in a different order, and `.transpose{axes}` makes it right"
        if _alike(moved.reshape(expected.shape), expected):
            return f": `.transpose{axes}.reshape{expected.shape}` makes it right"
    return ""


def _not_reduced(got, expected, axes) -> str:
    """What is left to be done with these axes: a sum or a mean, if one of them gives what is expected."""
    named = f"ax{'i' if len(axes) == 1 else 'e'}s {' and '.join(map(str, axes))}"
    for word, done in (("sum", "summed"), ("mean", "averaged")):
        if _alike(getattr(got, word)(axis=axes), expected):
            lengths = " and ".join(str(got.shape[axis]) for axis in axes)
            return f": it still has to be {done} over its {named}, of length {lengths}"
    return f": it has one value for each index of {named}"


def _alike(one, other) -> bool:
    return (
        {np.asarray(a).dtype.kind for a in (one, other)} <= {*"fiub"}
        and bool(np.any(other))
        and alike(one, other, LIKE)
    )
