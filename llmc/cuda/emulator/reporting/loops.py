"""Loops and barriers in the text of a kernel, as far as advice needs them: counting braces, no parser."""

import re

LOOP = re.compile(r"\b(for|while)\s*\(|\bdo\s*\{")
BARRIER = re.compile(r"__syncthreads|__syncwarp|\bsync\s*\(|arrive_and_wait")


def barrier_between(code, first, last) -> bool:
    """Whether a barrier stands in lines first to last (both included), comments left out."""
    return any(BARRIER.search(text) for text in _without_comments(code)[first - 1 : last])


def loop_around(code, *lines) -> tuple[int, int] | None:
    """(first, last) line of the innermost loop that holds all of `lines`, or None."""
    texts = _without_comments(code)
    for first in range(min(lines), 0, -1):
        if first <= len(texts) and LOOP.search(texts[first - 1]):
            last = _end(texts, first)
            if last >= max(lines):
                return first, last
    return None


def _end(texts, first) -> int:
    """The last line of the loop that starts in line `first`: its closing brace, or the statement's semicolon."""
    depth = opened = 0
    for number, text in enumerate(texts[first - 1 :], first):
        for mark in text[LOOP.search(text).start() :] if number == first else text:
            depth += (mark in "{(") - (mark in "})")
            opened |= mark == "{"
            if depth == 0 and (mark == "}" if opened else mark == ";"):
                return number
    return len(texts)


def _without_comments(code) -> list[str]:
    """The lines of `code`, each still at its place."""
    code = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), code, flags=re.DOTALL)
    return [text.split("//")[0] for text in code.splitlines()]
