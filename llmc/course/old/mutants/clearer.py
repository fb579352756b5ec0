"""Words for a change that do not show which of several places is meant: what belongs there is quoted instead.

"`value - centre` in place of `delta` in `delta * delta`" may mean either `delta`, and needs brackets.
"""

import ast
import re
from collections.abc import Iterator

from llmc.course.old.mutants.places import quoted, times

PIECE = re.compile(r" in (?:the slice )?`(?P<piece>[^`]+)`$")
QUOTATIONS = re.compile(r"`([^`]+)`")
BARE = re.compile(r"[A-Za-z_][\w.]*|-?[\d.]+")  # a name or a number
DIVISION = "without the division by "  # of which there is one
LONGEST = 60  # characters of what is quoted instead


def unclear(words, lines) -> bool:
    """May what is changed stand several times in the piece that the words quote, or this piece in its line?"""
    match = PIECE.search(words)
    if not match or words.startswith(DIVISION):
        return False
    piece, before = match["piece"], words[: match.start()].rpartition(" in place of ")[2]
    names = [each for each in QUOTATIONS.findall(before) if BARE.fullmatch(each)]
    several = any(times(each, piece) > 1 for each in names) and "exchanged" not in before
    return several or bool(names) and "…" in piece or any(times(piece, line) > 1 for line in lines)


def clearer(words, lines, tree) -> str:
    """The words; if they are unclear, others that quote a piece before and after the change, where a short one does.

    lines: of the tree before the change.
    """
    if not unclear(words, lines):
        return words
    pairs = [*_changed(ast.parse("\n".join(lines)), tree)]
    for old, new in reversed(pairs):  # the smallest first
        text = ast.unparse(old)
        line = next((line for line in lines if text in line), "")
        if times(text, line) == 1 and len(text) <= LONGEST and not BARE.fullmatch(text):
            return f"with {quoted(new)} in place of {quoted(old)}"
    return words


def _changed(old, new) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The pairs of expressions in two trees that hold the one difference between them, the outermost first."""
    while True:
        if isinstance(old, ast.expr) and isinstance(new, ast.expr):
            yield old, new
        if type(old) is not type(new):
            return
        pairs = [(getattr(old, name), getattr(new, name)) for name in old._fields]
        parts = []
        for one, it in pairs:
            both = isinstance(one, list) and isinstance(it, list) and len(one) == len(it)
            parts += zip(one, it) if both else [(one, it)]
        parts = [(one, it) for one, it in parts if _dumped(one) != _dumped(it)]
        if len(parts) != 1 or not all(isinstance(part, ast.AST) for part in parts[0]):
            return
        old, new = parts[0]


def _dumped(part) -> str:
    return ast.dump(part) if isinstance(part, ast.AST) else repr(part)
