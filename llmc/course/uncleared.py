"""np.empty makes an array whose numbers nobody has set. While a check calls an answer, they are conspicuous ones.

Fresh memory is mostly zero, so an answer that leaves out a part of such an array would be right by chance.
"""

from contextlib import contextmanager
from functools import wraps

import numpy as np

from llmc.course.compilation import paused_while_compiling

GARBAGE = 123456.0  # what np.empty's arrays hold
MAKERS = ("empty", "empty_like")


def garbage(dtype):
    """GARBAGE, or the largest number of this dtype if that is less; None for dtypes without numbers, or not NumPy's."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiu" or dtype.isbuiltin != 1:
        return None
    largest = (np.finfo if dtype.kind == "f" else np.iinfo)(dtype).max
    return dtype.type(min(GARBAGE, float(largest)))  # compared in float16, GARBAGE would be infinite


def _marking(maker):
    @wraps(maker)
    def make(*arguments, **options):
        array = maker(*arguments, **options)
        number = garbage(array.dtype)
        if number is not None:
            array.fill(number)
        return array

    return make


THEIRS = {name: getattr(np, name) for name in MAKERS}
MARKING = {name: _marking(maker) for name, maker in THEIRS.items()}


def _set(makers=THEIRS):
    """Give np these makers; return those that it had."""
    were = {name: getattr(np, name) for name in MAKERS}
    for name, maker in makers.items():
        setattr(np, name, maker)
    return were


@contextmanager
def marked():
    """Inside the block, np.empty and np.empty_like fill arrays with GARBAGE, except in code that Numba compiles."""
    if np.empty is not THEIRS["empty"]:
        yield
        return
    _set(MARKING)
    try:
        with paused_while_compiling(_set, _set):  # Numba knows only NumPy's own functions
            yield
    finally:
        _set()
