"""Loops and barriers in the text of a kernel, as far as advice needs them: counting braces, no parser."""

import re

from llmc.cuda.emulator.compiling.text import mask

LOOP = re.compile(r"\b(for|while)\s*\(|\bdo\s*\{")
BARRIER = re.compile(r"__syncthreads|__syncwarp|\bsync\s*\(|arrive_and_wait")


def barrier_between(code, first, last) -> bool:
    """Whether a barrier stands in lines first to last (both included), comments left out."""
    return any(BARRIER.search(text) for text in mask(code).splitlines()[first - 1 : last])


def loop_around(code, *lines) -> tuple[int, int] | None:
    """(first, last) line of the innermost loop that holds all of `lines`, or None."""
    texts = mask(code).splitlines()
    for first in range(min(lines), 0, -1):
        if first <= len(texts) and (loop := LOOP.search(texts[first - 1])):
            last, _ = end_of_statement(texts, first, loop.start())
            if last >= max(lines):
                return first, last
    return None


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
