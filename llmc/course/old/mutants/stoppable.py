"""Code whose loops can be stopped: a mutant may never end."""

import ast
import copy
import sys
import time

TICK, LATE, POWER, TIMES = "__tick__", "__late__", "__power__", "__times__"
OF_MANY = ("prod", "sum", "max", "min", "len", "sorted", "list", "tuple")  # they may be given a list that is repeated

MANY = 200_000  # turns that a range may have, and parts that a repeated list may have
RISKY = (ast.Lambda, ast.comprehension)
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
    """The names that stoppable code calls: they raise TooLong once time.thread_time() is past the deadline.

    seen: a set for (function, line) of every loop that makes a turn.
    """

    def tick():
        if seen is not None:
            frame = sys._getframe(1)
            seen.add((frame.f_code.co_name, frame.f_lineno))
        late()

    def late():
        if time.thread_time() > deadline:
            raise TooLong

    return {TICK: tick, LATE: late}


def stoppable(tree):
    """The tree, changed: every loop calls TICK in each round, except in functions that Numba compiles."""
    return ast.fix_missing_locations(_Stoppable().visit(tree))


def ending(tree):
    """The tree, or a changed copy that ends also where its lines alone do not show how long it takes.

    There every lambda and every comprehension asks whether it is LATE, and what may be far too large is a call of POWER
    or TIMES.
    """
    risky = any(isinstance(node, RISKY) or _is_power(node) or _repeats(node) for node in ast.walk(tree))
    return ast.fix_missing_locations(_Ending().visit(copy.deepcopy(tree))) if risky else tree


def short_power(base, exponent):
    """base ** exponent; TooLong if that is a whole number of LONG bits or more."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and base.bit_length() * exponent >= LONG:
        raise TooLong
    return base**exponent


def short_product(a, b):
    """a * b; TooLong if that is a list, say, of MANY or more."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, list | tuple | str | bytes) and isinstance(other, int) and len(one) * other >= MANY:
            raise TooLong
    return a * b


def is_tick(line) -> bool:
    """Is that line such a call?"""
    called = getattr(line.value, "func", None) if isinstance(line, ast.Expr) else None
    return getattr(called, "id", "") == TICK


def compiled(function) -> bool:
    """Is it decorated with one of Numba's compilers?"""
    return any("jit" in ast.unparse(line) for line in function.decorator_list)


def _is_power(node) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not isinstance(node.right, ast.Constant)


def _repeats(node) -> bool:
    named = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in OF_MANY
    return named and any(map(_is_product, node.args))


def _is_product(node) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


class _Ending(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node if compiled(node) else self.generic_visit(node)

    def visit_Lambda(self, node):
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [_call(LATE), node.body])
        return node

    def visit_comprehension(self, node):
        self.generic_visit(node)
        node.ifs.insert(0, ast.UnaryOp(ast.Not(), _call(LATE)))
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return _call(POWER, node.left, node.right) if _is_power(node) else node

    def visit_Call(self, node):
        if _repeats(node):
            node.args = [_call(TIMES, each.left, each.right) if _is_product(each) else each for each in node.args]
        return self.generic_visit(node)


def _call(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


class _Stoppable(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node if compiled(node) else self.generic_visit(node)

    def visit_For(self, node):
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name(TICK, ast.Load()), [], [])))
        return node

    visit_While = visit_For
