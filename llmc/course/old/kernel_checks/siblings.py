"""What is like something else, but for a slip: loops over one variable, and what is done with .x, .y, .z and .w."""

import re
from collections import Counter, defaultdict

from llmc.course.old.kernel_checks.lines import Repair
from llmc.course.old.kernel_checks.pieces import STATEMENT, matching, split

FOR = re.compile(r"\bfor\s*\(")
BEGIN = re.compile(r"\b(\w+)\s*=(?!=)\s*")
RANK = 0.9
COMPONENT = re.compile(r"\.([xyzw])\b")


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


def like_the_others(text, all_pieces):
    """A statement for .z that is not as those for .x, .y and .w are, and one that is missing among them."""
    forms = defaultdict(list)
    for piece in all_pieces:
        if piece.kind == STATEMENT:
            parts = split(text, piece.start, piece.end)
            yield from _missing_part(text, piece, parts)
            for start, end in parts:
                slots = set(COMPONENT.findall(text[start:end]))
                target = text[start:end].split("=")[0]
                if len(slots) == 1 and "=" in text[start:end]:
                    forms[_form(target)].append((piece, start, end, slots.pop()))
    for members in forms.values():
        counts = Counter(_form(text[start:end]) for _, start, end, _ in members)
        form, count = counts.most_common(1)[0]
        for piece, start, end, slot in members:
            if _form(text[start:end]) != form and count >= 2:
                new = form.replace(".?", f".{slot}")
                whole = text[piece.start : start] + new + text[end : piece.end]
                yield Repair(0.5, ((piece, whole),), start, text[start:end], new)


def _missing_part(text, piece, parts):
    """`v.x = f(v.x), v.y = f(v.y), v.w = f(v.w)` with what is missing."""
    slots = [set(COMPONENT.findall(text[start:end])) for start, end in parts]
    forms = {_form(text[start:end]) for start, end in parts}
    there = set().union(*slots)
    if len(parts) == 3 == len(there) and len(forms) == 1 and all(len(each) == 1 for each in slots):
        (slot,) = set("xyzw") - there
        new = f", {forms.pop().replace('.?', f'.{slot}')}"
        yield Repair(0.5, ((piece, text[piece.start : piece.end] + new),), piece.end, "", new)


def _form(part) -> str:
    return COMPONENT.sub(".?", " ".join(part.split()))
