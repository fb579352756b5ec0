"""Loops and barriers in the text of a kernel, as far as advice needs them: counting braces, no parser."""

import re

from llmc.cuda.emulator.compiling.text import mask

LOOP = re.compile(r"\b(for|while)\s*\(|\bdo\s*\{")
IF = re.compile(r"\bif\s*(?:constexpr\s*)?\(|\belse\b")
UNEVEN = re.compile(r"\+=\s*(?:blockDim|gridDim)|=\s*(?:threadIdx|tid|lane|t)\b")  # each thread has rounds of its own
BLOCK_BARRIER = re.compile(r"__syncthreads|\bsync\s*\(|arrive_and_wait")
WARP_BARRIER = re.compile(r"__syncwarp")


def barrier_between(code, first, last, barrier="__syncthreads();") -> bool:
    """Whether such a barrier stands in lines first to last (both included), comments left out."""
    lines = mask(code).splitlines()[first - 1 : last]
    patterns = (BLOCK_BARRIER, WARP_BARRIER) if "warp" in barrier else (BLOCK_BARRIER,)
    return any(pattern.search(text) for text in lines for pattern in patterns)


def branch_around_both(code, first, second) -> int:
    """Line of the innermost `if` whose body holds both lines, 0 if there is none."""
    return _head_of(code, IF, first, second)


def uneven_loop(code, first, second) -> int:
    """Line of a loop around both lines whose number of rounds depends on the thread, 0 if there is none."""
    head = _head_of(code, LOOP, first, second)
    return head if head and UNEVEN.search(mask(code).splitlines()[head - 1]) else 0


def _head_of(code, pattern, *lines) -> int:
    """Line of the innermost statement that begins with `pattern`, before these lines, and holds all of them."""
    texts = mask(code).splitlines()
    for number in range(min(lines), 0, -1):
        if number <= len(texts) and (head := pattern.search(texts[number - 1])):
            last, _ = end_of_statement(texts, number, head.start())
            if last >= max(lines):
                return number
    return 0


def loop_around(code, *lines) -> tuple[int, int] | None:
    """(first, last) line of the innermost loop that holds all of `lines`, or None."""
    texts = mask(code).splitlines()
    first = _head_of(code, LOOP, *lines)
    return (first, end_of_statement(texts, first, LOOP.search(texts[first - 1]).start())[0]) if first else None


def end_of_statement(texts, first, column) -> tuple[int, str]:
    """(last line, text) of the statement that begins there: up to its closing brace, or its semicolon."""
    depth, opened, statement = 0, False, ""
    for number, text in enumerate(texts[first - 1 :], first):
        for mark in text[column:] if number == first else text:
            statement += mark
            depth += (mark in "{(") - (mark in "})")
            opened |= mark == "{"
            if depth == 0 and mark == ("}" if opened else ";"):
                return number, statement
    return len(texts), statement
