"""Where a kernel's text subtracts a number from itself, or multiplies by it and then divides by it: the variable was
changed too early, and what it held before is gone."""

import re
from itertools import accumulate

from llmc.course.old.kernel_checks.pieces import pieces
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at, statements

EXP = ("expf", "__expf", "exp", "exp2f")
NAME = r"[A-Za-z_][\w.]*"
VARIABLE = re.compile(NAME)
DIFFERENCE = re.compile(rf"({NAME}) - ({NAME}|fmaxf\({NAME}, {NAME}\))")
TYPE = re.compile(r"(?:\b(?:const|float|double|auto)\s+)+$")


def cancelled(code) -> list[str]:
    """Sentences about `expf(top - top)` and `a.count * n / a.count`, each true of this text."""
    text, found = statements(code), []
    for piece in pieces(code):
        each = Tokens(text[piece.start : piece.end])
        for k, token in enumerate(each.all):
            if token.text in EXP and k + 1 < len(each.all) and each.all[k + 1].text == "(":
                found += _always_one(text, each, k, piece)
            elif token.text == "/" and each.is_binary(k):
                found += _divided_again(text, each, k, piece)
    return list(dict.fromkeys(found))


def _always_one(text, each, k, piece) -> list[str]:
    closing = each.closing(k + 1)
    inside = DIFFERENCE.fullmatch(each.piece(k + 2, max(k + 2, closing - 1)))
    if not inside:
        return []
    first, second = inside.groups()
    line, call = line_at(text, piece.start), each.piece(k, closing)
    if first != second:
        same = _set_to(text, piece.start, first, second) or _set_to(text, piece.start, second, first)
        if not same:
            return []
        return [f"Line {line}: `{call}` is always 1, because line {same} has made the two the same: {KEEP}."]
    before = _changed(text, piece.start, first)
    why = f", because line {before} has put the new number into `{first}`" if before else ""
    return [f"Line {line}: `{call}` is always 1{why}: {KEEP}."]


KEEP = "keep the old number until the factor is computed"


def _divided_again(text, each, k, piece) -> list[str]:
    """`x * … / x`."""
    divisor = each.piece(k + 1, each.after(k + 1))
    first = each.term(k - 1, False)
    if not VARIABLE.fullmatch(divisor) or first == k - 1 or _is_whole(text, divisor):
        return []
    at, factors = first, []
    while at < k:
        end = each.after(at)
        if at > first and each.all[at - 1].text != "*":
            return []
        factors.append(each.piece(at, end))
        at = end + 2
    if divisor not in factors or each.all[first - 1].text in ("/", "%") and first:
        return []
    line, before = line_at(text, piece.start + each.all[k].start), _changed(text, piece.start, divisor)
    if not before:
        return []
    return [
        f"Line {line} multiplies by `{divisor}` and divides by it, so it cancels: line {before} has changed it before. "
        "Keep the old number if that is meant."
    ]


def _is_whole(text, name) -> bool:
    return bool(re.search(rf"\b(?:int|unsigned|size_t)\s[^;(){{}}]*\b{re.escape(name)}\b", text))


def _changed(text, position, name) -> int:
    """The line of the last change of a variable before that place, which is no declaration; 0 without one."""
    change = re.compile(rf"(?:^|[;{{}}),])\s*{re.escape(name)}\s*[-+*/]?=(?!=)")
    last = [match for match in change.finditer(text, 0, position) if _in_one_function(text, match.end(), position)]
    return line_at(text, last[-1].end() - 1) if last else 0


def _set_to(text, position, name, other) -> int:
    """The line of `name = other;`, or `name = other = …`, if neither changes from there to that place; else 0."""
    last = [*re.finditer(rf"(?<![\w.]){re.escape(name)}\s*[-+*/]?=(?!=)", text[:position])][-1:]
    same = last and re.compile(rf"\s*{re.escape(other)}\s*(?:;|=(?!=))").match(text, last[0].end())
    if not same:
        return 0
    (last,) = last
    between = text[same.end() : position]
    depths = [0, *accumulate((mark == "{") - (mark == "}") for mark in between)]
    before = TYPE.sub("", text[: last.start()]).rstrip()
    unconditional = before.endswith((";", "{", "}")) and min(depths) == depths[-1] == 0  # in a loop, later lines count
    parts = "|".join(re.escape(part) for part in VARIABLE.findall(other))
    if not unconditional or re.search(rf"(?<![\w.])(?:{parts})\s*[-+*/]?=(?!=)", between):
        return 0
    return line_at(text, last.start()) if _in_one_function(text, last.end(), position) else 0


def _in_one_function(text, start, end) -> bool:
    return not re.search(r"__device__|__global__", text[start:end])
