"""Mistakes with a whole array: one index of an axis alone, the others forgotten; another order; running sums.

    for words in arrays(tree):   # "with index 0 of axis 0 of `dout` alone"
        compile(tree, …)         # the tree holds that mistake, and calls CHANGED

A learner makes them in any piece of code: a loop that begins too late, `x[0]` for every sequence, a reshape that mixes
two axes. Here they are made on the array itself: on an argument, or on what a line of the solution has just computed.
"""

import ast
import math

import numpy as np

from llmc.course.old.mutants.places import blocks
from llmc.course.old.mutants.stoppable import compiled, is_tick

CHANGED = "__changed__"  # the name under which the tree calls `changed`
AXES = range(4)


def _alone(array, axis, index):
    """The other indices count as zero; in an array of tokens, zero would be a token."""
    if array.dtype.kind != "f":
        raise TypeError("not numbers to add")
    kept = np.zeros_like(array)
    at = (slice(None),) * axis + (index,)
    kept[at] = array[at]
    return kept


def _for_all(array, axis, index):
    return np.zeros_like(array) + array.take([index], axis)


def _mean(array, axis):
    return np.zeros_like(array) + array.mean(axis, keepdims=True)


def _mixed(array, axis, other):
    return array.swapaxes(axis, other).reshape(array.shape)


def _misread(array, axis):
    rows = math.prod(array.shape[: axis + 1])
    return array.reshape(-1, rows).T.reshape(array.shape)


def _mislaid(array, axis):
    rows = math.prod(array.shape[: axis + 1])
    return array.reshape(rows, -1).T.reshape(array.shape)


CHANGES = (
    ("with index 0 of axis {axis} of `{name}` alone", lambda a, axis: _alone(a, axis, 0)),
    ("with the last index of axis {axis} of `{name}` alone", lambda a, axis: _alone(a, axis, -1)),
    ("with 0 at index 0 of axis {axis} of `{name}`", lambda a, axis: a - _alone(a, axis, 0)),
    ("with 0 at the last index of axis {axis} of `{name}`", lambda a, axis: a - _alone(a, axis, -1)),
    ("with index 0 of axis {axis} of `{name}` in place of every other", lambda a, axis: _for_all(a, axis, 0)),
    ("with the last index of axis {axis} of `{name}` in place of every other", lambda a, axis: _for_all(a, axis, -1)),
    ("with `{name}` moved on by one along axis {axis}", lambda a, axis: np.roll(a, 1, axis)),
    ("with `{name}` moved back by one along axis {axis}", lambda a, axis: np.roll(a, -1, axis)),
    ("with axis {axis} of `{name}` backwards", lambda a, axis: np.flip(a, axis)),
    ("with running sums along axis {axis} of `{name}`", lambda a, axis: a.cumsum(axis, dtype=a.dtype)),
    ("with the mean over axis {axis} of `{name}` in place of each entry", _mean),
    ("with axes {axis} and {next} of `{name}` swapped and the shape kept", lambda a, axis: _mixed(a, axis, axis + 1)),
    ("with axes {axis} and {second} of `{name}` swapped and the shape kept", lambda a, axis: _mixed(a, axis, axis + 2)),
    ("with `{name}` read as if {front} came last: reshape does not transpose", _misread),
    ("with `{name}` written as if {front} came last: reshape does not transpose", _mislaid),
)


def changed(array, number, axis):
    """What the tree calls. Raises ValueError, TypeError or IndexError where that change is none."""
    if not isinstance(array, np.ndarray) or array.ndim <= axis or array.shape[axis] < 2:
        raise ValueError("no such axis")
    new = CHANGES[number][1](array, axis)
    if new.dtype != array.dtype or np.array_equal(new, array):
        raise ValueError("it stays the same")
    return new


def arrays(tree):
    """Words for each mistake, as in "our solution gives … with …"; the tree holds it while the caller looks at it."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiled(node)]:
        kept = _written_to(function)
        for lines, k, name in [place for place in _made(function) if place[2] not in kept]:
            for number, (words, _) in enumerate(CHANGES):
                for axis in AXES:
                    lines.insert(k, ast.fix_missing_locations(_line(name, number, axis)))
                    try:
                        front = f"axes 0 to {axis}" if axis else "axis 0"
                        yield words.format(name=name, axis=axis, next=axis + 1, second=axis + 2, front=front)
                    finally:
                        del lines[k]


def _made(function):
    """(lines, k, name): before line k of these lines, the name holds a new array. The arguments come first.

    An array in a dict has the name `p['w']`.
    """
    arguments = [argument.arg for argument in function.args.args]
    yield from ((function.body, 0, name) for name in arguments)
    items = {ast.unparse(node): None for node in ast.walk(function) if _is_item(node, arguments)}
    yield from ((function.body, 0, text) for text in items)
    for block in blocks(function):
        for k, line in enumerate(block.node):
            if isinstance(line, ast.Assign) and not is_tick(line):
                stored = (n for n in ast.walk(line) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                yield from ((block.node, k + 1, name.id) for name in stored)


def _written_to(function) -> set[str]:
    """Names of arrays that are written to in place: another array under the name would not reach the caller."""
    nodes = list(ast.walk(function))
    slots = [n.value for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    slots += [n.target for n in nodes if isinstance(n, ast.AugAssign)]
    slots += [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "out"]
    return {slot.id for slot in slots if isinstance(slot, ast.Name)}


def _is_item(node, arguments) -> bool:
    """Is it `p['w']`, read from a dict that was given?"""
    found = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
    return found and isinstance(node.slice.value, str) and getattr(node.value, "id", None) in arguments


def _line(name, number, axis):
    """name = __changed__(name, number, axis); of an item, the name gets a new dict that holds the changed array."""
    dict_name, bracket, key = name.partition("[")
    call = f"{CHANGED}({name}, {number}, {axis})"
    value = f"{{**{dict_name}, {key[:-1]}: {call}}}" if bracket else call
    return ast.parse(f"{dict_name} = {value}").body[0]
