"""Code whose loops can be stopped: a mutant may never end."""

import ast
import sys
import time

TICK = "__tick__"


MANY = 200_000  # turns that a range may have: a comprehension cannot be stopped


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


def is_tick(line) -> bool:
    """Is that line such a call?"""
    called = getattr(line.value, "func", None) if isinstance(line, ast.Expr) else None
    return getattr(called, "id", "") == TICK


def compiled(function) -> bool:
    """Is it decorated with one of Numba's compilers?"""
    return any("jit" in ast.unparse(line) for line in function.decorator_list)


class _Stoppable(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node if compiled(node) else self.generic_visit(node)

    def visit_For(self, node):
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name(TICK, ast.Load()), [], [])))
        return node

    visit_While = visit_For
