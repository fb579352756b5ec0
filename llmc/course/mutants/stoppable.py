"""Code whose loops can be stopped: a mutant may never end."""

import ast
import copy
import sys
import time

TICK, POWER = "__tick__", "__power__"

MANY = 200_000  # turns that a range may have: a comprehension cannot be stopped
LONG = 100_000  # bits that a whole number may have: a power cannot be stopped


class TooLong(Exception):
    """A loop was still running at its deadline, or would be."""


def short_range(*arguments) -> range:
    """range(*arguments); TooLong if it has MANY turns or more."""
    turns = range(*arguments)
    if len(turns) >= MANY:
        raise TooLong
    return turns


def ticking(deadline: float, seen=None) -> dict:
    """The name that stoppable code calls: it raises TooLong once time.thread_time() is past the deadline.

    seen: a set for (function, line) of every loop that makes a turn.
    """

    def tick():
        if seen is not None:
            frame = sys._getframe(1)
            seen.add((frame.f_code.co_name, frame.f_lineno))
        if time.thread_time() > deadline:
            raise TooLong

    return {TICK: tick}


def stoppable(tree):
    """The tree, changed: every loop calls TICK in each round, except in functions that Numba compiles."""
    return ast.fix_missing_locations(_Stoppable().visit(tree))


def with_short_powers(tree):
    """The tree, or a changed copy in which every power that is not a constant one is a call of POWER."""
    return (
        ast.fix_missing_locations(_Powers().visit(copy.deepcopy(tree))) if any(map(_is_power, ast.walk(tree))) else tree
    )


def short_power(base, exponent):
    """base ** exponent; TooLong if that is a whole number of LONG bits or more."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and base.bit_length() * exponent >= LONG:
        raise TooLong
    return base**exponent


def is_tick(line) -> bool:
    """Is that line such a call?"""
    called = getattr(line.value, "func", None) if isinstance(line, ast.Expr) else None
    return getattr(called, "id", "") == TICK


def compiled(function) -> bool:
    """Is it decorated with one of Numba's compilers?"""
    return any("jit" in ast.unparse(line) for line in function.decorator_list)


def _is_power(node) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not isinstance(node.right, ast.Constant)


class _Powers(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name(POWER, ast.Load()), [node.left, node.right], []) if _is_power(node) else node


class _Stoppable(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node if compiled(node) else self.generic_visit(node)

    def visit_For(self, node):
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name(TICK, ast.Load()), [], [])))
        return node

    visit_While = visit_For
