"""Conditions around a line of a kernel, as far as advice about its index needs them: text, no parser."""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import closing, statements
from llmc.cuda.emulator.findings.loops import end_after, loop_around

CHECK = re.compile(r"\b(if|for|while)\s*(?:constexpr\s*)?\(")
COMPARES = re.compile(r"<=|>=|(?<!<)<(?!<)|(?<!>)>(?!>)|[!=]=")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[xyz])?")  # also threadIdx.x
VALUE = r"(?!=)(?:[^;,()]|\((?:[^()]|\([^()]*\))*\))+"  # up to a comma or a semicolon outside of brackets
ASSIGNED = re.compile(rf"(?<![\w.])([A-Za-z_]\w*)(?:\.\w+)?\s*[-+*/]?=\s*({VALUE})[;,]")  # s of `s.x = …`
FUNCTION = re.compile(r"__global__|__device__")
CHOICE = re.compile(r"(<=|>=|<|>)[^<>?;]*\?")
COUNTS_DOWN = re.compile(r"\s*\w+\s*>")
COORDINATES = {f"{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz"}
CONDITION = re.compile(r"(\w+)\s*(?:\+\s*\w+\s*)?<")  # of a loop: the variable that has to stay below something


class Condition(NamedTuple):
    """What decides whether a thread comes to a line.

    names: all that it compares, also through a variable such as `bool inside = i < n;`. in_loop: is it the header of a
    `for` loop?
    """

    line: int
    text: str  # "i < n"
    names: set
    in_loop: bool


def check_above(found) -> Condition | None:
    """The nearest condition around the line of a Finding that has a name of the index, or one that it is made from."""
    lines = statements(found.raw.code).splitlines()
    index, conditions = names_in_index(lines[found.line - 1]) if found.line else set(), conditions_around(found)
    given = {argument.name for argument in found.raw.arguments}  # `n` says nothing: many conditions compare with it
    for names in (index - given, computed_from(index, lines[: found.line]) - given):
        for condition in conditions:
            if names & condition.names:
                return condition
    return None


def moved_on(found) -> list[int]:
    """The lines that move the pointer of a Finding's array before it, as `x += row * C;`: the nearest one above, and
    those of a loop around it, which have done so in earlier rounds."""
    lines = statements(found.raw.code).splitlines()
    if found.array is None:
        return []
    moves = re.compile(rf"(?<![\w.*]){re.escape(found.name)}\s*\+=")
    head = max((number for number, text in enumerate(lines[: found.line], 1) if FUNCTION.search(text)), default=0)
    above = next((number for number in range(found.line, head, -1) if moves.search(lines[number - 1])), 0)
    around = loop_around(found.raw.code, found.line) or (1, 0)
    again = [number for number in range(around[0], around[1] + 1) if moves.search(lines[number - 1])]
    return sorted({above, *again} - {0})


def conditions_around(found) -> list[Condition]:
    """All conditions in the same function that this line depends on, the nearest first.

    A loop that counts down (gap > 0) bounds nothing from above, so it is left out.
    """
    lines = statements(found.raw.code).splitlines()
    above = lines[: found.line]
    if not above:
        return []
    conditions, access = _choices(above[-1], found), _access(above[-1], found)
    for number in range(len(above), 0, -1):
        for head in reversed([*CHECK.finditer(above[number - 1])]):
            if number < found.line or head.start() < access:
                conditions += _of(head, number, lines, found.line, access)
        if FUNCTION.search(above[number - 1]):
            break
    return [Condition(number, text, _compared(text, above), in_loop) for number, text, in_loop in conditions]


def _choices(line, found) -> list:
    """`c < n` of `c < n ? x[c] : 0`, but not of `x[c] > 0 ? …`, nor where the access stands before it."""
    choice = CHOICE.search(line)
    if not choice or _access(line, found) < choice.end():
        return []
    test = re.sub(r"\[[^\[\]]*\]", "", line[: choice.start()] + line[choice.start() : choice.end() - 1])
    return [(found.line, re.split(r"(?<![<>=!])=(?!=)|\breturn\b", test)[-1].strip(), False)]


