r"""Named mistakes: edits of our solution's text, one a line, in Python and CUDA C alike.

    words | old => new            one text for another; it must occur once between the solution's markers
    words | a => b ;; c => d      several, made one after the other
    words | lines                 lines that take the place of the whole solution
    [4 · Forward] words | …       with a section of its own to look at

The words continue "dx equals the reference …"; those that begin with = continue "dx equals …". In old, new and lines,
`\n` is a new line. Where old ends with `…`, that stands for the rest of the line. A line that begins with =>, ;;, |
or \n continues the one above it.
"""

import re
from typing import NamedTuple

MARKED = re.compile(r"(?<=### BEGIN SOLUTION\n)(.*?)(?=^[ \t/]*### END SOLUTION)", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"(?:\[(?P<place>[^\]]*)\] )?(?P<words>.*?) +\| ?(?P<edit>.*)", re.DOTALL)


class Mistake(NamedTuple):
    """words: what a message says. place: where to look, or "". edit: pairs (old, new), or the text of a whole body."""

    words: str
    place: str
    edit: tuple | str

    @property
    def made(self) -> str:
        """What the output equals, in a sentence."""
        return self.words[1:].strip() if self.words.startswith("=") else f"the reference {self.words}"


def mistakes(text) -> list[Mistake]:
    """Those in a table as above."""
    lines = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith(("=>", ";;", "| ", "\\n")):
            lines[-1] += line if line.startswith("\\n") else f" {line}"
        else:
            lines.append(line)
    return [_mistake(line) for line in lines]


def _mistake(line) -> Mistake:
    match = LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a named mistake, `words | old => new`: {line!r}")
    edit = match["edit"].replace("\\n", "\n")
    pairs = [tuple(part.strip(" ") for part in pair.split("=>")) for pair in edit.split(";;")]
    return Mistake(match["words"].strip(), match["place"] or "", tuple(pairs) if "=>" in edit else edit)


def applied(source: str, mistake: Mistake) -> str:
    """The source with that mistake. ValueError unless each text occurs between its markers exactly once."""
    parts = MARKED.split(source)  # the odd ones lie between markers
    if isinstance(mistake.edit, str):
        if len(parts) != 3:
            raise ValueError(f"the solution should have one pair of markers, not {len(parts) // 2}")
        indent = parts[1][: len(parts[1]) - len(parts[1].lstrip(" "))]
        parts[1] = "".join(f"{indent}{line}\n" for line in mistake.edit.split("\n"))
        return "".join(parts)
    for old, new in mistake.edit:
        pattern = r"(?<!\w)" * old[0].isidentifier() + re.escape(old.removesuffix("…"))
        pattern += "[^\n]*" if old.endswith("…") else r"(?!\w)" * old[-1].isalnum()
        counts = [len(re.findall(pattern, part)) if k % 2 else 0 for k, part in enumerate(parts)]
        if sum(counts) != 1:
            raise ValueError(f"{old!r} occurs {sum(counts)} times in the solution, and should occur once")
        at = counts.index(1)
        parts[at] = re.sub(pattern, lambda _, new=new: new, parts[at])
    return "".join(parts)
