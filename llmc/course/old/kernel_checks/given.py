"""Which lines of a cell the exercise gives, and which of the learner's stand behind what goes wrong in one of those.

A given line is right: where a report points at one, what is wrong are the values that it works with.
"""

import re
from difflib import SequenceMatcher

from llmc.course.old.checks import evidence
from llmc.course.old.checks.explain import listed
from llmc.course.old.kernel_checks.pieces import matching
from llmc.course.old.kernel_checks.solutions import source_of
from llmc.cuda.emulator.compiling.text import line_at, statements

BEGIN, END = "// ### BEGIN SOLUTION", "// ### END SOLUTION"
FUNCTION = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*\{")
FEW = 3  # lines that a sentence names


def behind(code, *lines) -> str:
    """A sentence about the learner's lines behind those given ones; "" if one of these lines is the learner's."""
    mine = own_lines(code)
    if not lines or not mine or mine & {*lines}:
        return ""
    text, functions = statements(code), list(_functions(code))
    there = "\n".join(text.splitlines()[line - 1] for line in lines)
    what = f"Line {lines[0]} is given" if len(lines) == 1 else f"Lines {listed([*map(str, lines)])} are given"
    for name, inside in functions:
        own = sorted(mine & {*inside})
        if own and re.search(rf"\b{name}\s*\(", there) and not {*lines} & {*inside}:
            return f"{what}, with the values of `{name}`, which is yours: {_named(own)}."
    for name, inside in functions:
        called = [line for line in sorted(mine) if re.search(rf"\b{name}\s*\(", text.splitlines()[line - 1])]
        if {*lines} <= {*inside} and called:
            also = [(other, {*own} & mine) for other, own in functions if _calls(text, called, other)]
            values = [f", with the values of `{other}`, {_named(sorted(own))}" for other, own in also if own][:1]
            return f"{what}; `{name}` is called in your {_named(called)}{''.join(values)}."
    return f"{what}: what it works with comes from your {_named(sorted(mine))}."


def moved_before(code, line, calls, name) -> str:
    """A sentence if the learner moves the pointer of the array `name` before a call that leads to this line; else "".

    calls: the lines that called the function in which `line` is, its callers', and so on.
    """
    theirs, call, mine = _learners_call(code, line, calls)
    said = _moved(statements(code).splitlines(), call, name, mine if theirs else ()) if call else ""
    return f"{_are_given(theirs)} {said}" if theirs and said else said


def called_in(code, line, calls) -> str:
    """Which line of the learner's calls the given lines that go wrong; "" where that is the line itself."""
    theirs, call, _ = _learners_call(code, line, calls)
    return f"{_are_given(theirs)} What leads there is called in your line {call}." if theirs and call else ""


def _learners_call(code, line, calls):
    """The given lines up to a call of the learner's, that line, 0 without one, and all the learner's lines."""
    mine, chain = own_lines(code), (line, *calls)
    call = next((each for each in calls if each in mine), 0)
    before = chain[: chain.index(call)] if call else ()
    return [each for each in before if each not in mine], call, mine


def _are_given(lines) -> str:
    return f"Line {lines[0]} is given." if len(lines) == 1 else f"Lines {listed([*map(str, lines)])} are given."


def _moved(text, call, name, mine) -> str:
    """A sentence if a line before the call moves the pointer, and the call moves it again, or it is one of `mine`."""
    again = re.search(rf"[(,]\s*({name} \+ [^,;)]+)", text[call - 1])
    for number, line in enumerate(text[: call - 1], 1):
        moved = re.search(rf"\b{name} \+= ([^;,]+)", line)
        if moved and again:
            return f"Line {number} has moved `{name}` by `{moved[1]}` already, and line {call} passes `{again[1]}`."
        if moved and number in mine and re.search(rf"[(,]\s*{name}\s*[,)]", text[call - 1]):
            return (
                f"Your line {number} has moved `{name}` by `{moved[1]}`, and line {call} passes it: do the other "
                f"arguments count from there, and does the function compare them with what is left of `{name}`?"
            )
    return ""


def own_lines(code, exercise="") -> set[int]:
    """The numbers of the lines that are the learner's; none where the exercise's own text is not at hand.

    exercise: "" for that of the running check.
    """
    check = evidence.running()
    solution = source_of(exercise or (check.exercise if check else ""))
    if solution is None or BEGIN not in solution:
        return set()
    stub, theirs = [line.strip() for line in _stub(solution)], [line.strip() for line in code.splitlines()]
    blocks = SequenceMatcher(None, stub, theirs, autojunk=False).get_matching_blocks()
    given = {block.b + k + 1 for block in blocks for k in range(block.size)}
    blank = {k for k, line in enumerate(statements(code).splitlines(), 1) if not line.strip(" \t{};")}
    return {*range(1, len(theirs) + 1)} - given - blank


def _stub(solution):
    """Its lines without those of the holes."""
    hole = False
    for line in solution.splitlines():
        hole = hole or BEGIN in line
        if not hole:
            yield line
        hole = hole and END not in line


def _functions(code):
    """(name, the numbers of its lines) of each function."""
    text, at = statements(code), 0
    while match := FUNCTION.search(text, at):
        at = matching(text, match.end() - 1)
        yield match[1], range(line_at(text, match.start()), line_at(text, at) + 1)


def _calls(text, lines, name) -> bool:
    return any(re.search(rf"\b{name}\s*\(", text.splitlines()[line - 1]) for line in lines)


def _named(lines) -> str:
    """ "line 7", "lines 7 and 9", "lines 7 to 20"."""
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {lines[0]} to {lines[-1]}" if len(lines) > FEW else f"lines {listed([*map(str, lines)])}"