def _access(line, found) -> int:
    """Where the last access to the Finding's array stands on its line; the last of any array if that is not seen."""
    name = found.name if found.array is not None else found.problem.array
    places = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\s*\[", line)] if name else []
    return places[-1] if places else max(line.rfind("["), 0)


def _of(head, number, lines, line, access) -> list:
    """[(line, condition, is it a `for`)] if the statement that begins there decides about the line; else []."""
    text = "\n".join(lines[number - 1 :])
    inside = text[head.end() : closing(text, head.end() - 1)]
    in_loop = head[1] == "for"
    if in_loop:
        inside = inside.split(";")[1] if inside.count(";") == 2 else ""
    condition = " ".join(inside.split())
    if not condition or in_loop and COUNTS_DOWN.match(condition):
        return []
    return [(number, condition, in_loop)] if _reaches(lines, number, head.start(), line, access) else []


def _compared(condition, lines) -> set:
    """The names of a condition, and those that it compares through variables: `inside` stands for `i < n`."""
    names = set(NAME.findall(re.sub(r"\[[^\[\]]*\]", "", condition)))
    sources = [found for text in lines for found in ASSIGNED.findall(text)]
    tests = [(target, set(NAME.findall(value))) for target, value in sources if COMPARES.search(value)]
    for _ in tests:
        names |= {name for target, compared in tests if target in names for name in compared}
    return names


def names_in_index(text) -> set:
    """Names between square brackets on a line; where there are none, as in `p[0]`, all names of the line."""
    return set(NAME.findall(" ".join(re.findall(r"\[([^\[\]]*)\]", text)))) or set(NAME.findall(text))


def computed_from(names, lines) -> set:
    """The names that these were computed from, and these themselves."""
    names, sources = set(names), [found for text in lines for found in ASSIGNED.findall(text)]
    for _ in sources:
        names |= {name for target, value in sources if target in names for name in NAME.findall(value)}
    return names


def _reaches(lines, first, column, line, access) -> bool:
    """Does the statement that begins there, or its `else`, hold the access, or leave the function or loop before it?"""
    text = "\n".join([lines[first - 1][column:], *lines[first:]])
    end = end_after(text, 0)
    statement = text[:end]
    while otherwise := re.compile(r"\s*else\b").match(text, end):
        end = end_after(text, otherwise.end())
    last = first + text.count("\n", 0, end)
    if last > line or last == line and (first < line or column + end > access):
        return True
    if re.search(r"\breturn\b", statement):
        return True
    loop = loop_around("\n".join(lines), first) if re.search(r"\b(break|continue)\b", statement) else None
    return bool(loop) and loop[1] >= line


def steps_over(code, line) -> bool:
    """Is this line in a loop that moves on by more than 1, and is its index made from the loop's variable?"""
    loop = loop_around(code, line) if line else None
    if not loop:
        return False
    lines = statements(code).splitlines()
    variable = CONDITION.search(lines[loop[0] - 1])
    if not variable:
        return False
    name = re.escape(variable[1])
    steps = re.search(rf"\b{name}\s*\+=\s*(?!1\b)", "\n".join(lines[loop[0] - 1 : loop[1]]))
    return bool(steps and re.search(rf"\[[^\]]*\b{name}\b", lines[line - 1]))


def one_too_many(found, length) -> int:
    """The line of a check that lets the index `length` through, `i <= length` or `i > length` to leave; 0 without."""
    lines = statements(found.raw.code).splitlines()
    for condition in conditions_around(found):
        test = re.search(r"(\w+)\s*(?:<=|>)\s*(\w+)\s*(?=&&|\|\||$)", condition.text)
        if test and re.search(rf"\[\s*{test[1]}\s*\]", lines[found.line - 1]) and _value(found.raw, test[2]) == length:
            return condition.line
    return 0


def _value(raw, word) -> int | None:
    """What a word of the kernel's text stands for: a number, an integer that was passed, a constant."""
    if word.isdigit():
        return int(word)
    for argument in raw.arguments:
        if argument.name == word and argument.packed and len(argument.packed) in (4, 8):
            return int.from_bytes(argument.packed, "little", signed=True)
    constant = re.search(rf"(?:#\s*define\s+{word}\s+|\bconst\w*\s+\w+\s+{word}\s*=\s*)(\d+)\b", raw.code)
    return int(constant[1]) if constant else None
