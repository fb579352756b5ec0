"""Which index of a line was too large for an array of fixed size: `tile[row][lane]`, and `float tile[32][31];`."""

import re

from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.cuda.emulator.findings.values import function_around, value

DECLARED = (
    r"\b(?:float[24]?|double|int|unsigned|half|__half|__nv_bfloat16)\s+(?:[^;(){{}}]*?[,\s])?\(?\s*&?\s*\b{}\s*\)?"
    r"((?:\s*\[[\s\d*+()-]+\])+)"
)
INDEXED = re.compile(r"\b(\w+)((?:\s*\[[^\[\]]*\])+)")
OR_SMALL = ", or is the array too small"
INDEX = re.compile(r"\[([^\[\]]*)\]")


def too_large(found, index, length) -> str:
    """A sentence if only one text of this line is an index where an array has that length; else ""."""
    code = statements(found.raw.code)
    lines = code.splitlines()
    if not 0 < found.line <= len(lines):
        return ""
    text, at = function_around(lines, found.line)
    start = sum(map(len, code.splitlines(True)[: found.line])) - at - 1  # of that function
    said = {}
    for name, places in INDEXED.findall(lines[found.line - 1]):
        declared = re.search(DECLARED.format(name), text)
        if not declared:
            continue
        sizes = "".join(declared[1].split())
        line = line_at(code, max(0, start) + declared.start(1))
        for place, size in zip(INDEX.findall(places), INDEX.findall(sizes)):
            if value(size, {}) == length and line != found.line and not place.strip().isdigit():
                said.setdefault(" ".join(place.split()), f"line {line} declares {name}{sizes}")
    if len(said) != 1:
        return ""
    ((place, declares),) = said.items()
    return f"`{place}` is {index} here, and {declares}: does `{place}` go too far{OR_SMALL}?"
