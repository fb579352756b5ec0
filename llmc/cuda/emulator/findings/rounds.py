"""Which round of its loops a thread was in when an index went out of bounds: the one in which the index is what it was.

Only where the numbers can be worked out, and only what all rounds with that index agree on.
"""

import re

from llmc.cuda.emulator.compiling.text import closing, mask
from llmc.cuda.emulator.findings.guards import VALUE
from llmc.cuda.emulator.findings.loops import LOOP, end_of_statement, loop_around
from llmc.cuda.emulator.findings.values import (
    declared,
    evaluated,
    function_around,
    listed,
    needed,
    of_the_launch,
    value,
    worked_out,
)

FIRST = re.compile(r"\s*(?:int|unsigned|size_t|long long|auto)?\s*\b(\w+)\s*=\s*([^,]+)")
STEP = r"\s*(?:{0}\s*\+\+|\+\+\s*{0}|{0}\s*\+=\s*(?P<by>.+))\s*"
MOST_ROUNDS = 5000  # that are tried


def worked_out_in_its_round(found) -> str:
    """Like worked_out(), with the variables of the loops around the line where they can be told, such as k0 = 32."""
    index, moved = _index(found), moved_by(found)
    if index is None or moved is None:
        return worked_out(found)
    lines = mask(found.raw.code).splitlines()
    (text, at), known = function_around(lines, found.line), of_the_launch(found)
    loops, names = _loops(lines, found.line), needed(lines[found.line - 1], text)
    counters = {name for name, *_ in loops}
    fixed = {name: source for name, source in declared(text, at).items() if name not in counters}
    target, seen = found.problem.offset // found.array.itemsize - moved, []
    for tried, turn in enumerate(_rounds(loops, known, fixed)):
        here = turn | evaluated(fixed, known | turn)
        if value(index, known | here) == target:
            seen.append(here)
        if tried == MOST_ROUNDS:
            seen = []
            break
    if not seen:
        return worked_out(found)
    agreed = {name: number for name, number in seen[0].items() if all(one.get(name) == number for one in seen)}
    place = {name: re.search(rf"\b{name}\s*=", text) for name in agreed if name in names}
    return listed({name: agreed[name] for name in sorted(place, key=lambda name: place[name].start())})


def moved_by(found) -> int | None:
    """By how many elements `x += …` has moved the pointer of a Finding's array for its thread; None if not known."""
    if found.array is None:
        return None
    lines = mask(found.raw.code).splitlines()
    name, (text, at) = re.escape(found.name), function_around(lines, found.line)
    moves = re.findall(rf"(?<![\w.*]){name}\s*\+=\s*({VALUE})[;,]", text)
    head = found.line - text.count("\n", 0, at)
    changes = [n for n, line in enumerate(text.splitlines(), head) if re.search(rf"(?<![\w.*]){name}\s*\+=", line)]
    again = re.search(rf"(?<![\w.*]){name}\s*(?:-?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b", text)
    if again or any(loop_around(found.raw.code, number) for number in changes):
        return None
    known = of_the_launch(found)
    known |= evaluated(declared(text, at), known)
    steps = [value(step, known) for step in moves]
    return None if None in steps else sum(steps)


def _index(found) -> str | None:
    """The one index by which the line accesses single elements of the array."""
    if found.array is None or found.problem.size != found.array.itemsize or found.problem.offset < 0:
        return None
    line = (*mask(found.raw.code).splitlines()[found.line - 1 : found.line], "")[0]
    there = {index.strip() for index in re.findall(rf"\b{re.escape(found.name)}\s*\[([^\[\]]*)\]", line)}
    return there.pop() if len(there) == 1 else None


def _loops(lines, line) -> list:
    """(variable, first value, condition, step) of the `for` loops around a line that count in a plain way."""
    found = []
    for number in range(1, line + 1):
        head = LOOP.search(lines[number - 1])
        if not head or head[1] != "for":
            continue
        last, statement = end_of_statement(lines, number, head.start())
        opening = statement.index("(")
        parts = statement[opening + 1 : closing(statement, opening)].split(";")
        first = FIRST.fullmatch(parts[0])
        step = first and len(parts) == 3 and re.fullmatch(STEP.format(first[1]), parts[2])
        changes = rf"\b{first[1]}\s*(?:[-+*/%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{first[1]}\b" if first else ""
        if last >= line and step and len(re.findall(changes, statement)) == 2:
            found.append((first[1], first[2], parts[1], step["by"] or "1"))
    return found


def _rounds(loops, known, fixed):
    """{variable: value} of the loops, round by round."""
    if not loops:
        yield {}
        return
    (name, first, condition, step), *inner = loops
    known = known | evaluated(fixed, known)
    here = value(first, known)
    while here is not None and value(condition, known | {name: here}):
        for turn in _rounds(inner, known | {name: here}, fixed):
            yield {name: here} | turn
        by = value(step, known | {name: here})
        here = here + by if by else None
