"""Which small change of the solution gives a learner's wrong numbers? The evidence is the numbers, not the code.

The failing call is made again with every mutant of the solution; one whose error is the learner's error, number by
number, names the mistake, however the learner wrote it.
"""

import time
import warnings
from contextlib import closing

import numpy as np

from llmc.course.mutants.python_source import mutants, pairs
from llmc.course.mutants.solution import solution_of

SECONDS = 2.0  # that a message may take
SHARE = {"float64": 1e-6, "float32": 1e-3}  # of the error that may remain unexplained
ROUNDING = {"float64": 1e-11, "float32": 2e-6}  # relative to the largest entry
FEW = 4  # wrong entries; fewer of them in float32 can agree with a mutant by chance


def recognised(exercise, replays, got, expected, start=0.0) -> str | None:
    """ "without the term `through_mean`": words that go on from "our solution gives it …"; None if nothing fits.

    replays: the check's last calls. got: the learner's array as the check compared it. expected: what it should be,
    without start, which it was to be added to; all of one shape.
    """
    solution = solution_of(exercise)
    if solution is None or np.shape(got) != np.shape(expected):
        return None
    deadline = time.thread_time() + SECONDS
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for replay in reversed(replays):
            pick = _where(replay, solution, got, expected, start)
            if pick is not None:
                return _matching(solution, replay, pick, np.asarray(got), expected + start, deadline)
    return None


def _where(replay, solution, got, expected, start):
    """A function from a call's outputs to what the check compared; None if this call did not make it."""
    try:
        outputs = replay.run(solution.function(time.thread_time() + SECONDS))
    except Exception:  # it is too slow without Numba, or needs what only the whole notebook makes
        return None
    for k, mine in enumerate(replay.outputs or ()):
        if isinstance(mine, np.ndarray) and isinstance(got, np.ndarray) and np.may_share_memory(mine, got):
            index = _index_of(mine, got)
            if index is not None:
                return lambda outputs: _viewed(outputs, k, mine, index)
    for k, output in enumerate(outputs):
        if np.shape(output) == np.shape(expected) and _close(output, expected + start, expected, "float32"):
            return lambda outputs: np.asarray(outputs[k], np.float64)
    return None


def _index_of(array, view):
    """Flat indices (in the order of array) of a view's entries; None when it is not made of array's own entries."""
    if view is array:
        return np.arange(array.size).reshape(array.shape)
    if not array.flags.c_contiguous or array.dtype != view.dtype or not view.size:
        return None
    start = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    index = np.full(view.shape, start, np.int64)
    for axis, (length, stride) in enumerate(zip(view.shape, view.strides)):
        index += (np.arange(length) * stride).reshape(-1, *[1] * (view.ndim - axis - 1))
    index, rest = np.divmod(index, array.itemsize)
    return index if not rest.any() and 0 <= index.min() and index.max() < array.size else None


def _viewed(outputs, k, mine, index):
    output = outputs[k]
    if np.shape(output) != mine.shape:
        raise ValueError("another shape")
    return np.asarray(output, np.float64).reshape(-1)[index]


def _matching(solution, replay, pick, got, target, deadline):
    """Words of the first mutant with the learner's numbers; pairs of mistakes come last."""
    got, target = got.astype(np.float64), np.asarray(target, np.float64)
    dtype = "float32" if any(getattr(a, "dtype", None) == np.float32 for a in replay.outputs or ()) else "float64"
    for several in (mutants, pairs):
        with closing(several(solution.tree)) as found:  # which makes the tree whole again
            for words in found:
                if time.thread_time() > deadline:
                    return None
                try:
                    array = pick(replay.run(solution.function(deadline)))
                except Exception:  # most mutants stop with one: a shape that does not fit, a name without a value
                    continue
                if np.shape(array) == got.shape and _explains(array, got, target, dtype):
                    return words
    return None


def _explains(array, got, target, dtype) -> bool:
    """Is the error of `got` the error of `array`, except for a small share?"""
    if not (np.isfinite(array) == np.isfinite(got)).all():
        return False
    finite = np.isfinite(got) & np.isfinite(target)
    error, largest = np.abs(array - target)[finite], np.abs(target[finite])
    if not finite.any():
        return False
    rounding = ROUNDING[dtype] * largest.max()
    if error.max() <= 20 * rounding or dtype == "float32" and (error > 20 * rounding).sum() < FEW:
        return False
    return np.abs(array - got)[finite].max() <= SHARE[dtype] * error.max() + rounding


def _close(array, target, size, dtype) -> bool:
    array, target = np.asarray(array, np.float64), np.asarray(target, np.float64)
    allowed = 100 * ROUNDING[dtype] * max(np.abs(size).max(initial=0.0), np.abs(target).max(initial=0.0))
    return bool(np.allclose(array, target, rtol=0, atol=allowed, equal_nan=True))
