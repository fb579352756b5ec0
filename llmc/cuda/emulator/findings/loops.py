"""Loops and barriers in the text of a kernel, as far as advice needs them: counting braces, no parser."""

import re

from llmc.cuda.emulator.compiling.text import closing, line_at, statements

LOOP = re.compile(r"\b(for|while)\s*\(|\bdo\s*\{")
IF = re.compile(r"\bif\s*(?:constexpr\s*)?\(|\belse\b")
OWN = r"[^;]*\b(?:threadIdx|tid|lane|warp)\b"
EVEN = re.compile(r"\(\s*[\w\s]+=(?:(?:blockIdx|blockDim|gridDim)\.[xyz]|[A-Z_]+\b|\d+|[\s*+()])*;")  # all begin alike
UNEVEN = re.compile(  # each thread has rounds of its own
    rf"\+=\s*(?:blockDim|gridDim)|=\s*(?:threadIdx|tid|lane|t)\b|=(?!=){OWN}[^;]*;(?!{OWN})"
)
COUNTER = re.compile(r"\bfor\s*\(\s*[^;=]*?(\w+)\s*=")
UNDECLARED = re.compile(r"\bfor\s*\(\s*(\w+)\s*=")  # its variable lives on after the loop
BLOCK_BARRIER = re.compile(r"__syncthreads|\bsync\s*\(|arrive_and_wait")
WARP_BARRIER = re.compile(r"__syncwarp")


def barrier_between(code, first, last, barrier="__syncthreads();") -> bool:
    """Whether such a barrier stands in lines first to last (both included), comments left out."""
    lines = statements(code).splitlines()[first - 1 : last]
    patterns = (BLOCK_BARRIER, WARP_BARRIER) if "warp" in barrier else (BLOCK_BARRIER,)
    return any(pattern.search(text) for text in lines for pattern in patterns)


def barriers_in_branches(code, first, last) -> list[int]:
    """Lines of the `if`s, between these two lines, that hold a block's barrier there."""
    texts = statements(code).splitlines()
    barriers = (number for number in range(first, last + 1) if BLOCK_BARRIER.search(texts[number - 1]))
    return [head for head in (head_of(code, IF, number) for number in barriers) if head >= first]


def branch_around_both(code, first, second) -> int:
    """Line of the innermost `if` whose body holds both lines, 0 if there is none."""
    return head_of(code, IF, first, second)


def two_branches(code, first, second) -> int:
    """Line of an `if` that holds the first of two lines, and the second in its `else`; 0 if there is none."""
    text = statements(code)
    for head in re.finditer(r"\bif\s*\(", text):
        end = end_after(text, head.start())
        otherwise = re.compile(r"\s*else\b").match(text, end)
        if not otherwise:
            continue
        last, beginning = line_at(text, end - 1), line_at(text, otherwise.end())
        if line_at(text, head.start()) <= first <= last and beginning <= second <= _last_line(text, otherwise.end()):
            return line_at(text, head.start())
    return 0


def uneven_loop(code, first, second) -> int:
    """Line of a loop around both lines whose number of rounds depends on the thread, 0 if there is none."""
    line, text = head_of(code, LOOP, first, second), statements(code)
    loop = LOOP.search(text, sum(map(len, text.splitlines(True)[: line - 1]))) if line else None
    if not loop or not loop[1]:
        return 0
    head = text[loop.end() - 1 : closing(text, loop.end() - 1)]
    return line if UNEVEN.search(head) and not EVEN.match(head) else 0


def turns_in_a_branch(code, first, second) -> tuple[int, int]:
    """Lines of a loop around both lines and of the outermost statement in it around them, if that picks who acts in
    which round: an `if` that asks about the loop's variable, or a loop whose head compares something with it. No `if`
    is around the loop. (0, 0) without them.
    """
    texts, branch = statements(code).splitlines(), 0
    for number in range(min(first, second), 0, -1):
        if _holds(texts, number, LOOP, first, second) and not head_of(code, IF, number):
            variable = COUNTER.search(texts[number - 1])
            if branch and variable and _asks_for(variable[1], texts[branch - 1]):
                return number, branch
            branch = number
        elif _holds(texts, number, IF, first, second):
            branch = number
    return 0, 0


def _asks_for(name, text) -> bool:
    """Does an `if` on this line ask about this name, or is it what something has to equal for a loop to go on?"""
    equal = rf"\bfor\b.*(?:==\s*{name}\b|\b{name}\s*==)"
    return bool(re.search(rf"\bif\b.*\b{name}\b|{equal}", text))


def head_of(code, pattern, *lines) -> int:
    """Line of the innermost statement that begins with `pattern`, before these lines, and holds all of them."""
    texts = statements(code).splitlines()
    return next((number for number in range(min(lines), 0, -1) if _holds(texts, number, pattern, *lines)), 0)


def _holds(texts, number, pattern, *lines) -> bool:
    """Whether a statement that begins with `pattern` on line `number` goes on to the last of `lines`."""
    head = pattern.search(texts[number - 1]) if number <= len(texts) else None
    return bool(head) and end_of_statement(texts, number, head.start())[0] >= max(lines)


def condition_around(text, line, other) -> str:
    """What the `if` around this line asks; "" without one, for its `else`, and if it holds the other line, too."""
    number = head_of(text, IF, line)
    head = IF.search(text.splitlines()[number - 1]) if number else None
    if not head or not head[0].startswith("if") or head_of(text, IF, line, other) == number:
        return ""
    at = sum(map(len, text.splitlines(True)[: number - 1])) + head.end() - 1
    return " ".join(text[at + 1 : closing(text, at)].split())


def loop_around(code, *lines) -> tuple[int, int] | None:
    """(first, last) line of the innermost loop that holds all of `lines`, or None."""
    texts = statements(code).splitlines()
    first = head_of(code, LOOP, *lines)
    return (first, end_of_statement(texts, first, LOOP.search(texts[first - 1]).start())[0]) if first else None


def left_by(code, line, names) -> tuple[int, str]:
    """(line of a `for` loop that has ended before this line, its variable) if that is one of these names and still
    has the value with which the loop ended; else (0, "")."""
    texts = statements(code).splitlines()
    for number in range(line - 1, 0, -1):
        loop = UNDECLARED.search(texts[number - 1])
        if loop and loop[1] in names:
            last, _ = end_of_statement(texts, number, loop.start())
            again = re.compile(rf"(?<![\w.]){loop[1]}\s*(?:[-+*/]?=(?!=)|\+\+|--)|\bfor\s*\([^;]*\b{loop[1]}\s*=")
            return (number, loop[1]) if last < line and not any(map(again.search, texts[last:line])) else (0, "")
    return 0, ""


def end_of_statement(texts, first, column) -> tuple[int, str]:
    """(last line, text) of the statement that begins there: up to its closing brace, or its semicolon."""
    text = "\n".join([texts[first - 1][column:], *texts[first:]])
    end = end_after(text, 0)
    return first + text.count("\n", 0, end), text[:end]


def _last_line(text, start) -> int:
    return line_at(text, end_after(text, start) - 1)


def end_after(text, start) -> int:
    """The position after the statement that begins there."""
    depth, opened = 0, False
    for at in range(start, len(text)):
        mark = text[at]
        depth += (mark in "{(") - (mark in "})")
        opened |= mark == "{" and depth == 1  # not that of a value, as in `f({a, b})`
        if depth == 0 and mark == ("}" if opened else ";"):
            return at + 1
    return len(text)
