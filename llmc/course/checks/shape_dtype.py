"""Before any number is looked at: is it an array at all, of the right shape and dtype?"""

from itertools import permutations

import numpy as np

from llmc.course.checks.diagnosis import describe

MOST, MANY = 5, 1 << 17  # axes and entries of an array whose axes are tried in every order
NEAR = 1e-4  # of the largest entry


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
        made = ": an array made without dtype= is float64, and so is what it is computed with" if wide else ""
        return f"{name} has dtype {got.dtype}, expected {expected.dtype}{made}"
    return ""


def exchanged(found, expected) -> bool:
    """Are these {name: result} the right ones, but some of them under another's name?"""
    pairs = [(found[name], np.asarray(right)) for name, right in expected.items()]
    if not all(isinstance(got, np.ndarray | np.generic | float | int) for got, _ in pairs):
        return False
    there = all(any(_alike(got, right) for _, right in pairs) for got, _ in pairs)
    all_of_them = all(any(_alike(got, right) for got, _ in pairs) for _, right in pairs)
    return there and all_of_them and not all(_alike(got, right) for got, right in pairs)


def _about_shape(got, expected) -> str:
    """What would make the shape right, where its numbers show that."""
    if got.ndim == 0 and expected.size > 1:
        over = next((word for word in ("sum", "mean") if _alike(getattr(expected, word)(), got)), None)
        return f": it is one number, the {over} of all that is expected" if over else ": it is one number"
    if got.shape == (*expected.shape, 1):
        return f": the last axis has length 1{' and is too much, [..., 0]' * _alike(got[..., 0], expected)}"
    if got.size == expected.size:
        return _as_many(got, expected)
    lead = got.ndim - expected.ndim
    if lead > 0 and got.shape[lead:] == expected.shape:
        return _not_reduced(got, expected, tuple(range(lead)))
    if lead > 0 and got.shape[: expected.ndim] == expected.shape:
        return _not_reduced(got, expected, tuple(range(expected.ndim, got.ndim)))
    for axis in range(expected.ndim):
        if got.shape == (*expected.shape[:axis], *expected.shape[axis + 1 :]):
            reduced = [(f"the {word} over it", getattr(expected, word)(axis)) for word in ("sum", "mean", "max")]
            reduced += [(f"what belongs at its index {k}", expected.take(k, axis)) for k in (0, -1)]
            came = next((f": what came is {word}" for word, array in reduced if _alike(array, got)), "")
            return f": axis {axis} of what is expected is missing{came}"
    return ""


def _as_many(got, expected) -> str:
    """Which order of the axes, or reshape, makes as many numbers right."""
    if [n for n in expected.shape if n != 1] == [n for n in got.shape if n != 1]:
        return f": an axis of length 1 {'is missing' if got.ndim < expected.ndim else 'is too much or out of place'}"
    if got.size > MANY or got.ndim > MOST:
        return ""
    if _alike(got.reshape(expected.shape), expected):
        return ": the numbers are right, reshape them"
    for axes in permutations(range(got.ndim)):
        moved = got.transpose(axes)
        if moved.shape == expected.shape and _alike(moved, expected):
            return f": its axes are in another order, and `.transpose{axes}` makes it right"
        if _alike(moved.reshape(expected.shape), expected):
            return f": `.transpose{axes}.reshape{expected.shape}` makes it right"
    return ""


def _not_reduced(got, expected, axes) -> str:
    """What is left to be done with these axes: a sum or a mean, if one of them gives what is expected."""
    named = f"ax{'i' if len(axes) == 1 else 'e'}s {' and '.join(map(str, axes))}"
    for word in ("sum", "mean"):
        if _alike(getattr(got, word)(axis=axes), expected):
            return f": the {word} over {named} is missing"
    return f": it has one value for each index of {named}"


def _alike(one, other) -> bool:
    if np.shape(one) != np.shape(other) or {np.asarray(a).dtype.kind for a in (one, other)} - {*"fiub"}:
        return False
    one, other = (np.asarray(array, np.float64) for array in (one, other))
    finite = np.isfinite(one) & np.isfinite(other)
    largest = np.abs(other[finite]).max(initial=0.0)
    return bool(largest and np.allclose(one, other, rtol=0, atol=NEAR * largest, equal_nan=True))
