"""Does the same call give something else after other calls? Then a learner's function keeps something: where?

It looks at results of any kind, arrays, lists or text, and at functions that cannot be defined anew, because they say
`global` or use an object that a line of the notebook has made.
"""

import copy
import pickle
import random
import time
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

import numpy as np

from llmc.course.old.checks.leftovers import KEEPS
from llmc.course.old.checks.same_deeds import Call, alike, done
from llmc.course.own_names import learners_names

SECONDS = 0.3  # of processor time for the calls in either order
NOT_KEPT = (ModuleType, FunctionType, type, random.Random, np.random.Generator, np.random.RandomState)
WHERE = {"global": "in the global `{}`", "attribute": "in `{}`"}


def what_remains(function, replays) -> str | None:
    """A sentence if these calls, made again in the other order, give something else, or None."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        return None
    with suppress(Exception), learners_names():
        states = [_state(function)]
        forwards = _results(function, [*enumerate(replays)], states)
        backwards = _results(function, [(k, replays[k]) for k in reversed(forwards)], states)
        changed = [place for place in states[0] if any(place in s and s[place] != states[0][place] for s in states[1:])]
        if changed and any(not alike(backwards[k], forwards[k]) for k in backwards):
            where = " and ".join(WHERE[kind].format(name) for kind, name in changed)
            return f"The same call gives something else after other calls: {KEEPS}, {where}."
    return None


def _results(function, numbered, states) -> dict:
    """{number: what that call does}, in this order, as far as the time allows. states: a list for that after each."""
    found, end = {}, time.thread_time() + SECONDS
    for k, replay in numbered:
        if time.thread_time() > end:
            break
        with suppress(Exception):  # one of them may have stopped the check
            found[k] = copy.deepcopy(done(function, Call(replay)))
        states.append(_state(function))
    return found


def _state(function) -> dict:
    """{(kind, name): what it holds now} of what outlasts a call; a default argument shows where it is defined anew."""
    found = {("global", name): value for name, value in _globals(function, set()).items()}
    found |= {("attribute", f"{function.__name__}.{name}"): value for name, value in vars(function).items()}
    return {place: held for place, value in found.items() if (held := _held(value)) is not None}


def _globals(function, seen) -> dict:
    """{name: value} of the data that it reads or sets, and the functions of the same notebook that it calls."""
    if function.__code__ in seen:
        return {}
    seen.add(function.__code__)
    found = {}
    for name in names_read(function.__code__):
        value = function.__globals__.get(name)
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            found |= _globals(value, seen)
        elif name in function.__globals__ and not isinstance(value, NOT_KEPT):
            found[name] = value
    return found


def names_read(code) -> set:
    """The global names and attributes that this code, and that of the functions inside of it, looks up."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(names_read, inner))


def _held(value):
    """What tells whether an object is as it was; None where nothing does."""
    with suppress(Exception):
        return pickle.dumps(value)
    with suppress(Exception):
        return pickle.dumps(value.getstate())  # a decoder that goes on from part to part
    with suppress(Exception):
        return repr(sorted(vars(value).items()))
    return None
