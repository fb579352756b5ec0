"""Checks and loops around a line of a kernel, as far as advice about its index needs them: text, no parser."""

import re

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.loops import end_of_statement, loop_around

CHECK = re.compile(r"\b(?:if|for|while)\s*\(.*?(<=|>=|<|>)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[xyz])?")  # also threadIdx.x
ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*[-+*/]?=\s*([^=;][^;]*);")
FUNCTION = re.compile(r"__global__|__device__")
VECTORS = re.compile(r"\b[a-z]+[234]\s*\*\s*(?:__restrict__\s+)?(\w+)\s*[=,;)]")  # float4* p
CONDITION = re.compile(r"(\w+)\s*(?:\+\s*\w+\s*)?<")  # of a loop: the variable that has to stay below something


def check_above(found) -> tuple[int, str] | None:
    """(line, comparison) of the check that guards the index on the line of a Finding, such as (6, "<"); None without.

    The nearest one that compares a name of the index, or else one that the index is computed from.
    """
    lines = mask(found.raw.code).splitlines()[: found.line]
    index = _names_in_index(lines[-1]) if lines else set()
    checks = list(_checks(lines, mask(found.raw.code).splitlines(), found.line))
    given = {argument.name for argument in found.raw.arguments}  # `n` says nothing: many conditions compare with it
    for names in (index - given, _computed_from(index, lines) - given):
        for number, comparison, condition in checks:
            if names & set(NAME.findall(condition)):
                return number, comparison
    return None


def _checks(above, lines, line):
    """(line, comparison, condition) of every check in the same function that this line depends on, nearest first."""
    for number in range(len(above), 0, -1):
        found = CHECK.search(above[number - 1])
        if found and _reaches(lines, number, found.start(), line):
            yield number, found[1], _condition(above[number - 1][found.start() :])
        if FUNCTION.search(above[number - 1]):
            return


def _condition(text) -> str:
    """What the brackets of an `if`, `while` or `for` compare, as far as it is on this line."""
    start, depth = text.index("("), 0
    for end, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if end > start and depth == 0:
            break
    inside = text[start + 1 : end]
    return inside.split(";")[1] if text.startswith("for") and inside.count(";") == 2 else inside


def _names_in_index(text) -> set:
    """Names between square brackets on a line; where there are none, as in `p[0]`, all names of the line."""
    return set(NAME.findall(" ".join(re.findall(r"\[([^\[\]]*)\]", text)))) or set(NAME.findall(text))


def _computed_from(names, lines) -> set:
    """The names that these were computed from, and they themselves."""
    names, sources = set(names), [found for text in lines for found in ASSIGNED.findall(text)]
    for _ in sources:
        names |= {name for target, value in sources if target in names for name in NAME.findall(value)}
    return names


def _reaches(lines, first, column, line) -> bool:
    """Does the statement that begins there hold this line, or leave the function before it?"""
    last, statement = end_of_statement(lines, first, column)
    return last >= line or bool(re.search(r"\breturn\b", statement))


def steps_over(code, line) -> bool:
    """Is this line in a loop that moves on by more than 1, and is its index made from the loop's variable?"""
    loop = loop_around(code, line) if line else None
    if not loop:
        return False
    lines = mask(code).splitlines()
    variable = CONDITION.search(lines[loop[0] - 1])
    if not variable:
        return False
    name = re.escape(variable[1])
    steps = re.search(rf"\b{name}\s*\+=\s*(?!1\b)", "\n".join(lines[loop[0] - 1 : loop[1]]))
    return bool(steps and re.search(rf"\[[^\]]*\b{name}\b", lines[line - 1]))


def one_too_many(found, check, length) -> bool:
    """Whether a check, (line, comparison), is `index <= length`, and that index is used on the line of the problem."""
    number, comparison = check
    lines = mask(found.raw.code).splitlines()
    test = re.search(r"(\w+)\s*<=\s*(\w+)\s*(?=[;)&|])", lines[number - 1])
    if comparison != "<=" or not test or not re.search(rf"\[[^\]]*\b{test[1]}\b", lines[found.line - 1]):
        return False
    return _value(found.raw, test[2]) == length


def counts_in_vectors(found) -> bool:
    """Is it a vector's access by an index of a vector's pointer, and would the element of that index be inside?

    `p[i]` for a `float4* p`, and `((float4*)x)[i]`; not `*p`, nor `p[0]`, whose index says nothing.
    """
    size, array = found.problem.size, found.array
    if size <= array.itemsize or found.problem.offset % size or found.problem.offset // size >= array.size:
        return False
    source = mask(found.raw.code)
    line = source.splitlines()[found.line - 1] if found.line else ""
    names = set(VECTORS.findall(source)) & set(re.findall(r"(\w+)\s*\[\s*(?!0\s*\])", line))
    return bool(names or re.search(r"\b\w+[234]\s*\*\s*[>)].*\)\s*\[\s*(?!0\s*\])", line))


def _value(raw, word) -> int | None:
    """What a word of the kernel's text stands for: a number, an integer that was passed, a constant."""
    if word.isdigit():
        return int(word)
    for argument in raw.arguments:
        if argument.name == word and argument.packed and len(argument.packed) in (4, 8):
            return int.from_bytes(argument.packed, "little", signed=True)
    constant = re.search(rf"(?:#\s*define\s+{word}\s+|\bconst\w*\s+\w+\s+{word}\s*=\s*)(\d+)\b", raw.code)
    return int(constant[1]) if constant else None
