"""Before any number is looked at: is it an array at all, of the right shape and dtype?"""

from functools import partial
from itertools import permutations

import numpy as np

from llmc.course.old.checks import causes, evidence, text
from llmc.course.old.checks.case import same
from llmc.course.old.checks.explain import WrongAnswer, describe
from llmc.course.old.checks.sums import wrong_sum

MOST, MANY = 5, 1 << 17  # axes and entries of an array whose axes are tried in every order
NEAR = 1e-2  # of the largest entry: numbers in another order are farther apart


def same_kind(name, got, expected, summed):
    """Type, shape and dtype."""
    if got is None:
        raise WrongAnswer(f"{name} is None: nothing was returned for it.")
    if not isinstance(got, (np.ndarray, np.generic, float, int)):
        raise WrongAnswer(f"{name} should be a NumPy array, but is {describe(got)}.")
    if np.shape(got) != expected.shape:
        place = causes.place(got)
        if place is not None:
            asked = "two names exchanged" if place.startswith('"') else "the results in another order"
            order = f"what you return for it belongs in {place}: are {asked}?"
            raise WrongAnswer(f"{name} has shape {np.shape(got)}, expected {expected.shape}: {order}")
        why = None if summed is None else wrong_sum(name, got, expected, summed)
        raise WrongAnswer(_shape_sentence(name, np.asarray(got), expected) + (f"\n{why}." if why else ""))
    if isinstance(got, (np.ndarray, np.generic)) and got.dtype != expected.dtype:
        wide = got.dtype == np.float64
        why = wide and (causes.why_wide(got) or text.asks_for_float64(evidence.learners_function()))
        why = f". {why}" if why else ": an array made without dtype= is float64." if wide else "."
        raise WrongAnswer(f"{name} has dtype {got.dtype}, expected {expected.dtype}{why}")


def _shape_sentence(name, got, expected):
    """Shape mismatch, with its cause where it shows."""
    sentence = f"{name} has shape {got.shape}, expected {expected.shape}."
    if got.ndim == 0 and expected.size > 1:
        over = next((word for word in ("sum", "mean") if _alike(expected, got, word)), None)
        return f"{sentence} It is one number{f', the {over} of all that is expected' * bool(over)}."
    if got.shape == (*expected.shape, 1):
        take = ": take [..., 0]" * (expected.ndim > 0 and _alike(got[..., 0], expected, "view"))
        return f"{sentence} The last axis has length 1 and is too much{take}."
    if expected.ndim == got.ndim and got.shape == expected.shape[::-1]:
        return sentence + (" It is transposed." if _alike(got, expected, "transpose") else " Its axes are exchanged.")
    if got.shape == 2 * expected.shape:
        return sentence + " Every position was paired with every other."
    if got.size == expected.size:
        squeezed = [n for n in expected.shape if n != 1] == [n for n in got.shape if n != 1]
        if squeezed:
            lost = "is missing" if got.ndim < expected.ndim else "is left over or out of place"
            return f"{sentence} An axis of length 1 {lost}."
        in_order = sorted(got.shape) == sorted(expected.shape)
        return f"{sentence} {_other_order(got, expected) if in_order else _as_many(got, expected)}"
    lead = got.ndim - expected.ndim
    if lead > 0 and got.shape[lead:] == expected.shape:
        return f"{sentence} {_not_reduced(got, expected, tuple(range(lead)))}"
    lacks = [k for k in range(expected.ndim) if got.shape == (*expected.shape[:k], *expected.shape[k + 1 :])]
    if lacks:
        return f"{sentence} {_missing(got, expected, lacks)}"
    return f"{sentence} {_axes_of_an_input(got.shape, expected.shape) or _counted(got.shape, expected.shape)}".rstrip()


