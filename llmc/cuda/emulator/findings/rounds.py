"""The rounds of the loops around a line, where they can be worked out: `for (int k0 = 0; k0 < K; k0 += 16)`."""

import re

from llmc.cuda.emulator.compiling.text import closing
from llmc.cuda.emulator.findings.loops import LOOP, end_of_statement
from llmc.cuda.emulator.findings.values import evaluated, value

FIRST = re.compile(r"\s*(?:int|unsigned|size_t|long long|auto)?\s*\b(\w+)\s*=\s*([^,]+)")
STEP = r"\s*(?:{0}\s*\+\+|\+\+\s*{0}|{0}\s*\+=\s*(?P<by>.+))\s*"


def loops_around(lines, line) -> list:
    """(variable, first value, condition, step) of the `for` loops around a line that count in a plain way."""
    found = []
    for number in range(1, line + 1):
        for head in LOOP.finditer(lines[number - 1]):
            if head[1] == "for" and (loop := _counting(lines, number, head.start(), line)):
                found.append(loop)
    return found


def _counting(lines, number, column, line):
    """The loop that begins there, if it holds the line and only its header changes its variable."""
    last, statement = end_of_statement(lines, number, column)
    opening = statement.index("(")
    parts = statement[opening + 1 : closing(statement, opening)].split(";")
    first = FIRST.fullmatch(parts[0])
    step = first and len(parts) == 3 and re.fullmatch(STEP.format(first[1]), parts[2])
    changes = rf"\b{first[1]}\s*(?:[-+*/%]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{first[1]}\b" if first else ""
    if last >= line and step and len(re.findall(changes, statement)) == 2:
        return first[1], first[2], parts[1], step["by"] or "1"
    return None


def rounds(loops, known, fixed):
    """{variable: value} of the loops, round by round; {} once where there are no loops."""
    if not loops:
        yield {}
        return
    (name, first, condition, step), *inner = loops
    known = known | evaluated(fixed, known)
    here = value(first, known)
    while here is not None and value(condition, known | {name: here}):
        for turn in rounds(inner, known | {name: here}, fixed):
            yield {name: here} | turn
        by = value(step, known | {name: here})
        here = here + by if by else None
