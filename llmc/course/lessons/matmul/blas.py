"""Lesson 03: does a call multiply matrices with BLAS, under whatever name?

The function's code is read, and that of its helpers: what a name stands for decides, not how it is spelled. Then it
runs once more while NumPy's products stop it: code can hide a name (`getattr`), but not what it does.
"""

import dis
import sys
from functools import partial
from itertools import product
from types import CodeType, FunctionType, ModuleType
from unittest.mock import Mock, patch

import numpy as np

from llmc.course.checks.guards.inputs import read_only
from llmc.course.checks.guards.isolation import is_foreign

PRODUCTS = {"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot", "multi_dot"}
PRODUCTS |= {"matrix", "asmatrix", "bmat"}  # whose * is one
LIBRARIES = {"torch", "jax", "tensorflow", "cupy", "linalg", "blas"}  # parts of names of modules
ATTRIBUTE, OUTSIDE = ("LOAD_ATTR", "LOAD_METHOD"), ("LOAD_GLOBAL", "LOAD_NAME")


def blas_in(function, *arguments):
    """The operator, name or option by which function(out, x, w, b) uses BLAS, "@" or "dot"; None if it does not."""
    seen, todo, found, own = set(), [function], [], False  # own: does a class of the learner's define what @ does?
    while todo:
        each = todo.pop()
        plain = getattr(each, "py_func", each)  # of what Numba compiled
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(plain, FunctionType) and not is_foreign(plain.__code__.co_filename):
            found += _in_code(plain, kernel=plain is not each)
            todo += [plain.__globals__.get(step.argval) for step in _steps(plain.__code__) if step.opname in OUTSIDE]
            todo += [cell.cell_contents for cell in plain.__closure__ or ()] + [*(plain.__defaults__ or ())]
        elif isinstance(each, type):
            todo += [part for part in vars(each).values() if isinstance(part, FunctionType)]
            own = own or isinstance(vars(each).get("__matmul__"), FunctionType)
        elif isinstance(each, list | tuple | dict | partial):
            todo += [each.func] if isinstance(each, partial) else each.values() if isinstance(each, dict) else each
        found += _in_library(each, in_python=isinstance(plain, FunctionType | type))
    return next((name for name in found if name != "@" or not own), None) or _stopped_by(function, arguments)


def _steps(code):
    """The instructions of this code object, and of functions and comprehensions defined in it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _steps(constant)


def _in_code(function, kernel):
    """What the code names of BLAS. kernel: all of its arrays are NumPy's, whatever they are called."""
    for step in _steps(function.__code__):
        words = {*step.argval.split(".")} if isinstance(step.argval, str) else set()
        library = words & LIBRARIES and step.opname in (*ATTRIBUTE, "IMPORT_NAME", "LOAD_CONST")
        if library or kernel and words & PRODUCTS and step.opname in ATTRIBUTE:
            yield step.argval
        elif step.opname == "BINARY_OP" and step.argrepr in ("@", "@="):
            yield "@ in a kernel" if kernel else "@"


def _in_library(thing, in_python):
    """The library's name for this, if it is one of its products, or a module of them."""
    name = str(getattr(thing, "__name__", ""))
    module = name if isinstance(thing, ModuleType) else str(getattr(thing, "__module__", ""))
    named = name in PRODUCTS and (module.startswith("numpy") or not in_python)
    if named or LIBRARIES & {*module.split(".")} or type(thing).__name__ == "fortran":  # SciPy's door to BLAS
        yield name


class _Product(Exception):
    """Two arrays are about to be multiplied as matrices; the message is the name of the product."""


class _Watched(np.ndarray):
    """An array whose @ stops, as does that of what is computed from it."""

    __matmul__ = __rmatmul__ = __imatmul__ = Mock(side_effect=_Product("@"))


def _stopped_by(function, arguments):
    """The product that stops this call; None if it runs to its end, or stops for another reason."""
    stops = {name: Mock(side_effect=_Product(name)) for name in PRODUCTS if hasattr(np, name)}
    previous, (out, *inputs) = sys.getprofile(), arguments
    for kind, made in product((_Watched, np.ndarray), (read_only, np.copy)):
        try:
            with patch.multiple(np, **stops):
                sys.setprofile(_no_product)
                function(out.copy(), *(made(array).view(kind) for array in inputs))
            return None
        except _Product as stopped:
            return str(stopped)
        except Exception:  # some kernels take no read-only arrays, none takes watched ones
            continue
        finally:
            sys.setprofile(previous)


def _no_product(frame, event, called):
    """For a profiler: raise _Product where a method, or an operator in C, multiplies arrays."""
    if event == "call" and frame.f_code.co_name == "einsum_path":
        raise _Product("einsum with optimize=")
    if event == "c_call" and called.__name__ in PRODUCTS:
        if isinstance(getattr(called, "__self__", None), np.ndarray) or called.__module__ == "_operator":
            raise _Product(called.__name__)
