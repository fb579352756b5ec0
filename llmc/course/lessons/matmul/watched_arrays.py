"""Lesson 03: arrays that notice when they are multiplied as matrices, whatever the code calls the product.

A function runs on such arrays, which are small. Code can hide a name (`getattr`), but not what happens to its arrays.
"""

import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from llmc.course.old.checks.protection import refuses_read_only

NAMES = {"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot", "multi_dot", "linalg", "blas"}
NAMES |= {"__matmul__", "__rmatmul__", "__imatmul__", "matrix", "asmatrix"}
OPTIMIZE = "einsum with optimize="
COPIES = ("array", "asarray", "ascontiguousarray", "asfortranarray", "require")  # they would forget who watches
SMALL, LARGER = (6, 7, 5), (68, 66, 70)  # N, C_in, C_out


class _Product(Exception):
    """Two watched arrays are about to be multiplied as matrices; the message is the name of the product."""


class _Watched(np.ndarray):
    """An array that raises _Product instead of being multiplied by BLAS; what is computed from it is watched, too."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if ufunc.__name__ in NAMES:
            raise _Product("@, or np." + ufunc.__name__)
        if out is not None:
            options["out"] = tuple(None if array is None else _plain(array) for array in out)
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return result.view(_Watched) if isinstance(result, np.ndarray) else result

    def __array_function__(self, function, types, arguments, options):
        if function.__name__ in NAMES:
            raise _Product("np." + function.__name__)
        if options.get("optimize"):
            raise _Product(OPTIMIZE)
        return super().__array_function__(function, types, arguments, options)

    def dot(self, *arguments, **options):
        raise _Product("dot")


def _plain(value):
    """A watched array as an ordinary one, on the same memory; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, _Watched) else value


def product_when_run(function, larger=False):
    """(what `function(out, x, w, b)` multiplies its arrays with, or None; did it run to its end?).

    larger: run it on larger arrays as well, where it may do something else.
    """
    finished = True
    for N, C_in, C_out in (SMALL, LARGER)[: 1 + larger]:
        shapes = [(N, C_out), (N, C_in), (C_out, C_in), (C_out,)]  # out, x, w, b
        try:
            with _watching():
                _run(function, shapes)
        except _Product as product:
            return str(product), True
        except Exception:  # a mistake of another kind, which the calls of the check explain
            finished = False
    return None, finished


def _run(function, shapes, locked=True):
    """One call. locked: with inputs that cannot be written to, as in c.call, so that kernels are compiled once."""
    arrays = [np.ones(shape, np.float32).view(_Watched) for shape in shapes]
    for array in arrays[1:]:
        array.flags.writeable = not locked
    try:
        function(*arrays)
    except Exception as error:
        if not (locked and refuses_read_only(error)):
            raise
        _run(function, shapes, locked=False)


@contextmanager
def _watching():
    """Copies of watched arrays are watched, kernels take them, and a product of arrays that are not raises, too."""
    _known_to_numba()
    previous = sys.getprofile()
    with patch.multiple(np, **{name: _still_watched(getattr(np, name)) for name in COPIES}):
        sys.setprofile(_no_product)
        try:
            yield
        finally:
            sys.setprofile(previous)


def _still_watched(copy):
    def copied(value, *arguments, **options):
        result = copy(value, *arguments, **options)
        return result.view(_Watched) if isinstance(value, _Watched) else result

    return copied


def _no_product(frame, event, called):
    """Raise _Product when a method or an operator written in C multiplies arrays."""
    if event == "c_call" and called.__name__ in NAMES:
        if isinstance(called.__self__, np.ndarray) or called.__module__ == "_operator":
            raise _Product(called.__name__)


def _known_to_numba():
    """To a kernel a watched array is an array. What it does with it, reading its code has told."""
    if "numba" in sys.modules:
        from numba.extending import typeof_impl

        if _Watched not in typeof_impl.registry:
            typeof_impl.register(_Watched)(lambda array, context: typeof_impl(_plain(array), context))
