"""The template of an asm statement as a list of instructions, declarations of registers and braces.

{ .reg .pred p;  setp.ne.b32 p, %2, 0;  @p ld.global.nc.v2.f32 {%0, %1}, [%3 + 16]; }
"""

import re
from typing import NamedTuple

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DECLARATION = re.compile(r"\.reg\s+\.(\w+)\s+(.+)$", re.DOTALL)
MANY = re.compile(r"([\w$%]+)<(\d+)>$")  # p<4>: p0 to p3
LABEL = re.compile(r"([\w$%=]+)\s*:(?!:)\s*")
BRANCH = re.compile(r"bra(?:\.uni)?$")
INSTRUCTION = re.compile(r"(?:@(!?)\s*([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)


class PtxError(Exception):
    """A template that the emulator does not run: `sentence`, and where in the template."""

    def __init__(self, position: int, sentence: str):
        super().__init__(sentence)
        self.position, self.sentence = position, sentence


class Instruction(NamedTuple):
    """`@!p opcode operands;`."""

    position: int
    guard: str  # "!p"; "" without one
    opcode: str
    operands: tuple[str, ...]


class Registers(NamedTuple):
    """`.reg .b32 a, b;`."""

    position: int
    type: str
    names: tuple[str, ...]


class Label(NamedTuple):
    """`name:`."""

    position: int
    name: str


class Branch(NamedTuple):
    """`@p bra name;`."""

    position: int
    guard: str
    name: str


class Brace(NamedTuple):
    """`{` or `}` around a scope."""

    position: int
    opens: bool


def parse(template: str) -> list[Instruction | Registers | Label | Branch | Brace]:
    """What a template says, in order. Raises PtxError."""
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), template)
    found, position = [], 0
    while match := re.compile(r"\s*([{};]|(?=\S))").match(text, position):
        position, mark = match.end(), match[1]
        if mark == ";":
            continue
        if mark:
            found.append(Brace(match.start(1), mark == "{"))
            continue
        if label := LABEL.match(text, position):
            found.append(Label(position, label[1]))
            position = label.end()
            continue
        end = text.find(";", position)
        if end < 0:
            raise PtxError(position, f"the PTX instruction `{_short(text[position:])}` does not end with a `;`")
        found.append(_statement(text[position:end].rstrip(), position))
        position = end + 1
    return found


def _statement(text, position):
    if declared := DECLARATION.match(text):
        names = [each.strip() for each in declared[2].split(",")]
        return Registers(position, declared[1], tuple(one for each in names for one in _names(each)))
    if not (match := INSTRUCTION.match(text)):
        raise PtxError(position, f"the emulator does not run `{_short(text)}` in inline PTX; write it in CUDA C++")
    guard = f"{match[1] or ''}{match[2] or ''}"
    if BRANCH.match(match[3]):
        return Branch(position, guard, match[4].strip())
    return Instruction(position, guard, match[3], tuple(split(match[4])))


def _names(declared):
    many = MANY.match(declared)
    return [f"{many[1]}{k}" for k in range(int(many[2]))] if many else [declared]


def _short(text):
    return text.split("\n")[0].strip()[:40]


def split(text: str) -> list[str]:
    """ "{%0, %1}, [%2], 16" -> ["{%0, %1}", "[%2]", "16"]."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []
