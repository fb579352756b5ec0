"""asm statements in a text: `asm volatile("template" : "=r"(out) : "r"(in), "n"(4) : "memory");`."""

import re
from typing import NamedTuple

ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*\b(?:volatile|__volatile__|__volatile)\b)*\s*\(")
LITERAL = re.compile(r'R"(?P<tag>[^(\s]*)\((?P<raw>.*?)\)(?P=tag)"|"(?P<text>(?:\\.|[^"\\])*)"', re.DOTALL)
OPERAND = re.compile(r'\s*(?:\[\s*(\w+)\s*\]\s*)?"([^"]*)"\s*\((.*)\)\s*$', re.DOTALL)
ESCAPE = re.compile(r"\\(?:\n|.)|%%", re.DOTALL)  # %%laneid: a % that does not stand for an operand
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
MARKER = re.compile(r'^# \d+ "[^"]*"[^\n]*$', re.MULTILINE)  # a preprocessor's note of where a line is from


class Operand(NamedTuple):
    """A C++ expression that an asm statement reads or writes."""

    constraint: str  # "=r"
    expression: str  # on one line
    name: str  # in the template: %[name], "" for one that has only a number


class Statement(NamedTuple):
    """An asm statement, from its first letter to its closing parenthesis: text[start:end]."""

    start: int
    end: int
    template: str
    places: tuple[int, ...]  # where in the text each character of the template is
    outputs: tuple[Operand, ...]
    inputs: tuple[Operand, ...]


def statements(text: str, masked: str):
    """Every asm statement whose beginning is in `masked`, the text without comments and strings."""
    for match in ASM.finditer(masked):
        sections = _pieces(masked, match.end(), len(masked), ":")
        template, outputs, inputs = [*sections, (0, 0), (0, 0)][:3]
        operands = [tuple(_operands(text, masked, *each)) for each in (outputs, inputs)]
        yield Statement(match.start(), sections[-1][1] + 1, *_template(text, *template), *operands)


def _pieces(masked, start, end, mark):
    """[start, end) of each part between these marks, outside of brackets and up to the bracket that closes all."""
    found, depth = [start], 0
    for match in re.compile(r"[][(){}:,]").finditer(masked, start, end):
        if match.group() in "([{":
            depth += 1
        elif match.group() in ")]}":
            depth -= 1
            if depth < 0:
                end = match.start()
                break
        elif match.group() == mark and depth == 0:
            found += [match.start(), match.end()]
    return list(zip(found[::2], [*found[1::2], end]))


def _single(masked, start, end):
    """[start, end) of each operand. CUDA's compiler does not mind a missing comma: one ends at its bracket."""
    for first, last in _pieces(masked, start, end, ","):
        depth = 0
        for mark in re.compile(r"[()]").finditer(masked, first, last):
            depth += 1 if mark.group() == "(" else -1
            if depth == 0 and masked[mark.end() : last].strip():
                yield first, mark.end()
                first = mark.end()
        yield first, last


def _template(text, start, end):
    """The literals of a section as one text, and where each of its characters is."""
    characters, places = [], []
    section = MARKER.sub(lambda marker: " " * len(marker[0]), text[start:end])
    for match in LITERAL.finditer(section):
        kind = "text" if match["text"] is not None else "raw"
        at = match.start(kind)
        while at < match.end(kind):
            escape = ESCAPE.match(section, at)
            escape = escape if kind == "text" or escape and escape.group() == "%%" else None
            meant = ESCAPED.get(escape.group()[1], escape.group()[1]) if escape else section[at]
            characters += meant
            places += [start + at] * len(meant)
            at += len(escape.group()) if escape else 1
    return "".join(characters), tuple(places)


def _operands(text, masked, start, end):
    for piece in _single(masked, start, end):
        operand = " ".join(MARKER.sub(" ", text[slice(*piece)]).split())
        if match := OPERAND.match(operand):
            yield Operand(match[2].strip(), match[3].strip(), match[1] or "")
        elif operand:
            yield Operand(operand, "", "")  # no constraint, as translation.py will say
