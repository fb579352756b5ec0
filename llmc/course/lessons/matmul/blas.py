"""Lesson 03: does a function multiply matrices with BLAS, under whatever name?

First its code is read, and that of its helpers: what a name stands for decides, not how it is spelled. Then it runs on
arrays that notice a product, because code can hide a name (`getattr`), but not that its arrays are multiplied.
"""

import dis
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

import numpy as np

NAMES = {"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot", "multi_dot", "linalg", "blas"}
NAMES |= {"__matmul__", "__rmatmul__", "__imatmul__", "matrix", "asmatrix"}
LIBRARIES = {"torch", "jax", "tensorflow", "cupy"}  # their products are BLAS's, or the GPU's
OPTIMIZE = "einsum with optimize="


def uses_blas(function):
    """The operator, name or option by which this function, or one that it calls, uses BLAS: "@", "dot"; or None."""
    return _in_code(function) or _when_run(function)


# ------------------------------------------------------------------------------------------------ reading the code


def _in_code(function):
    """The first use of BLAS in the code of this function and of its helpers, or None."""
    seen, todo = set(), [function]
    while todo:
        function = todo.pop()
        function = getattr(function, "py_func", function)  # what numba.njit wrapped
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        outside = function.__globals__ | _closure(function)
        for code in _nested(function.__code__):
            if found := _blas_in(code, outside):
                return found
            todo += [outside[name] for name in (*code.co_names, *code.co_freevars) if name in outside]
        todo += function.__defaults__ or ()
    return None


def _closure(function) -> dict:
    """What the names of an enclosing function stand for in this one, as far as they stand for something already."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    return found


def _nested(code):
    """This code object, and those of functions and comprehensions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _blas_in(code, outside):
    """The first operator, name or option in this code object that is BLAS's. outside: its globals and closure."""
    owner = None  # what the step before loaded from outside
    for constant in code.co_consts:  # the names of keyword arguments come as a tuple
        words = constant if isinstance(constant, tuple) else (constant,)
        if "optimize" in words:
            return OPTIMIZE
        if named := next((word for word in words if isinstance(word, str) and word in NAMES), None):
            return f'"{named}"'
    for step in dis.get_instructions(code):
        if step.opname == "BINARY_OP" and step.argrepr in ("@", "@="):
            return "@"
        if step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            owner = getattr(owner, step.argval, None)
            if _is_blas(owner) or (owner is None and step.argval in NAMES):
                return step.argval
        elif step.opname.startswith(("LOAD_GLOBAL", "LOAD_DEREF")):
            owner = outside.get(step.argval)
            if _is_blas(owner):
                return step.argval
        elif step.opname.startswith("IMPORT_") and set(step.argval.split(".")) & (NAMES | LIBRARIES):
            return step.argval
        else:
            owner = None
    return None


def _is_blas(thing) -> bool:
    """Is this a product of NumPy or another library, or a module of them? A function of the learner's own never is."""
    if isinstance(thing, ModuleType):
        parts = thing.__name__.split(".")
        return parts[0] in LIBRARIES or parts[-1] in NAMES
    library = str(getattr(thing, "__module__", None)).partition(".")[0] in ("numpy", "scipy")
    own = isinstance(getattr(thing, "py_func", thing), FunctionType) and not library
    return callable(thing) and not own and getattr(thing, "__name__", None) in NAMES


# ------------------------------------------------------------------------------------------------------ running it


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


def _when_run(function):
    """What `function(out, x, w, b)` multiplies its arrays with, or None, also when it does not run on such arrays."""
    shapes = [(6, 5), (6, 7), (5, 7), (5,)]  # out (N, C_out), x (N, C_in), w (C_out, C_in), b (C_out,)
    arrays = [np.ones(shape, np.float32).view(_Watched) for shape in shapes]
    for array in arrays[1:]:
        array.flags.writeable = False  # as in c.call: what compiles its loops does it once
    try:
        function(*arrays)
    except _Product as product:
        return str(product)
    except Exception:  # a mistake of another kind, which the calls of the check explain
        return None
    return None
