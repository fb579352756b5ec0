"""Variables and loops of a kernel that end sooner than they look: a second declaration, lines that are only indented.

Each is named only if the check accepts the kernel without it: many a second variable is meant, and does no harm.
"""

import re
from collections.abc import Callable

from llmc.cuda.emulator.compiling.text import closing, line_at, statements
from llmc.cuda.emulator.findings.loops import end_after

TYPE = re.compile(r"\b(?:float|double|int|unsigned|size_t|bool|float[24]|Moments|auto)\s+(?=\w+\s*[=;,])")
DECLARED = re.compile(r"(\w+)\s*(?:=(?:[^;,()]|\((?:[^()]|\([^()]*\))*\))+)?[,;]\s*")  # one of several, with its value
HEAD = re.compile(r"\b(?:for|while|if)\s*\(")
MANY = 3  # that are tried, one by one and all at once
PASSES = "your kernel passes this whole check"


def ended_too_soon(code, accepts: Callable) -> list[str]:
    """Sentences about them. accepts(code): does the whole check accept this kernel?"""
    return _second_variables(code, accepts) or _missing_braces(code, accepts)


def _second_variables(code, accepts) -> list[str]:
    """Declarations that hide a variable of the same name, which is used again after them."""
    text = statements(code)
    declared, found = list(_declared(text)), []
    for _, outer in declared:
        end = _end_of_block(text, outer.start())
        for head, inner in declared:
            after = _end_of_block(text, inner.start())
            inside = outer.start() < inner.start() and after < end
            if inside and inner[1] == outer[1] and re.search(rf"\b{inner[1]}\b", text[after:end]):
                found.append((head, inner, line_at(text, outer.start())))
    found = found[:MANY]
    for some in [*([each] for each in found), *[found] * (len(found) > 1)]:
        if accepts(_without_types(code, some)):
            told = [
                f"Line {line_at(text, inner.start())} declares a second `{inner[1]}`, which ends with the braces "
                f"around it and leaves the one of line {first} as it is."
                for _, inner, first in some
            ]
            types = "types" if some[1:] else "type"
            return [f"{' '.join(told)} Without the {types} in front, {PASSES}."]
    return []


def _declared(text):
    """(match of the type, match with the name as group 1) for each variable of every line `float a = 0, b;`.

    Not of a parameter, nor of a loop's own, in `for (int c = …`.
    """
    for head in TYPE.finditer(text):
        at, before = head.end(), text[max(text.rfind(mark, 0, head.start()) for mark in "{;}") + 1 : head.start()]
        while before.count("(") == before.count(")") and (match := DECLARED.match(text, at)):
            yield head, match
            at = match.end() if "," in match[0].rstrip()[-1:] else len(text)


def _without_types(code, some) -> str:
    """The code in which those declarations are assignments; others that share their type keep it."""
    for head, match, _ in sorted(some, key=lambda each: -each[1].start()):
        first, last = match.start() == head.end(), match[0].rstrip().endswith(";")
        before = code[: head.start()] if first else f"{code[: match.start()].rstrip().removesuffix(',')}; "
        rest = code[match.end() :] if last else head[0] + code[match.end() :]
        code = f"{before}{code[match.start() : match.end()].rstrip()[:-1]}; {rest}"
    return code


def _end_of_block(text, position) -> int:
    """Where the braces around a position close."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match[0] == "{" else -1
        if depth < 0:
            return match.start()
    return len(text)


def _missing_braces(code, accepts) -> list[str]:
    """A loop or condition without braces, behind whose one statement more lines are indented as if they were in it."""
    text = statements(code)
    lines = text.expandtabs(4).split("\n")
    indents = [len(line) - len(line.lstrip()) if line.strip() else None for line in lines]
    tried = 0
    for head in HEAD.finditer(text):
        opening = closing(text, head.end() - 1) + 1
        first, last = line_at(text, head.start()), line_at(text, end_after(text, opening) - 1)
        inside = text[text.rfind("\n", 0, head.start()) + 1 : head.start()]
        if text[opening:].lstrip().startswith("{") or inside.strip() or last == first:
            continue
        end = last  # of what is indented
        while end < len(lines) and (indents[end] is None or indents[end] > indents[first - 1]):
            end += 1
        while end > last and indents[end - 1] is None:
            end -= 1
        if end == last or tried == MANY:
            continue
        tried += 1
        behind = sum(len(line) + 1 for line in code.split("\n")[:end]) - 1
        if accepts(f"{code[:opening]} {{{code[opening:behind]}\n}}{code[behind:]}"):
            word = "condition" if head[0].startswith("if") else "loop"
            return [
                f"Line {last + 1} is indented as if it belonged to the {word} on line {first}, which ends with line "
                f"{last}, because it has no braces. With `{{` behind its head and `}}` behind line {end}, {PASSES}."
            ]
    return []
