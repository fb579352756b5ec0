"""Results kept by address, shape or size: other numbers in the same memory, and the same results come out.

A check makes new arrays for every call, and memory that was freed is used again: so such a function is wrong now and
then, and seems to be wrong for any other reason. Here it is called on one array whose numbers change in between.
"""

import ast
import copy
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from llmc.course.old.mutants.replay import ORDINALS, arrays_in, outputs_of

CLEARLY = 1e-3  # of the largest right value: a smaller change of the right results shows nothing
KEEPS = (dict, list, set)
COMPUTED = "it keeps what it has computed for an array, by its address or its size, though its numbers change"


def stale(function, solution, answer, replay) -> str | None:
    """A sentence if the learner's function gives an earlier result for new numbers in the same array; else None.

    answer(): the learner's function as a program, without what its calls have left so far; None if that cannot be
    made. replay: a call of it.
    """
    named = list(replay.named(function).items())
    for at, (name, value) in enumerate(named):
        floats = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 2
        if floats and at < len(replay.arguments) and _given(replay, function, at):
            with suppress(Exception):  # such a call stops
                same = _same_for_others(function, solution, replay, at)
                program = answer() if same else None
                if program and not _ignores(program, replay, at, same):
                    again = (
                        f"your function gives {_named(same, replay)} again when other numbers are written into `{name}`"
                    )
                    return f"{again}: {COMPUTED}"
    return None


def right_at_first(function, solution, answer, replay) -> str | None:
    """A sentence if the learner's function is right for other numbers in an array, but not after this call; or None.

    What it keeps may be a part of its result, or an order of rows. Arguments as those of `stale`.
    """
    for at, (name, value) in enumerate(replay.named(function).items()):
        array = isinstance(value, np.ndarray) and value.dtype.kind in "fiu" and value.size > 2
        program = answer() if array and at < len(replay.arguments) and _given(replay, function, at) else None
        if not (program and _may_keep(program)):
            continue
        with suppress(Exception):  # such a call stops
            right, first = (_for_others(each, replay, at) for each in (solution, _forgetful(program)))
            second = _for_others(_forgetful(program), replay, at, again=True)
            if not any(map(far, right, first)) and any(map(far, right, second)):
                told = f"for other numbers in `{name}`, your function is right in a first call, and wrong in a second"
                return f"{told}: {COMPUTED}"
    return None


def _may_keep(answer) -> bool:
    """Has it a place for results, in a global or in a default argument?"""
    defaults = [each for node in ast.walk(answer.tree) if isinstance(node, ast.arguments) for each in node.defaults]
    places = any(isinstance(each, ast.Dict | ast.List | ast.Set | ast.Call) for each in defaults)
    return places or any(type(value) in KEEPS for value in answer.before.values())


def _for_others(function, replay, at, again=False) -> list:
    """What it gives for other numbers in this argument. again: after the call with the old numbers."""
    arguments, options = copy.deepcopy((replay.arguments, replay.options))
    if again:
        function(*arguments, **options)
        for array, before in zip(arguments, replay.arguments):
            if isinstance(array, np.ndarray):
                array[...] = before
    arguments[at][...] = _other_numbers(arguments[at])
    return outputs_of(function(*arguments, **options), _without(arguments, at), options)


def _forgetful(answer):
    """The learner's function without what its calls have left."""
    forgot = {name: _empty(value) for name, value in answer.before.items()}
    return replace(answer, before=forgot).function(time.thread_time() + answer.seconds)


def _named(same, replay) -> str:
    """ "the second of its results" if that alone is the same, of several that the function returns."""
    returned = len(replay.outputs) - len(arrays_in((replay.arguments, replay.options)))
    alone = len(same) == 1 and same[0] < min(returned, len(ORDINALS)) and returned > 1
    return f"the {ORDINALS[same[0]]} of its results" if alone else "a result"


def _given(replay, function, at) -> bool:
    """Is that argument an input, which the call has not changed?"""
    arrays = [k for k, value in enumerate(replay.arguments) if isinstance(value, np.ndarray)]
    if not replay.outputs or at not in arrays or len(arrays) > len(replay.outputs):
        return False
    after = replay.outputs[len(replay.outputs) - len(arrays) + arrays.index(at)]
    return np.array_equal(after, replay.arguments[at], equal_nan=True)


def _same_for_others(function, solution, replay, at) -> list[int]:
    """Which outputs does it give again, although it should not, once this argument holds other numbers?"""
    arguments, options = copy.deepcopy((replay.arguments, replay.options))
    others = [k for k, value in enumerate(arguments) if isinstance(value, np.ndarray) and k != at]
    before = {k: arguments[k].copy() for k in others}
    inputs = [k for k in (at, *others) if not any(replay.buffers[k : k + 1])]

    def call(f, given, locked=()):
        for k in others:
            given[k][...] = before[k]
        with _read_only([given[k] for k in locked]):
            result = f(*given, **options)
        return [np.array(array) for array in outputs_of(result, _without(given, at), options)]

    def theirs():
        with suppress(Exception):
            return call(function, arguments, inputs)
        return call(function, arguments)  # it takes no read-only arrays

    first = theirs()
    arguments[at][...] = _other_numbers(arguments[at])
    again = theirs()
    right = call(solution, copy.deepcopy(arguments))
    arguments[at][...] = replay.arguments[at]
    right_before = call(solution, copy.deepcopy(arguments))
    changes = [k for k, (one, other) in enumerate(zip(right_before, right)) if far(one, other)]
    same = [k for k in changes if np.array_equal(first[k], again[k], equal_nan=True)]
    return [k for k in same if np.size(first[k]) > 2 or _is_a_float(first[k])]


@contextmanager
def _read_only(arrays):
    """As in the check's calls: for arrays that can be written, Numba would compile the function once more."""
    for array in arrays:
        array.flags.writeable = False
    try:
        yield
    finally:
        for array in arrays:
            array.flags.writeable = True


def _ignores(answer, replay, at, outputs) -> bool:
    """Does a fresh copy of the function give the same for other numbers, too? Then it does not read them."""
    results, alive = [], []  # alive: so that no memory is used twice
    for numbers in (replay.arguments[at], _other_numbers(replay.arguments[at])):
        arguments, options = copy.deepcopy((replay.arguments, replay.options))
        arguments[at][...] = numbers
        alive.append(arguments)
        results.append(outputs_of(_forgetful(answer)(*arguments, **options), _without(arguments, at), options))
    one, other = results
    return any(np.array_equal(one[k], other[k], equal_nan=True) for k in outputs)


def _empty(value):
    """What a function may keep results in, with nothing in it."""
    return type(value)() if type(value) in KEEPS else value


def _without(arguments, at):
    return [value for k, value in enumerate(arguments) if k != at]


def _other_numbers(array):
    """Of nearly the same size, in other places."""
    turned = np.roll(array.ravel(), 1).reshape(array.shape)
    return turned * array.dtype.type(0.75) if array.dtype.kind == "f" else turned


def _is_a_float(array) -> bool:
    """Is it a single number that is hardly the same by chance? A result of 0 may be."""
    return array.ndim == 0 and array.dtype.kind == "f" and array != 0


def far(one, other) -> bool:
    """Do two arrays, or numbers, differ clearly in what is finite in both?"""
    if np.shape(one) != np.shape(other):
        return True
    finite = np.isfinite(one) & np.isfinite(other)
    return bool(np.abs(one - other)[finite].max(initial=0) > CLEARLY * np.abs(one)[finite].max(initial=0))
