"""Why are there NaN or inf where numbers should be? Their pattern says what to look for."""

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.case import LIKE
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.overwritten import outputs_with_locked
from llmc.course.old.mutants.replay import Replay, arrays_in

MANY = 8  # different numbers, or places: fewer may be alike by chance
LARGEST = {"float16": 11, "float32": 88, "float64": 709}  # e to a larger power is inf


def why_not_finite(got, bad) -> str | None:
    """What their pattern shows, or None. got: the learner's array, in its own dtype; bad: where it should be finite."""
    if overflowed_softmax(got, bad) and _finite_when_small():
        dtype = got.dtype.name if got.dtype.name in LARGEST else "float64"
        limit = f"exp of more than {LARGEST[dtype]} is inf in {dtype}"
        return f"{limit}, inf/inf is NaN, and the rest of the row became 0: subtract each row's maximum before exp"
    if _in_16_bits(got) and len(at := np.flatnonzero(bad)) >= MANY and (at % 2 == 1).all():
        return "all of them at odd places, in the upper halves of words: is a sign or a bit in the wrong place?"
    return None


def _in_16_bits(got) -> bool:
    """Does an array of float32 hold bfloat16, which a kernel puts together from bits?"""
    numbers = np.unique(got[np.isfinite(got)])
    return got.dtype == np.float32 and numbers.size > MANY and not (numbers.view(np.uint32) & 0xFFFF).any()


def _finite_when_small() -> bool:
    """Is nothing but finite numbers made of the last call's numbers, once they are a thousandth? Then exp overflowed.

    Nobody knows outside of a check, and of a kernel: then it may be.
    """
    last, function = evidence.last_call(), evidence.learners_function()
    again = last and evidence.of_arrays() and Replay.of(last.arguments, last.options)
    if not again:
        return True
    for array in arrays_in((again.arguments, again.options)):
        if array.dtype.kind == "f":
            array *= 1e-3
    outputs = outcome(outputs_with_locked, function, again, [*last.buffers, *[False] * len(again.arguments)])
    return not isinstance(outputs, Exception) and all(np.isfinite(each).all() for each in outputs)


def overflowed_softmax(got, bad) -> bool:
    """In every bad row of (…, n) some entries are NaN and the others exactly 0, at least one of each somewhere."""
    if got.ndim == 0 or got.shape[-1] < 2:
        return False
    rows = got[bad.any(axis=-1)]  # (rows, n)
    nan, zero = np.isnan(rows), rows == 0
    return bool((nan | zero).all() and nan.any(axis=-1).all() and zero.any())


def not_finite_alike(got, array, expected) -> bool:
    """Are both NaN or infinite in the same places, where numbers are expected, and alike elsewhere?"""
    if array.shape != got.shape:
        return False
    lost = ~np.isfinite(got) & np.isfinite(expected)
    if not lost.any() or not np.array_equal(np.isfinite(array), np.isfinite(got)):
        return False
    finite = np.isfinite(got)
    if not finite.any():  # many mistakes make nothing but NaN
        return False
    return bool(np.abs(got[finite] - array[finite]).max() <= LIKE * np.abs(got[finite]).max())
