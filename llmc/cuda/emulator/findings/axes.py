"""An index out of bounds, held against the shape of its array: steps that fit no axis, an axis that is left."""

import math
import re

from llmc.cuda.emulator.findings.guards import NAME
from llmc.cuda.emulator.findings.values import in_words, scalars


def step(index, name) -> int | None:
    """By how much an Index moves when that name grows by 1; None if that depends on the name's value."""
    first, own = index.at(name, 0), index.of(name)
    there = {number: index.at(name, number) for number in (1, own // 2, own)}
    if first is None or None in there.values():
        return None
    by = there[1] - first
    return by if all(index - first == number * by for number, index in there.items()) else None


def strange_step(index) -> str:
    """A sentence if a factor of the index is an argument that is no step of any axis of the array; else ""."""
    array, arguments = index.found.array, _arguments(index)
    for name in index.names if array.ndim > 1 else ():
        by = step(index, name)
        if by and by in arguments.values() and _axis(array.shape, by) is None and index.of(name):
            there = f"in {index.found.name}, of shape {array.shape}, {_next_ones(array)}"
            return f"Where `{name}` is 1 more, this index is {by} more; but {there}."
    return ""


def another_stride(index) -> str:
    """A sentence if the index is made with another argument in place of the length of a row; else "".

    Then, what is multiplied by this argument is a row that the array has, and the rest is a place in a row.
    """
    array = index.found.array
    if array.ndim != 2:
        return ""
    (rows, length), text = array.shape, index.expanded
    own = [name for name, number in scalars(index.found.raw).items() if number == length]
    if len(own) != 1 or re.search(rf"\b{own[0]}\b", text):
        return ""
    for name, number in _arguments(index).items():
        if number == length or len(re.findall(rf"\b{name}\b", text)) != len(_factors(name, text)):
            continue
        row, rest = index.at(name, number + 1), index.at(name, 0)
        row = None if row is None else row - index.number
        if row is None or rest is None or row * number + rest != index.number or row >= rows or rest >= length:
            continue
        return (
            f"This index multiplies by `{name}`, which is {number}, but a row of {index.found.name} has {length} "
            f"numbers: with `{own[0]}` in its place, this is row {row}, column {rest}."
        )
    return ""


def _factors(name, text) -> list[str]:
    return re.findall(rf"\*\s*{name}\b|\b{name}\s*\*", text)


def axis_left(index) -> tuple[list[str], str]:
    """(names that lead past the end of an axis, a sentence that says so); ([], "") if that cannot be told.

    No names, but the sentence, where they are inside, and only what is added to them leads past it.
    """
    array, steps = index.found.array, {name: step(index, name) for name in index.names}
    if array.ndim < 2 or None in steps.values():
        return [], ""
    axes = {name: _axis(array.shape, by) for name, by in steps.items() if by}
    if None in axes.values():
        return [], ""
    added = index.number - sum(index.of(name) * steps[name] for name in axes)  # what is there without any variable
    ones = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    here = sorted({*axes.values(), *(axis for axis, one in enumerate(ones) if added >= one)})
    for before, axis in reversed([*zip([-1, *here], here)]):
        one, whole = ones[axis], ones[before] if before >= 0 else array.size
        names = [name for name, its in axes.items() if its == axis and index.of(name)]
        alone = sum(index.of(name) * steps[name] for name in names) // one
        more = (added % whole if before >= 0 else added) // one
        if alone + more >= whole // one and (before >= 0 or axis < array.ndim - 1):
            beyond = _has(index, before, axis, whole // one)
            there = _they_reach(index, names, alone + more, more, exactly=[steps[name] for name in names] == [one])
            return (names if alone >= whole // one else []), f"{there}, but {beyond}."
    return [], ""


def _they_reach(index, names, reached, more, exactly) -> str:
    """ "`n` is 42 here", "`k0` and `r` lead to number 33 here (k0 = 32 and r = 1)"; more: what is added to them."""
    if exactly and not more:
        return f"`{names[0]}` is {reached} here"
    parts = [f"`{name}`" for name in names] + ["what is added to it" if names else "the part without variables"] * bool(
        more
    )
    values = [f"{name} = {index.of(name)}" for name in names] + [f"{more} more"] * bool(more)
    words, lead = in_words(parts), "lead" if parts[1:] else "leads"
    return f"{words[:1].upper() + words[1:]} {lead} to number {reached} here ({in_words(values)})"


def _has(index, before, axis, length) -> str:
    """ "a row of out has 7 numbers (0 to 6)", "out has 5 rows (0 to 4)", "axis 1 of k, whose shape is …, ends at 4"."""
    name, shape = index.found.name, index.found.array.shape
    ends = f"(0 to {length - 1})"
    if axis == len(shape) - 1 and before == axis - 1:
        return f"a row of {name} has {length} numbers {ends}"
    if before == -1 and axis == len(shape) - 2:
        return f"{name} has {length} rows {ends}"
    axes = f"axis {axis}" if before == axis - 1 else f"what axes {before + 1} to {axis} hold"
    return f"{axes} of {name}, whose shape is {shape}, ends at {length - 1}"


def _axis(shape, by) -> int | None:
    """The axis along which a step leads, or a part of an axis, as a step of 4 numbers in a row of 8."""
    for axis in range(len(shape)):
        one = math.prod(shape[axis + 1 :])
        inside = by < one * shape[axis] and one * shape[axis] % by == 0
        if by >= one and by % one == 0 and (by == one or axis == 0 or inside):
            return axis
    return None


def length_along(index, name) -> int | None:
    """The length of the axis along which this name moves an Index; None if that cannot be told."""
    by, shape = step(index, name), index.found.array.shape
    axis = _axis(shape, by) if by else None
    return None if axis is None else shape[axis]


def _next_ones(array) -> str:
    """ "the next row begins 7 numbers later", "the next one along axes 0 and 1 lies 12 and 3 numbers later"."""
    steps = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim - 1)]
    if len(steps) == 1:
        return f"the next row begins {steps[0]} numbers later"
    axes, numbers = in_words([*map(str, range(len(steps)))]), in_words([*map(str, steps)])
    return f"the next one along axes {axes} lies {numbers} numbers later"


def _arguments(index) -> dict:
    """{name: value} of the arguments that the index has."""
    given = {argument.name for argument in index.found.raw.arguments if argument.array is None}
    return {name: index.of(name) for name in re.findall(NAME, index.expanded) if name in given and index.known(name)}
