"""Quotients of whole numbers that become part of a float: what is behind the point is lost."""

import copy
import re
from contextlib import suppress

import numpy as np

from llmc.course.kernel_checks.names_in_c import REAL, WHOLE, Names
from llmc.course.kernel_checks.pieces import pieces
from llmc.course.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.errors import KernelError, UserError

TRIES = 2  # of kernels that are compiled for this
FLOAT = re.compile(r"\b(?:float|double)\s+[^;(){}]*=\s*$")
NUMBER = re.compile(r"\d+u?")


def cut_off(code, again, arguments) -> list[str]:
    """A sentence about a quotient without which, in floats, the kernel leaves other numbers.

    again: launches this kernel, a partial of a function whose first argument is the code. arguments: before the launch.
    """
    for start, quotient in list(quotients(code))[:TRIES]:
        with suppress(KernelError, UserError):
            converted = code[:start] + "(float)" + code[start:]
            if _leaves(again, converted, arguments) != _leaves(again, code, arguments):
                return [
                    f"Line {line_at(code, start)}: `{quotient}` divides whole numbers, so what is behind the point is "
                    f"cut off: convert one of them first, `(float){quotient}`."
                ]
    return []


def quotients(code):
    """(where it begins, its text) of each quotient of two whole numbers in an expression of floats."""
    text, all_pieces = statements(code), pieces(code)
    known = Names(text, all_pieces)
    for piece in all_pieces:
        each = Tokens(text[piece.start : piece.end])
        floats = FLOAT.search(text, 0, piece.start) or any(known.types.get(t.text) in REAL for t in each.all)
        for k, token in enumerate(each.all) if floats else ():
            last = each.after(k + 1) if token.text == "/" and each.is_binary(k) else 0
            if last and _of_whole(each, k, last, known) and not _in_an_index(each, k):
                yield piece.start + each.all[k - 1].start, each.piece(k - 1, last)


def _of_whole(each, k, last, known) -> bool:
    """Is it `n / m` or `1 / (n * m)` of whole numbers alone, with no other factor before it?"""
    left, before = each.all[k - 1].text, each.all[k - 2].text if k > 1 else ""
    alone = before not in ("*", "/", "%", ".", "->", "]", ")")
    names = [token.text for token in each.all[k + 1 : last + 1] if token.kind == "name"]
    divisor = names and all(known.types.get(name) in WHOLE for name in names)
    return bool(alone and divisor and (known.types.get(left) in WHOLE or NUMBER.fullmatch(left)))


def _in_an_index(each, k) -> bool:
    marks = [token.text for token in each.all[:k]]
    return marks.count("[") > marks.count("]")


def _leaves(again, code, arguments) -> list:
    """What a launch of that code leaves in the arrays; bytes."""
    given = copy.deepcopy(arguments)
    again.func(code, *again.args[1:], given, **again.keywords)
    return [a.tobytes() for a in given if isinstance(a, np.ndarray)]
