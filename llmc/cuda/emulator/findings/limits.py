"""Which conditions limit the parts of an index out of bounds: those that none limits, and what its shape says."""

import re

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.axes import another_stride, axis_left, length_along, strange_step
from llmc.cuda.emulator.findings.guards import check_above, computed_from, conditions_around
from llmc.cuda.emulator.findings.values import NAME, in_words, indices_on, scalars

MISSING = "is a check missing, or is the index itself wrong?"
ANOTHER = "should it compare another number, is a check missing, or is the index itself wrong?"
EITHER = "so either the index itself is wrong or a bound is"


def what_limits(found, index) -> str:
    """Sentences about the Index of a Finding, or about the text of its line where there is none."""
    return _without_values(found) if index is None else _with_values(index)


def _with_values(index) -> str:
    if strange := another_stride(index) or strange_step(index):
        return strange
    beyond, left = axis_left(index)
    if left and not beyond:
        return left
    suspects = beyond or [name for name in index.names if index.matters(name)]
    limits = {name: _limit(index.conditions, name, index.lines) for name in suspects}
    return " ".join(filter(None, [left, _said(limits, index)]))


def _said(limits, index) -> str:
    """What limits each of these names of an Index; "" if that is not sure for one of them."""
    if not limits or any(limit is None for limit in limits.values()):
        return ""
    free = [f"`{name}`" for name, limit in limits.items() if limit == "nothing"]
    loops = [f"`{name}` (line {limit.line}: `{limit.text}`)" for name, limit in limits.items() if _is_loop(limit)]
    checks = [_checked(name, limit) for name, limit in limits.items() if not _is_loop(limit) and limit != "nothing"]
    if not free and not loops:
        return f"{_capital(in_words(checks))}, {EITHER}."
    parts = []
    if free:
        parts.append(f"no condition around this line mentions {' or '.join(free)}")
    if loops:
        parts.append(f"only a loop's own bound limits {in_words(loops)}")
    if [*limits.values()] == ["nothing"] and (other := _same_bound(index, *limits)):
        return f"{_capital(parts[0])}; the one on line {other.line}, `{other.text}`, lets this thread pass: {ANOTHER}"
    return f"{_capital(', and '.join(parts))}: {MISSING}"


def _same_bound(index, name):
    """The nearest Condition that compares another number with the length that this name has to stay below; or None."""
    length = length_along(index, name)
    bounds = {argument for argument, number in scalars(index.found.raw).items() if number == length}
    checks = (condition for condition in index.conditions if not condition.in_loop)
    return next((check for check in checks if check.names & bounds), None)


def _checked(name, limit) -> str:
    return f"`{name}` is checked on line {limit.line} (`{limit.text}`)"


def _is_loop(limit) -> bool:
    return limit != "nothing" and limit.in_loop


def _limit(conditions, name, lines):
    """The Condition that limits a name, "nothing" if there is none, None if one on what it is made of may.

    The header of a loop limits its variable; it says nothing about a name that is made of this variable.
    """
    mine = [condition for condition in conditions if name in condition.names]
    if mine:
        return next((condition for condition in mine if not condition.in_loop), mine[0])
    made = computed_from({name}, lines)
    related = [condition for condition in conditions if made & condition.names & _varying(condition)]
    return None if any(not condition.in_loop for condition in related) else "nothing"


def _varying(condition) -> set:
    """The names of a condition except for the sizes of the launch, which many names are made of."""
    return {name for name in condition.names if not name.startswith(("blockDim", "gridDim"))}


def _without_values(found) -> str:
    """What can be said for sure from the text alone: which lines check a name of the index."""
    lines = mask(found.raw.code).splitlines()
    if not found.line or found.line > len(lines):
        return ""
    given = {argument.name for argument in found.raw.arguments}
    text = lines[found.line - 1]
    mine = re.findall(rf"\b{re.escape(found.name)}\s*\[([^\[\]]*)\]", text) if found.array is not None else []
    names = [name for name in dict.fromkeys(NAME.findall(" ".join(mine) or indices_on(text))) if name not in given]
    limits = {name: _limit(conditions_around(found), name, lines[: found.line]) for name in names}
    checks = [_checked(name, limit) for name, limit in limits.items() if limit not in (None, "nothing")]
    if not checks and (there := check_above(found)):
        checks = [f"there is a check on line {there.line} (`{there.text}`)"]
    return f"{_capital(in_words(checks))}: work the index out by hand for this thread." if checks else ""


def _capital(text) -> str:
    return text[:1].upper() + text[1:]
