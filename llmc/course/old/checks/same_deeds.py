"""What a call did: what it returned, and what it left in its arguments. Do two functions do the same in one call?"""

import copy
from dataclasses import dataclass

import numpy as np

from llmc.course.old.mutants.replay import Replay, arrays_in

ROUNDING = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2}  # relative to the largest entry


@dataclass
class Call:
    """did: what `done` gave when it was made; None if it stopped with an error."""

    replay: Replay
    did: object = None

    @classmethod
    def of(cls, arguments, options):
        """Of a call that is about to be made; None if it cannot be made again."""
        replay = Replay.of(arguments, options)
        return cls(replay) if replay else None


def done(function, call) -> tuple:
    """(what the function returns in this call, the arrays among its arguments afterwards)."""
    arguments, options = copy.deepcopy((call.replay.arguments, call.replay.options))
    return function(*arguments, **options), arrays_in((arguments, options))


def alike(one, other) -> bool:
    """Are these the same, but for rounding? A list is as good as a tuple, and a Python number as one of NumPy's."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if _is_number(one) and _is_number(other):
        return _near(np.asarray(one), np.asarray(other))
    return type(one) is type(other) and bool(one == other)


def _is_number(value) -> bool:
    return isinstance(value, np.ndarray | np.generic | int | float)


def _near(one, other) -> bool:
    arrays = one.ndim > 0 or other.ndim > 0
    if one.shape != other.shape or arrays and one.dtype != other.dtype:
        return False
    if one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub":  # bfloat16, text
        return np.array_equal(one, other)
    tolerance = max(ROUNDING.get(each.dtype.name, 0.0) for each in (one, other))
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)) or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return False
    mine, its = (each[finite].astype(np.float64) for each in (one, other))
    return bool((np.abs(mine - its) <= tolerance * np.abs(its).max(initial=0.0)).all())
