"""State that a function keeps between calls, in a global, a default argument or an attribute."""

import ast
import copy
from contextlib import suppress

import numpy as np

from llmc.course.checks.calls import alike, outputs_of
from llmc.course.mutation.program import program_of, solution_of
from llmc.course.own_names import learners_names

CLEARLY = 1e-3  # of the largest number: what differs by less may be rounding
KEEPS = (dict, list, set)
COMPUTED = "it keeps what it has computed for an array, by the array's address or size, though the numbers change"


def after_success(check) -> str:
    """A sentence if an answer that was right gives an old result for new numbers."""
    call = check.smallest
    solution = solution_of(check.exercise.name)
    if call is None or solution is None or check.exercise.name != check.name:
        return ""
    with learners_names(), np.errstate(all="ignore"), suppress(Exception):  # such a call may stop
        return _stale(call, solution)
    return ""


def right_when_new(call, label, right) -> str:
    """A sentence if the failing call is right in a fresh copy of the learner's function; else ""."""
    program = program_of(call.function)
    if program is None or not _may_keep(program) or alike(call.outputs[label], right):
        return ""
    with suppress(Exception):
        if alike(call.run(_fresh(program))[label], right):
            return "its first call would be right: it keeps something from one call to the next"
    return ""


def _stale(call, solution) -> str:
    """Call it on one array twice, with other numbers in it the second time: does the first result come back?"""
    names = [*call.named]
    for at, value in enumerate(call.arguments):
        floats = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 2
        if not floats or not call.locked[at]:
            continue
        arguments, options = copy.deepcopy((call.arguments, call.options))
        first = _outputs(call, call.function, arguments, options)
        for k, array in enumerate(arguments):  # the same arrays, as they were
            if isinstance(array, np.ndarray):
                array[...] = call.arguments[k]
        arguments[at][...] = _other_numbers(value)
        other = copy.deepcopy(arguments)
        again = _outputs(call, call.function, arguments, options)
        ours = solution.function()
        before, after = (_outputs(call, ours, copy.deepcopy(each), options) for each in (call.arguments, other))
        for label in first.keys() & after.keys() - {f"argument {names[at]}"}:
            same = np.array_equal(first[label], again[label], equal_nan=True) and np.size(first[label]) > 2
            if same and _far(before[label], after[label]) and _far(again[label], after[label]):
                told = f"your function returns an old result when new numbers are written into `{names[at]}`"
                return f"{told}: {COMPUTED}"
    return ""


def _outputs(call, function, arguments, options) -> dict:
    """Copies of what it returns and writes; inputs are locked as in the check, or Numba would compile once more."""
    locked = [a for a, lock in zip(arguments, call.locked) if lock and isinstance(a, np.ndarray)]
    for array in locked:
        array.flags.writeable = False
    try:
        return copy.deepcopy(outputs_of(function, function(*arguments, **options), arguments, options, call.returns))
    finally:
        for array in locked:
            array.flags.writeable = True


def _may_keep(program) -> bool:
    """Does it have a place for results: a global, a default argument, or an attribute?"""
    nodes = [node for function in program.own for node in ast.walk(function)]
    attributes = [node.value for node in nodes if isinstance(node, ast.Attribute)]
    writes = any(isinstance(node, ast.Global) for node in nodes)
    writes = writes or any(getattr(owner, "id", "") == program.name for owner in attributes)
    kept = [node for node in nodes if isinstance(node, ast.Name) and type(program.names.get(node.id)) in KEEPS]
    return writes or bool(kept) or _changeable_defaults(program)


def _changeable_defaults(program) -> bool:
    """Does it have an argument whose default is made once, and can be changed?"""
    arguments = [function.args for function in program.own if isinstance(function, ast.FunctionDef)]
    values = [value for each in arguments for value in (*each.defaults, *each.kw_defaults)]
    return any(isinstance(value, ast.Dict | ast.List | ast.Set | ast.Call) for value in values)


def _fresh(program):
    """The learner's function without what its calls have left behind."""
    state = {name: value for name, value in program.names.items() if name != "__builtins__"}  # which may be a dict
    kept = {name: type(value)() for name, value in state.items() if type(value) in KEEPS}
    was, program.names = program.names, program.names | kept
    try:
        return program.function()
    finally:
        program.names = was


def _other_numbers(array):
    """Numbers of nearly the same size, in other places."""
    return np.roll(array.ravel(), 1).reshape(array.shape) * array.dtype.type(0.75)


def _far(one, other) -> bool:
    """Do two arrays, or numbers, differ clearly?"""
    numbers = np.asarray(one).dtype.kind in "fiub" and np.shape(one) == np.shape(other)
    return numbers and not alike(one, other, CLEARLY)
