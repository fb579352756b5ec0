"""Changes of a learner's function that pass a check by accident: they take something of another kind.

`lr != 0` in place of `grads != 0` always holds, and a True in place of a count is 1: either may mend a wrong answer,
and nobody should write it. What the names and the conditions hold is seen in calls.
"""

import ast
import re
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np

NUMBER = re.compile(r"with -?[\d.]+ in place of -?[\d.]+")
EXCHANGE = re.compile(r"with `(?P<new>[A-Za-z_]\w*)` in place of `(?P<old>[^`]+)`")
IN_A_COMPARISON = re.compile(r"(?!with [<>=!]+ in place of ).* in `[^`]*[^-<>=][<>=!]=?[^`]*`$")
CALLED = re.compile(r"with `[^`]+\)` in place of `")
SEEN, HELD, TAKES, GIVES = "__kind__", "__holds__", "__takes__", "__gives__"
REDUCTIONS = ("max", "min", "sum", "mean")
ZEROS = "(zeros) "  # before the line and the text of a maximum or a sum: was it 0?
MIXED = "(a condition or a text as a number)"  # stands among the texts of what was seen
COUNTS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
CONDITION = "a condition"
ONE, MANY, MOST = "a number", "an array", 20_000  # looks of a call


class Kinds:
    """What the expressions and conditions of a program were in some calls, with its tree as it is now."""

    def __init__(self, program, calls):
        """calls: functions of a function, which make a call of it."""
        tree = _copied(program.tree)
        self.found, self.looks = {}, 0  # {text or (line, column): kinds, or outcomes}
        ast.fix_missing_locations(_Looking().visit(tree))
        names = {SEEN: self._note_kind, HELD: self._note_outcome, TAKES: self._note_number, GIVES: self._note_zeros}
        watched = replace(program, tree=tree, before=program.before | names)
        for call in calls:
            with suppress(Exception):
                call(watched.function(time.thread_time() + program.seconds))

    def _note_kind(self, text, value):
        self._look(text, _kind(value))
        return value

    def _note_outcome(self, line, column, value):
        if isinstance(value, np.ndarray):
            for outcome in (True, False):
                if (value == outcome).any():
                    self._look((line, column), outcome)
        else:
            self._look((line, column), bool(value))
        return value

    def _note_number(self, function, value):
        if function and isinstance(value, str | bytes) or not function and _kind(value) == CONDITION:
            self._look(MIXED, True)
        return value

    def _note_zeros(self, where, value):
        self._look(f"{ZEROS}{where}", isinstance(value, np.ndarray | np.number) and not np.any(value))
        return value

    def _look(self, key, what):
        self.looks += 1
        if self.looks > MOST:
            raise OverflowError("too many looks")
        self.found.setdefault(key, set()).add(what)


def accidental(words, before, after) -> bool:
    """Does the change of these words put something of another kind in the place of a name, or make a condition idle?

    Only of a name or a number that another one takes the place of, and of what is compared: an operator, `>=` for `>`,
    may be what is wrong.

    before: Kinds without it; after(): Kinds with it. A maximum that is 0 in every call takes the place of nothing.
    """
    if CALLED.match(words):
        new = {key: what for key, what in after().found.items() if key not in before.found}
        if any(str(key).startswith(ZEROS) and what == {True} for key, what in new.items()):
            return True
    if MIXED not in before.found and MIXED in after().found:
        return True
    exchange = EXCHANGE.match(words)
    if not exchange and not NUMBER.match(words) and not IN_A_COMPARISON.match(words):
        return False
    old, new = (before.found.get(exchange[which], set()) if exchange else set() for which in ("old", "new"))
    if old and new and not old & new and not old | new <= {ONE, MANY}:
        return True
    varied = {place for place, outcomes in before.found.items() if isinstance(place, tuple) and len(outcomes) == 2}
    now = after().found
    return any(len(now.get(place, {True, False})) == 1 for place in varied)


def does_nothing(tree) -> bool:
    """Does a line give a name what it holds already, in either case: `up = np.where(low, up, up)`?

    A change that makes such a line of another leaves it out, and should say so.
    """
    for line in ast.walk(tree):
        value = line.value if isinstance(line, ast.Assign) else None
        where = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "where"
        cases = [value.body, value.orelse] if isinstance(value, ast.IfExp) else value.args[1:] if where else []
        if cases and {ast.unparse(each) for each in cases} == {ast.unparse(line.targets[0])}:
            return True
    return False


def _copied(value):
    """A tree without nodes that hang in two places, as a change may have hung them."""
    if isinstance(value, list):
        return [*map(_copied, value)]
    if not isinstance(value, ast.AST):
        return value
    return ast.copy_location(type(value)(**{name: _copied(part) for name, part in ast.iter_fields(value)}), value)


def _kind(value) -> str:
    if isinstance(value, bool | np.bool_):
        return CONDITION
    if isinstance(value, int | float | np.number):
        return ONE
    if isinstance(value, np.ndarray):
        return "conditions" if value.dtype == bool else MANY
    return type(value).__name__


class _Looking(ast.NodeTransformer):
    """Names, conditions, maxima and sums tell what they are."""

    line = 0  # in which it is

    def visit(self, node):
        self.line = node.lineno if isinstance(node, ast.stmt) else self.line
        return super().visit(node)

    def visit_Name(self, node):
        return _call(SEEN, node, node.id) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node):
        text = ast.unparse(node)
        self.generic_visit(node)
        return _call(SEEN, node, text) if isinstance(node.ctx, ast.Load) else node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, COUNTS):
            node.left, node.right = (_call(TAKES, each, False) for each in (node.left, node.right))
        return node

    def visit_Call(self, node):
        name, where = getattr(node.func, "id", ""), f"{self.line}: {ast.unparse(node)}"
        reduces = getattr(node.func, "attr", "") in REDUCTIONS
        self.generic_visit(node)
        if reduces:
            return _call(GIVES, node, where)
        if name in ("max", "min") and len(node.args) > 1:
            node.args = [each if isinstance(each, ast.Starred) else _call(TAKES, each, True) for each in node.args]
        return node

    def visit_Compare(self, node):
        place = node.lineno, node.col_offset
        self.generic_visit(node)
        return _call(HELD, node, *place)


def _call(name, node, *what):
    return ast.copy_location(
        ast.Call(ast.Name(name, ast.Load()), [*map(ast.Constant, what), node], []),
        node,
    )
