"""Checks and loops around a line of a kernel, as far as advice about its index needs them: text, no parser."""

import re

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.loops import end_of_statement, loop_around

CHECK = re.compile(r"\b(?:if|for|while)\s*\(.*?(<=|>=|<|>)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[xyz])?")  # also threadIdx.x
VALUE = r"(?!=)(?:[^;,()]|\((?:[^()]|\([^()]*\))*\))+"  # up to a comma or a semicolon outside of brackets
ASSIGNED = re.compile(rf"\b([A-Za-z_]\w*)\s*[-+*/]?=\s*({VALUE})[;,]")
FUNCTION = re.compile(r"__global__|__device__")
POINTER = re.compile(r"\b([A-Za-z_]\w*)\s*\[")
CHOICE = re.compile(r"(<=|>=|<|>)[^<>?;]*\?")
COUNTS_DOWN = re.compile(r"\s*\w+\s*>")
OF_THE_THREAD = {f"threadIdx.{axis}" for axis in "xyz"}
COORDINATES = OF_THE_THREAD | {f"{name}.{axis}" for name in ("blockIdx", "blockDim", "gridDim") for axis in "xyz"}
CONDITION = re.compile(r"(\w+)\s*(?:\+\s*\w+\s*)?<")  # of a loop: the variable that has to stay below something


def check_above(found) -> tuple[int, str] | None:
    """(line, comparison) of the check that guards the index on the line of a Finding, such as (6, "<"); None without.

    The nearest one that compares a name of the index, or else one that the index is computed from. The header of a loop
    is none if the index has another name, which nothing compares: then that one may be what goes too far.
    """
    lines = mask(found.raw.code).splitlines()
    index, checks = names_in_index(lines[found.line - 1]) if found.line else set(), _checks_above(found, lines)
    given = {argument.name for argument in found.raw.arguments}  # `n` says nothing: many conditions compare with it
    free = unchecked(found)
    for names in (index - given, computed_from(index, lines[: found.line]) - given):
        for number, comparison, condition, in_loop in checks:
            if names & set(NAME.findall(condition)) and not (in_loop and free):
                return number, comparison
    return None


def unchecked(found) -> list[str]:
    """Names of the index, and of what was added to its pointer, that depend on the thread and that nothing compares."""
    lines = mask(found.raw.code).splitlines()
    above, given = lines[: found.line], {argument.name for argument in found.raw.arguments}
    index = names_in_index(above[-1]) if above else set()
    moved = {name for pointer in POINTER.findall(above[-1]) for name in _added_to(pointer, above)} if above else set()
    compared = {name for *_, condition, _ in _checks_above(found, lines) for name in NAME.findall(condition)}
    return sorted(
        name
        for name in (index | moved) - given
        if _of_the_thread(name, above) and not (computed_from({name}, above) - given - COORDINATES) & compared
    )


def left_out(found) -> tuple[list[str], list[int]]:
    """(names of the index that no condition around its line bounds, lines of the conditions that bound other names).

    A name is bounded by a condition that has it, and by an `if` or a choice that has what it was computed from. The
    header of a loop bounds its own variable alone: from `i < 1024` does not follow how far `k0 + i / 32` may go.
    """
    lines = mask(found.raw.code).splitlines()
    above, given = lines[: found.line], {argument.name for argument in found.raw.arguments}
    index = names_in_index(above[-1]) if above and "[" in above[-1] else set()
    made, checks = computed_from(index, above) - given - COORDINATES, _checks_above(found, lines)
    mine = [(number, set(NAME.findall(text)) & made, in_loop) for number, _, text, in_loop in checks]
    direct = {name for _, names, _ in mine for name in names}
    checked = {name for _, names, in_loop in mine for name in names if not in_loop}
    out = [
        name
        for name in sorted(index - given - direct, key=above[-1].find if above else None)
        if _varies(name, above) and not computed_from({name}, above) & checked
    ]
    return out, sorted({number for number, names, _ in mine if names})


def moved_on(found) -> int:
    """The line above a Finding's that moves the pointer of its array, as `x += row * C;`; 0 if there is none."""
    lines = mask(found.raw.code).splitlines()[: found.line]
    if found.array is None:
        return 0
    moves = re.compile(rf"(?<![\w.*]){re.escape(found.name)}\s*\+=")
    head = max((number for number, text in enumerate(lines, 1) if FUNCTION.search(text)), default=0)
    return next((number for number in range(len(lines), head, -1) if moves.search(lines[number - 1])), 0)


def _checks_above(found, lines) -> list:
    return list(_checks(lines[: found.line], lines, found.line))


def _added_to(pointer, lines) -> set:
    """Names in `p += row * C` for the pointer p."""
    sources = [value for text in lines for target, value in ASSIGNED.findall(text) if target == pointer]
    return {name for value in sources for name in NAME.findall(value)}


def _of_the_thread(name, lines) -> bool:
    """Is it a variable that is made from the number of the thread in its block, and not cut by a remainder?"""
    sources = [value for text in lines for target, value in ASSIGNED.findall(text) if target == name]
    made = computed_from({name}, lines)
    return bool(sources) and bool(made & OF_THE_THREAD) and not any("%" in value for value in sources)


def _varies(name, lines) -> bool:
    """Is it a variable, made of more than a number?"""
    sources = [value for text in lines for target, value in ASSIGNED.findall(text) if target == name]
    return bool(sources) and not all(value.strip().isdigit() for value in sources)


def _checks(above, lines, line):
    """(line, comparison, condition, is it a `for`) of every check in the same function that this line depends on.

    The nearest first; a loop that counts down (gap > 0) bounds nothing from above.
    """
    if choice := CHOICE.search(above[-1]) if above else None:  # c < n ? x[c] : 0, but not x[c] > 0 ? …
        yield line, choice[1], re.sub(r"\[[^\[\]]*\]", "", above[-1][: choice.end()]), False
    for number in range(len(above), 0, -1):
        found = CHECK.search(above[number - 1])
        if found and _reaches(lines, number, found.start(), line):
            condition, in_loop = _condition(above[number - 1][found.start() :]), found[0].startswith("for")
            if not (in_loop and COUNTS_DOWN.match(condition)):
                yield number, found[1], condition, in_loop
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


def names_in_index(text) -> set:
    """Names between square brackets on a line; where there are none, as in `p[0]`, all names of the line."""
    return set(NAME.findall(" ".join(re.findall(r"\[([^\[\]]*)\]", text)))) or set(NAME.findall(text))


def computed_from(names, lines) -> set:
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


def _value(raw, word) -> int | None:
    """What a word of the kernel's text stands for: a number, an integer that was passed, a constant."""
    if word.isdigit():
        return int(word)
    for argument in raw.arguments:
        if argument.name == word and argument.packed and len(argument.packed) in (4, 8):
            return int.from_bytes(argument.packed, "little", signed=True)
    constant = re.search(rf"(?:#\s*define\s+{word}\s+|\bconst\w*\s+\w+\s+{word}\s*=\s*)(\d+)\b", raw.code)
    return int(constant[1]) if constant else None
