"""Two lines of a kernel, and what stands between them: its text with a barrier there, or with the two in another order.

All changes leave the line breaks as they are, so that what is found in the changed kernel has the learner's lines.
"""

import re

from llmc.cuda.emulator.compiling.text import closing, statements
from llmc.cuda.emulator.findings.barrier_advice import Place
from llmc.cuda.emulator.findings.loops import BLOCK_BARRIER, LOOP, WARP_BARRIER, end_after

OTHERWISE = re.compile(r"\s*else\b")
WHOLE = re.compile(r"\b(?:const\s+)?(?:int|size_t|unsigned|bool)\s+\w+\s*=[^;{}]*;")  # a declaration both loops need
BRANCH, COUNTED = re.compile(r"\bif\s*\("), re.compile(r"\b(?:for|while)\s*\(")


def with_barrier(code, place: Place, barrier) -> str | None:
    """The code with a barrier at that place; None where this does not know how."""
    if place.head == "end of a loop":
        return _at_the_end(code, place.line, barrier)
    if place.head == "after a call":
        statement = _around_line(code, place.line)
        return _put(code, statement[1], barrier) if statement else None
    parts = parted(code, place.first, place.second)
    if parts is None:
        return None
    (_, first_end), (second, _) = parts
    if not place.line:
        return _put(code, second, barrier)
    block, text = _block_around(statements(code), first_end), statements(code)
    head = _head(text, block[0], BRANCH)
    if head is None or OTHERWISE.match(text, block[1] + 1):
        return _put(code, second, barrier)
    return _put(code, second, f"}} {barrier} {head} {{")


def parted(code, first, second) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """(start, end) of the statements that hold these two lines, of the innermost block that has one for each."""
    text = statements(code)
    a, b = _start_of(text, first), _start_of(text, second)
    block = _block_around(text, a)
    while block and not block[0] <= b < block[1]:
        block = _block_around(text, block[0])
    if not block or a >= b:
        return None
    one, other = _statement_at(text, block, a), _statement_at(text, block, b)
    return (one, other) if one and other and one != other else None


def exchanged(code, first, second, barrier) -> str | None:
    """The code in which the statement of the second line comes before that of the first, and a barrier between."""
    parts = parted(code, first, second)
    if parts is None:
        return None
    (a, a_end), (b, b_end) = parts
    moved = " ".join(statements(code)[b:b_end].split())
    blank = re.sub(r"[^\n]", " ", code[b:b_end])
    return f"{code[:a]}{moved} {barrier} {code[a:b]}{blank}{code[b_end:]}"


def in_two_loops(code, first, second, barrier) -> str | None:
    """The code with one loop for each line in place of the one around both: parted at its barrier, or by this one."""
    parts, text = parted(code, first, second), statements(code)
    if parts is None:
        return None
    (_, first_end), (second_start, _) = parts
    block = _block_around(text, first_end)
    there = BLOCK_BARRIER.search(text, first_end, second_start) or WARP_BARRIER.search(text, first_end, second_start)
    head = _head(text, block[0], COUNTED)
    if head is None:
        return None
    first_part = text[block[0] : there.start() if there else second_start]
    again = " ".join([head, "{", *(" ".join(each.split()) for each in WHOLE.findall(first_part))])
    if there is None:
        return _put(code, second_start, f"}} {barrier} {again}")
    end = text.index(";", there.start()) + 1
    return f"{code[: there.start()]}}} {code[there.start() : end]} {again}{code[end:]}"


def in_front(code, line, guard) -> str:
    """The code with a condition in front of the statement on this line."""
    return _put(code, _start_of(statements(code), line), guard)


def _put(code, position, barrier) -> str:
    return f"{code[:position]} {barrier} {code[position:]}"


def _at_the_end(code, line, barrier) -> str | None:
    """The code with a barrier at the end of the body of the loop that begins on this line."""
    text = statements(code)
    head = LOOP.search(text, _start_of(text, line))
    if not head or not head[1]:
        return None
    body, end = closing(text, head.end() - 1) + 1, end_after(text, head.start())
    if text[body:end].lstrip().startswith("{"):
        return _put(code, end - 1, barrier)
    end = _with_else(text, body)
    return f"{code[:body]} {{{code[body:end]} {barrier} }}{code[end:]}"


def _head(text, opening, pattern) -> str | None:
    """ "if (i < n)" in front of the brace at `opening`; None if something else stands there."""
    for match in pattern.finditer(text, 0, opening):
        end = closing(text, match.end() - 1) + 1
        if not text[end:opening].strip():
            return " ".join(text[match.start() : end].split())
    return None


def _around_line(code, line) -> tuple[int, int] | None:
    """(start, end) of the statement of the innermost block that holds this line."""
    text = statements(code)
    at = _start_of(text, line)
    block = _block_around(text, at)
    return _statement_at(text, block, at) if block else None


def _start_of(text, line) -> int:
    """Where the first character of a line stands that is no blank."""
    at = sum(map(len, text.splitlines(True)[: line - 1]))
    return at + len(text[at:]) - len(text[at:].lstrip())


def _block_around(text, position) -> tuple[int, int] | None:
    """(its opening brace, its closing one) of the innermost braces around a position."""
    depth = 0
    for at in range(position - 1, -1, -1):
        depth += (text[at] == "}") - (text[at] == "{")
        if depth < 0:
            return at, _closing_brace(text, at)
    return None


def _closing_brace(text, opening) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    return len(text)


def _statement_at(text, block, position) -> tuple[int, int] | None:
    """(start, end) of the statement in this block, not in an inner one, that holds the position."""
    at = block[0] + 1
    while at < block[1]:
        start = at + len(text[at : block[1]]) - len(text[at : block[1]].lstrip())
        at = _with_else(text, start)
        if start <= position < at:
            return start, at
    return None


def _with_else(text, start) -> int:
    """The end of the statement that begins there, with all its branches."""
    end = end_after(text, start)
    while otherwise := OTHERWISE.match(text, end):
        end = end_after(text, otherwise.end())
    return end