def _as_many(got, expected) -> str:
    """What makes as many numbers in another shape right, where that was tried: a reshape, or a transpose before it."""
    if not {got.dtype.kind, expected.dtype.kind} <= {*"biuf"}:
        return "The number of entries is right."
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    right = partial(np.allclose, b=expected, rtol=0, atol=NEAR * largest, equal_nan=True)
    as_it_is = tuple(range(got.ndim))
    for axes in permutations(as_it_is) if got.ndim <= MOST and got.size <= MANY else (as_it_is,):
        if right(got.transpose(axes).reshape(expected.shape)):
            first = f"move its axes first, `.transpose({', '.join(map(str, axes))})`, then reshape"
            return f"The number of entries is right: {'reshape it back' if axes == as_it_is else first}."
    return "The number of entries is right, but a reshape alone does not make it right."


def _not_reduced(got, expected, axes) -> str:
    """What is left to be done with these axes in front: a sum or a mean, if one of them gives what is expected."""
    over, them = ("axis ", "it") if len(axes) == 1 else ("axes ", "them")
    has = f"It still has one value for each index of {over}{' and '.join(map(str, axes))}"
    for word, advice in (("sum", "sum"), ("mean", "take the mean")):
        if _alike(got, expected, word, axes):
            return f"{has}: {advice} over {them}."
    return f"{has}."


def _missing(got, expected, axes) -> str:
    """What became of the axis that `got` lacks, one of these, as far as its numbers show that."""
    for axis in axes:
        missing = f"Axis {axis} of what is expected is missing"
        for k in range(expected.shape[axis]):
            if _alike(expected, got, "take", k, axis):
                return f"{missing}: what came belongs at index {k} of it."
        for word in ("sum", "mean"):
            if _alike(expected, got, word, axis):
                return f"{missing}: what came is the {word} over it."
    return f"Axis {' or '.join(map(str, axes))} of what is expected is missing."


def _alike(large, small, method, *arguments) -> bool:
    """Is large.method(*arguments) small, but for rounding?"""
    if not large.size or any(array.dtype.kind not in "fiu" for array in (large, small)):
        return False
    made = getattr(large, method)(*arguments)
    return np.shape(made) == small.shape and same(made, small)


def _other_order(got, expected) -> str:
    """Which axes are out of place, what puts them right, and what reversed all of them."""
    shape, wanted = got.shape, expected.shape
    orders = permutations(range(got.ndim)) if got.ndim <= MOST and got.size <= MANY else ()
    right = [axes for axes in orders if _alike(got, expected, "transpose", axes)]
    order = right[0] if right else [shape.index(n) for n in wanted] if len(set(wanted)) == len(wanted) else []
    if not order:
        return "Its axes are in another order."
    moved = [k for k, axis in enumerate(order) if axis != k]
    if len(moved) == 2:
        said, missing = f"Its axes {moved[0]} and {moved[1]} are exchanged", f".swapaxes({moved[0]}, {moved[1]})"
    else:
        said, missing = "Its axes are in another order", f".transpose({', '.join(map(str, order))})"
    reversing = causes.reversed_axes()
    if reversing:  # to turn them back would be wrong for other numbers of axes
        return f"{said}. {reversing} reverses the order of ALL axes, not only of two, where there are more."
    return f"{said}: `{missing}` is missing, or one is too many." if right else f"{said}."


def _axes_of_an_input(shape, wanted) -> str:
    """A sentence if it is the shape of an input without one of its axes, and perhaps the wanted one without another."""
    for name, value in evidence.inputs().items():
        found = {}
        for axis in range(np.ndim(value) if isinstance(value, np.ndarray) else 0):
            found.setdefault((*value.shape[:axis], *value.shape[axis + 1 :]), axis)
        if shape in found:
            ours = f"; expected are those without axis {found[wanted]}" if wanted in found else ""
            return f"These are the axes of {name} {value.shape} without axis {found[shape]}{ours}."
    return ""


def _counted(shape, wanted) -> str:
    """A sentence if it is as long as the largest number of an input says, and should be longer."""
    longer = [(n, m) for n, m in zip(shape, wanted) if n != m] if len(shape) == len(wanted) else []
    for name, value in evidence.inputs().items():
        whole = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size
        if whole and longer and all(n == value.max() + 1 < m for n, m in longer):
            return f"{value.max()} is the largest number in {name} here; there may be larger ones."
    return ""
