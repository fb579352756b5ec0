"""What may have been meant in a piece of a kernel: quarters where float4s are counted, quotients of floats, a loop's
variable where its first value stands, what was subtracted inside of a call.
"""

import re
from collections import Counter

from llmc.course.old.kernel_checks.names_in_c import REAL, WHOLE

SIMPLE = re.compile(r"\w+")


def meant(each, piece, known):
    """(rank, start, end, new, words for what was there) of every such change; each: Tokens of the piece."""
    yield from _quarters(each, known)
    yield from _sums_that_occur_twice(each, piece, known)
    yield from _variables_of_loops(each, piece, known)
    yield from _places_of_threads(each, piece, known)
    for k, token in enumerate(each.all):
        following = each.all[k + 1].text if k + 1 < len(each.all) else ""
        if token.kind == "name" and following == "(":
            yield from _taken_out(each, k)
        elif token.text == "/" and each.is_binary(k):
            yield from _of_floats(each, k, known)


def _quarters(each, known):
    """`warp * C` as `warp * (C / 4)` in a kernel of float4s."""
    if not any("float4" in kind for kind in known.types.values()):
        return
    for k, token in enumerate(each.all):
        before = each.all[k - 1].text if k else ""
        behind = each.all[k + 1].text if k + 1 < len(each.all) else ""
        if before == "*" and each.is_binary(k - 1) and behind != "/" and known.types.get(token.text) in WHOLE:
            yield 1.2, token.start, token.end, f"({token.text} / 4)", token.text


def _of_floats(each, k, known):
    """`n / m` of whole numbers as `(float)n / m`."""
    left, right = each.all[k - 1], each.all[k + 1]
    if known.types.get(left.text) in WHOLE and known.types.get(right.text) in WHOLE:
        if any(known.types.get(token.text) in REAL for token in each.all):
            yield 1.1, left.start, left.start, "(float)", ""


def _taken_out(each, k):
    """`f(a - b)` as `f(a) - b`."""
    opening, closing = k + 1, each.closing(k + 1)
    signs = [j for j in range(opening + 2, closing) if each.all[j].text in ("+", "-") and each.is_binary(j)]
    alone = [j for j in signs if _depth(each, opening, j) == 1 and each.all[j + 1].kind == "name"]
    if not alone or "," in [each.all[j].text for j in range(opening, closing) if _depth(each, opening, j) == 1]:
        return
    last = alone[-1]
    start, end, whole = each.all[k].start, each.all[closing].end, each.piece(k, closing)
    name, first, rest = each.all[k].text, each.piece(opening + 1, last - 1), each.piece(last, closing - 1)
    yield 1.2, start, end, f"({name}({first}) {rest})", whole


def _sums_that_occur_twice(each, piece, known):
    """`n0 + column` as `n0 + row`, in every place of a statement that has `row`, too."""
    sums, there = Counter(), {token.text for token in each.all}
    for k, token in enumerate(each.all):
        if token.text == "+" and each.is_binary(k):
            pair = each.all[k - 1].text, each.all[k + 1].text
            if all(known.types.get(name) in WHOLE for name in pair):
                sums[each.piece(k - 1, k + 1), pair] += 1
    for (whole, (first, second)), count in sums.items():
        for new in known.known_at(piece.start, WHOLE) if count > 1 else ():
            for other in (f"{first} + {new}", f"{new} + {second}"):
                if new in there - {first, second}:
                    text = re.sub(rf"(?<![\w.]){re.escape(whole)}\b", other, each.text)
                    yield 1.4, 0, len(each.text), text, each.text


def _variables_of_loops(each, piece, known):
    """`warp * 16` as `first`, in the body of `for (int first = warp * 16; …`."""
    for name, value in known.loops_around(piece.start):
        at = re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.\[(])", each.text)
        if at and not SIMPLE.fullmatch(value):
            yield 0.8, *at.span(), name, value


def _places_of_threads(each, piece, known):
    """`threadIdx.x` as `t`, which is made from it."""
    for token in each.all:
        if token.text == "threadIdx.x":
            for name in known.made_from_threads(piece.start):
                yield 0.9, token.start, token.end, name, token.text


def _depth(each, opening, at) -> int:
    marks = [token.text for token in each.all[opening:at]]
    return sum(mark in "([{" for mark in marks) - sum(mark in ")]}" for mark in marks)
