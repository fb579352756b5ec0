"""Loops over the same variable mostly go over the same numbers: what one `for (…)` has, another may lack."""

import re

from llmc.course.kernel_checks.lines import Repair
from llmc.course.kernel_checks.pieces import matching, split

FOR = re.compile(r"\bfor\s*\(")
BEGIN = re.compile(r"\b(\w+)\s*=(?!=)\s*")
RANK = 0.9


def like_siblings(text, all_pieces) -> list[Repair]:
    """The start, the condition or the step of a loop, as another loop over a variable of that name has it.

    text: the code without comments. all_pieces: `pieces` of it.
    """
    pieces, heads = {(piece.start, piece.end): piece for piece in all_pieces}, list(_heads(text))
    found = {}
    for name, parts in heads:
        for other, theirs in heads:
            for part, new in zip(parts, theirs) if other == name and theirs is not parts else ():
                piece, old, new = pieces.get(part), text[slice(*part)], text[slice(*new)]
                if piece is not None and _squeezed(old) != _squeezed(new) != "":
                    found.setdefault((piece, _squeezed(new)), Repair(RANK, ((piece, new),), piece.start, old, new))
    return list(found.values())


def _heads(text):
    """(variable, [where its first value, its condition and its step are]) of each `for (int c = 0; c < C; c++)`."""
    for match in FOR.finditer(text):
        parts = split(text, match.end(), matching(text, match.end() - 1), ";")
        begin = BEGIN.search(text, *parts[0]) if len(parts) == 3 else None
        if begin and len(split(text, *parts[0])) == 1:
            yield begin[1], [_trimmed(text, begin.end(), parts[0][1]), *(_trimmed(text, *part) for part in parts[1:])]


def _trimmed(text, start, end) -> tuple[int, int]:
    """Without the spaces around it."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _squeezed(text) -> str:
    return "".join(text.split())
