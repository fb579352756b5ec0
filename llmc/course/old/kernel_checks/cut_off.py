"""Quotients of whole numbers that become part of a float: what is behind the point is lost."""

import copy
import re
from contextlib import suppress

import numpy as np

from llmc.course.old.kernel_checks.experiments import ALIKE
from llmc.course.old.kernel_checks.names_in_c import REAL, WHOLE, Names
from llmc.course.old.kernel_checks.pieces import pieces
from llmc.course.old.kernel_checks.tokens import Tokens
from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.errors import KernelError, UserError

TRIES = 2  # of kernels that are compiled for this
FLOAT = re.compile(r"\b(?:float|double)\s+[^;(){}]*=\s*$")
NUMBER = re.compile(r"\d+u?")


def cut_off(code, again, arguments, right) -> list[str]:
    """A sentence about a quotient without which, in floats, the kernel leaves better numbers.

    again: launches this kernel, a partial of a function whose first argument is the code. arguments: before the launch.
    right(): the arguments as a right kernel leaves them; None where nobody knows.
    """
    several = list(quotients(code))[:TRIES]
    wanted = right() if several else None
    for start, quotient in several if wanted else []:
        with suppress(KernelError, UserError):
            converted = code[:start] + "(float)" + code[start:]
            if _better(_leaves(again, converted, arguments), _leaves(again, code, arguments), wanted):
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
    """The arguments as a launch of that code leaves them."""
    given = copy.deepcopy(arguments)
    again.func(code, *again.args[1:], given, **again.keywords)
    return given


def _better(converted, cut, right) -> bool:
    """Is no number worse, and are more of them right, or all of them together much nearer to what is right?

    A little nearer may be by chance: a kernel that cuts off on purpose may have another mistake.
    """
    with np.errstate(all="ignore"):
        after, before = (_errors(each, right) for each in (converted, cut))
    if not np.isfinite(after).all():
        return False
    fewer = (after <= ALIKE).sum() > (before <= ALIKE).sum() and not ((before <= ALIKE) & (after > ALIKE)).any()
    return bool(fewer or after.sum() < before.sum() / 2)


def _errors(got, right):
    """How far each number of the arrays is from the right one, relative to the largest there; (n,)."""
    pairs = [
        (a.reshape(-1).astype(np.float64), np.asarray(b).reshape(-1).astype(np.float64))
        for a, b in zip(got, right)
        if isinstance(a, np.ndarray)
    ]
    return np.concatenate([np.where(a == b, 0, np.abs(a - b) / max(np.abs(b).max(initial=0), 1e-30)) for a, b in pairs])
