"""Arrays that a learner's function keeps from one call to the next: they take memory, but no later call makes them.

retained(fast_adamw_step)    -> {"`_scratch`": 16777216}   names of what holds arrays, and bytes
"""

import functools
import gc
import sys
import threading
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np

from llmc.course.checks.guards.isolation import is_foreign
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.own_names import learners_names

MANY = 100_000  # objects that are looked at
SIMPLE = (str, bytes, int, float, type(None), ModuleType, BuiltinFunctionType, np.generic)
CONTAINERS = (dict, list, tuple, set, frozenset, functools.partial, MethodType)
DEFAULT, ATTRIBUTE, CLOSURE = "a default argument", "an attribute of the function", "a variable around the function"


def retained(function) -> dict[str, int]:
    """What holds the arrays that the function, or a function that it calls, can reach; and how many bytes."""
    todo, seen, bytes_of = [("", function)], set(), {}
    with learners_names():
        while todo and len(seen) < MANY:
            root, value = todo.pop()
            value = getattr(value, "py_func", value)  # what Numba compiled
            if id(value) in seen or isinstance(value, SIMPLE):
                continue
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                owner = _owner(value)
                if owner is value or id(owner) not in seen:
                    seen.add(id(owner))
                    bytes_of[root] = bytes_of.get(root, 0) + owner.nbytes
                continue
            todo += [(root or name, part) for name, part in _parts(value)]
    return bytes_of


def retained_bytes(function) -> int:
    """All of them together."""
    return sum(retained(function).values())


def no_more_than(function, limit, allowed):
    """Raise WrongAnswer if a function keeps arrays of more bytes than `limit`. allowed: that, in the task's words."""
    if retained_bytes(function) > limit:
        kept = f"right, but {said_of_retained(function)}, and {allowed}: such arrays take memory, too"
        raise WrongAnswer(kept, Kind.DEMAND)


def said_of_retained(function) -> str:
    """ "it keeps 16.8 MB in `_scratch` from one call to the next", of what holds most."""
    found = retained(function)
    where = max(found, key=found.get, default="")
    return f"it keeps {found[where] / 1e6:.1f} MB in {where} from one call to the next" if where else ""


def _owner(array):
    """The array whose memory this is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _parts(value):
    """(name, object) of what a value leads to; nothing for what a library has defined."""
    if isinstance(value, FunctionType):
        if not _is_learners(value):
            return
        yield from (
            (f"`{name}`", value.__globals__[name]) for name in _names(value.__code__) if name in value.__globals__
        )
        yield from ((DEFAULT, each) for each in [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()])
        yield from ((CLOSURE, cell) for cell in value.__closure__ or ())
        yield ATTRIBUTE, value.__dict__
    elif isinstance(value, threading.local):
        yield "", vars(value)
    elif isinstance(value, CONTAINERS) or type(value).__name__ in ("cell", "_lru_cache_wrapper"):
        yield from (("", part) for part in gc.get_referents(value) if not isinstance(part, type))
    elif _is_learners(value) or _is_learners(type(value)):  # a class, or one of its objects
        yield from (("", part) for part in [*getattr(value, "__dict__", {}).values(), type(value)])


def _is_learners(thing) -> bool:
    """Was it written in a notebook, not in a library?"""
    if isinstance(thing, FunctionType):
        return not is_foreign(thing.__code__.co_filename)
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    file = getattr(module, "__file__", None) or ""
    return isinstance(thing, type) and thing.__module__ != "builtins" and not is_foreign(file)


def _names(code) -> set:
    """The names that code reads, also in functions inside of it."""
    inside = (_names(constant) for constant in code.co_consts if hasattr(constant, "co_code"))
    return {*code.co_names}.union(*inside)
