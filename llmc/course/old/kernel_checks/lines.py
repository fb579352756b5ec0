"""Repairs of a kernel that take in several pieces of it: statements and names exchanged, a sum and its first value.

`repairs` makes those of single pieces; what is made of all of them together, everywhere, is here as well.
"""

import re
from collections import defaultdict
from itertools import combinations
from typing import NamedTuple

from llmc.course.old.kernel_checks.names_in_c import WHOLE
from llmc.course.old.kernel_checks.pieces import EXPRESSION, STATEMENT
from llmc.course.old.kernel_checks.pieces import first_turns as places_of_turns
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at

NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
NAMED = re.compile(r"(?P<name>\w+)\s*=\s*$")
SIZE = re.compile(r"%\s*(\w+)$")  # below which a coordinate stays
SUMMED = re.compile(  # behind the first value of a sum
    r"\s*;\s*for\s*\(\s*\w+\s+(?P<s>\w+)\s*=\s*1\s*;[^;]*;[^)]*\)\s*\{?\s*(?P<name>\w+)\s*\+=\s*(?P<term>[^;]+);"
)
NEAR = 0.2  # by which a change in each of some neighbouring lines is less likely than one


class Repair(NamedTuple):
    """rank: 0 for the likeliest kind. changes: {piece: its new text}. at: a position in the code, old and new words.

    old is "" for something inserted, new "" for something left out.
    """

    rank: float
    changes: tuple[tuple[object, str], ...]
    at: int
    old: str
    new: str


def exchanged_statements(text, all_pieces):
    """Two statements, one right behind the other, in the other order."""
    for one, other in zip(all_pieces, all_pieces[1:]):
        if one.kind == other.kind == STATEMENT and text[one.end : other.start].strip() == ";":
            first, second = text[one.start : one.end], text[other.start : other.end]
            if first != second and "return" not in (first[:6], second[:6]):
                yield Repair(1, ((one, second), (other, first)), one.start, first, second)


def first_turns(code):
    """`do { … } while (c);` as `while (c) { … }`."""
    return [Repair(0, ((piece, condition),), piece.start, "", condition) for piece, condition in places_of_turns(code)]


def exchanged_values(text, all_pieces):
    """`t = i / C % T` and `c = i % C` for `t = i % C` and `c = i / C % T`: each has the size of its own name then."""
    declared = [(NAMED.search(text, 0, piece.start), piece) for piece in all_pieces if piece.kind == EXPRESSION]
    for (a, one), (b, other) in combinations([(named["name"], piece) for named, piece in declared if named], 2):
        first, second = text[one.start : one.end], text[other.start : other.end]
        if a != b and (_size(first), _size(second)) == (b.upper(), a.upper()):
            old, new = f"{a} = {first}` and `{b} = {second}", f"{a} = {second}` and `{b} = {first}"
            yield Repair(0.9, ((one, second), (other, first)), one.start, old, new)


def _size(value) -> str:
    """ "T" of `i / C % T`."""
    found = SIZE.search(value)
    return found[1] if found else ""


def starts(text, all_pieces):
    """`float sum = f(0);` where a loop from 1 on adds f(s), for a first value that is made otherwise."""
    for piece in all_pieces:
        loop = SUMMED.match(text, piece.end) if piece.kind == EXPRESSION else None
        named = NAMED.search(text, 0, piece.start) if loop else None
        if named and named["name"] == loop["name"]:
            new, old = re.sub(rf"\b{loop['s']}\b", "0", loop["term"]), text[piece.start : piece.end]
            if new != old:
                yield Repair(1, ((piece, new),), piece.start, old, new)


def exchanged_names(text, all_pieces, known):
    """Two whole numbers of a line exchanged: `k0 + k < K && m0 + lane < M` for `k0 + lane < K && m0 + k < M`."""
    lines = defaultdict(list)
    for piece in all_pieces:
        lines[line_at(text, piece.start)].append(piece)
    alone = [[piece] for group in lines.values() if len(group) > 1 for piece in group]
    for there in [*lines.values(), *alone]:
        words = NAME.findall(" ".join(text[p.start : p.end] for p in there))
        names = [name for name in dict.fromkeys(words) if known.types.get(name) in WHOLE]
        for a, b in combinations(names, 2):
            new = [(p, _with_exchanged(text[p.start : p.end], {a: b, b: a})) for p in there]
            changes = tuple((p, other) for p, other in new if other != text[p.start : p.end])
            if changes:
                yield Repair(1.5, changes, changes[0][0].start, f"{a}` and `{b}", f"{b}` and `{a}")


def _with_exchanged(text, names) -> str:
    """The text with these two names exchanged, but for their own product, which is the same in either order."""
    products = [rf"(?<![\w.])(?<![/%] ){a} \* {b}\b" for a, b in names.items() if f"{a} * {b}" in text]
    words = re.compile("|".join([*products, NAME.pattern])) if products else NAME
    return words.sub(lambda found: names.get(found[0], found[0]), text)


def everywhere(text, single):
    """One change made in all pieces where it fits, in all those of one line, and in all that have the same text."""
    same = defaultdict(list)
    for each in single:
        if len(each.changes) == 1 and each.old and each.new and each.rank <= 2:
            same[each.old, each.new, 0].append(each)
            same[each.old, each.new, line_at(text, each.at)].append(each)
            piece = each.changes[0][0]
            same[each.old, each.new, text[piece.start : piece.end]].append(each)  # `c += blockDim.x` of several loops
    for (old, new, _), members in same.items():
        found = {each.changes[0][0]: None for each in members}
        if len(members) < 2:
            continue
        changes = [(piece, _replaced(text[piece.start : piece.end], old, new)) for piece in found]
        there = sorted({line_at(text, each.at) for each in members})
        together = there[-1] - there[0] < len(there)  # a block of lines, in which one index mostly is as the others
        yield Repair(members[0].rank + (NEAR if together else 1), tuple(changes), members[0].at, old, new)


def _replaced(mine, old, new) -> str:
    """The text with every `old` replaced; of a sign, those between two operands: not the star of `(float4*)x`."""
    if re.fullmatch(r"[^\w\s]+", old):
        each = Tokens(mine)
        for k in reversed(range(len(each.all))):
            token = each.all[k]
            if token.text == old and each.is_binary(k):
                mine = mine[: token.start] + new + mine[token.end :]
        return mine
    bounds = r"\b" if re.fullmatch(r"[\w.]+", old) else ""
    return re.sub(rf"{bounds}{re.escape(old)}{bounds}", new.replace("\\", r"\\"), mine)
