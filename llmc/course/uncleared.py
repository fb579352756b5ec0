"""np.empty makes an array whose numbers nobody has set. While a check calls an answer, they are ones that show.

Fresh memory is mostly zero, so an answer that leaves a part of such an array out would be right by chance.
"""

import sys
from contextlib import contextmanager
from functools import wraps

import numpy as np

GARBAGE = 123456.0  # what np.empty's arrays hold; no result of an exercise is as large
MAKERS = ("empty", "empty_like")


def garbage(dtype):
    """GARBAGE, or the largest number of this dtype if that is less; None for dtypes without numbers."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiu":
        return None
    largest = (np.finfo if dtype.kind == "f" else np.iinfo)(dtype).max
    return dtype.type(min(GARBAGE, largest))


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


def _set(makers):
    for name, maker in makers.items():
        setattr(np, name, maker)


@contextmanager
def marked():
    """Inside the block np.empty and np.empty_like fill their arrays with GARBAGE, but in code that Numba compiles."""
    if np.empty is not THEIRS["empty"]:
        yield
        return
    _set(MARKING)
    try:
        with _not_while_compiling():
            yield
    finally:
        _set(THEIRS)


@contextmanager
def _not_while_compiling():
    """Numba knows NumPy's own functions alone."""
    if "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    class Pause(event.Listener):
        def __init__(self):
            self.makers = []  # one function that compiles may need another

        def on_start(self, event):
            self.makers.append({name: getattr(np, name) for name in MAKERS})
            _set(THEIRS)

        def on_end(self, event):
            _set(self.makers.pop())

    with event.install_listener("numba:compile", Pause()):
        yield
