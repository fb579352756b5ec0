"""Markdown of notebooks, one sentence a line, so that a diff shows the sentence that changed and nothing else.

    python -m llmc.course.authoring.wrapping FILE…

Headings, tables, formulas, code and HTML stay as they are. JupyterLab shows a single line break as a space.
"""

import re
import sys
from pathlib import Path

from llmc.course.exercises import notebooks

WHOLE = re.compile(r"\$[^$\n]*\$|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|<[^>\n]*>")  # nothing in here ends a sentence
# The end of a sentence, unless the next line would begin like a list item, or a range (8 … 12) goes on.
END = re.compile(r"(?:[.!?]|…(?!\s*\d))[\"”'’)\]*_]*\s+(?!\d+[.)]\s|[-*+]\s)(?=[\"“'(*_\[\x00A-Z0-9])")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|Fig|etc|Eq|resp|[A-Z])\.[)\]*_]*$|(^|[.!?]\s)\d+\.$")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s+")
WHOLE_BLOCKS = {"```": "```", "$$": "$$", "<pre": "</pre>"}  # what begins one of them: what ends it
INDENTED = " " * 4  # code, where a blank line comes first
BLOCKS = ("#", "|", "<", ">", "```", "$$", "---", "![")  # lines that begin like this are not prose


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph on one line: "One. Two `a. B` three." -> ["One.", "Two `a. B` three."]."""
    hidden = []

    def hide(match):
        hidden.append(match[0])
        return f"\x00{len(hidden) - 1}\x01"

    masked, found, start = WHOLE.sub(hide, text), [], 0
    for match in END.finditer(masked):
        sentence = masked[start : match.end()].rstrip()
        if not ABBREVIATION.search(sentence):
            found.append(sentence)
            start = match.end()
    found.append(masked[start:])
    return [re.sub(r"\x00(\d+)\x01", lambda m: hidden[int(m[1])], sentence) for sentence in found if sentence]


def wrap(markdown: str) -> str:
    """The same text with one sentence a line; the sentences of a list item are indented below its first."""
    lines, wrapped = markdown.split("\n"), []
    while lines:
        line = lines.pop(0)
        mark = next((mark for mark in WHOLE_BLOCKS if line.strip().startswith(mark)), None)
        if mark:
            wrapped.append(line)
            closed = WHOLE_BLOCKS[mark] in line.strip().removeprefix(mark)
            while lines and not closed:
                closed = WHOLE_BLOCKS[mark] in lines[0]
                wrapped.append(lines.pop(0))
        elif not _is_prose(line):
            wrapped.append(line)
        elif line.startswith(INDENTED) and not (wrapped and wrapped[-1].strip()):
            wrapped.append(line)
            while lines and lines[0].startswith(INDENTED):
                wrapped.append(lines.pop(0))
        else:
            item = ITEM.match(line)
            lead = item[0] if item else ""
            text = line[len(lead) :].strip()
            while lines and _is_prose(lines[0]) and not ITEM.match(lines[0]):
                text += " " + lines.pop(0).strip()
            first, *others = sentences(text)
            wrapped += [lead + first, *(" " * len(lead) + other for other in others)]
    return "\n".join(wrapped)


def _is_prose(line) -> bool:
    return bool(line.strip()) and not line.strip().startswith(BLOCKS)


def main(paths) -> int:
    """Wrap the Markdown cells of these notebooks."""
    for path in map(Path, paths):
        notebook = notebooks.read(path)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = wrap(cell.source)
        notebooks.write(path, notebook)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
