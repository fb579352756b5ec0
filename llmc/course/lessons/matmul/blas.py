"""Lesson 03: does a function multiply matrices with BLAS, under whatever name?

First its code is read, and that of its helpers: what a name stands for decides, not how it is spelled. Where reading
cannot tell (`x.dot`, when x may be the learner's own object), running it can: `watched_arrays.py`.
"""

import dis
import sys
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

from llmc.course.lessons.matmul.watched_arrays import NAMES, OPTIMIZE, product_when_run

LIBRARIES = {"torch", "jax", "tensorflow", "cupy"}  # their products are BLAS's, or the GPU's
ROUTINE = ("cblas_", "sgemm", "dgemm", "sgemv", "dgemv", "sdot", "ddot")  # how BLAS's own functions are called


def uses_blas(function):
    """The operator, name or option by which this function, or one that it calls, uses BLAS: "@", "dot"; or None."""
    certain, possible = _in_code(function)
    if certain:
        return certain
    product, finished = product_when_run(function, larger=possible is not None)
    return product or (None if finished else possible)


def _in_code(function):
    """(the first certain use of BLAS, the first possible one) in this function and its helpers; None where none is."""
    seen, todo, possible = set(), [function], None
    while todo:
        function = todo.pop()
        if isinstance(function, type) and _is_own(function):
            todo += vars(function).values()
        kernel = hasattr(function, "py_func")  # numba.njit wrapped it: its arrays are arrays, whatever they are called
        function = getattr(function, "py_func", function)
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        defaults = function.__defaults__ or ()
        if product := next(filter(_is_blas, defaults), None):
            return product.__name__, None
        outside = function.__globals__ | _closure(function)
        own = not kernel and any(hasattr(value, "__matmul__") and _is_own(value) for value in outside.values())
        for code in _nested(function.__code__):
            certain, maybe = _blas_in(code, outside, own)
            if certain or maybe and kernel:
                return certain or maybe, None
            possible = possible or maybe
            todo += [outside[step.argval] for step in dis.get_instructions(code) if _is_from_outside(step, outside)]
        todo += defaults
    return None, possible


def _is_own(thing) -> bool:
    """Is it a class that the learner wrote?"""
    where = str(getattr(thing, "__module__", "")).partition(".")[0]
    return isinstance(thing, type) and (where == "__main__" or where not in sys.modules)


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


def _blas_in(code, outside, own):
    """(a certain use of BLAS, a possible one) in this code object: the first operator, name or option, or None.

    outside: its globals and closure. own: does a class of the learner's define what @ does?
    """
    owner = None  # what the step before loaded from outside
    possible = next(_words_in(code), None)
    for step in dis.get_instructions(code):
        if step.opname == "BINARY_OP" and step.argrepr in ("@", "@="):
            if not own:
                return "@", None
            possible = possible or "@"
        elif step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            known, owner = owner is not None, getattr(owner, step.argval, None)
            if _is_blas(owner):
                return step.argval, None
            if not known and step.argval in NAMES:
                possible = possible or step.argval
        elif _is_from_outside(step, outside):
            owner = outside[step.argval]
            if _is_blas(owner):
                name = getattr(owner, "__name__", step.argval)
                return f"{step.argval}, another name of {name}" if name in NAMES - {step.argval} else step.argval, None
        elif step.opname.startswith(("IMPORT_", "LOAD_CONST")) and _names_a_module(step.argval):
            return step.argval, None
        else:
            owner = None
    return None, possible


def _is_from_outside(step, outside) -> bool:
    """Does it load something that was not made here? An attribute of that name is something else."""
    return step.opname.startswith(("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")) and step.argval in outside


def _names_a_module(name) -> bool:
    """ "scipy.linalg.blas", "torch", but no single word of another meaning, such as "dot"."""
    parts = name.split(".") if isinstance(name, str) else [""]
    return parts[0] in LIBRARIES or bool({"linalg", "blas"} & set(parts)) and " " not in name


def _words_in(code):
    """Names of BLAS's products among its texts and among the names of keyword arguments, which come as a tuple."""
    for constant in code.co_consts:
        words = constant if isinstance(constant, tuple) else (constant,)
        if "optimize" in words:
            yield OPTIMIZE
        yield from (f'"{word}"' for word in words if isinstance(word, str) and word in NAMES)


def _is_blas(thing) -> bool:
    """Is this a product of NumPy or another library, or a module of them? A function of the learner's own never is."""
    name = str(getattr(thing, "__name__", ""))
    if isinstance(thing, ModuleType):
        return name.partition(".")[0] in LIBRARIES or name.rpartition(".")[2] in NAMES
    library = str(getattr(thing, "__module__", None)).partition(".")[0] in ("numpy", "scipy")
    own = isinstance(getattr(thing, "py_func", thing), FunctionType | type) and not library
    routine = not own and name.startswith(ROUTINE) or type(thing).__name__ == "fortran"  # SciPy's door to BLAS
    return callable(thing) and not own and (name in NAMES or routine)
