"""Why was an output not written? The failing call is made again, and watched: which of its lines ran?

    In this call line 3, `return`, ends your function because of `if dx is None:`; line 5, `dw += d.T @ x`, never runs.

Such a sentence says what happened. Where a line that writes the output did run, it is silent.
"""

import ast
import inspect
import io
import sys
import textwrap
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import FunctionType

import numpy as np

from llmc.course.old.checks.copies import root_name
from llmc.course.old.checks.rebound import VIEWS
from llmc.course.old.mutants.places import quoted

SECONDS = 1.0  # of processor time that the watched call may take
BLOCKS = ("body", "orelse", "finalbody")


class _Enough(BaseException):
    """The watched call takes too long."""


@dataclass(frozen=True)
class Watched:
    """tree: the function's definition. lines: numbers of those that ran, as in its cell. left: the last one."""

    tree: ast.FunctionDef
    lines: frozenset
    left: int

    def ran(self, node) -> bool:
        """Did a line of this statement run? Of a loop or a condition, its first line."""
        last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
        return any(line in self.lines for line in range(node.lineno, max(last, node.lineno) + 1))


def watch(function, replay) -> Watched | None:
    """Make a call again and note which lines of the function ran; None where that cannot be seen."""
    plain = getattr(function, "py_func", function)  # what Numba compiled
    tree = _definition(plain)
    if tree is None:
        return None
    lines, end = [], time.thread_time() + SECONDS

    def look(frame, event, argument):
        if frame.f_code is not plain.__code__:
            return None
        if event in ("line", "return"):
            lines.append(frame.f_lineno)
        if time.thread_time() > end:
            raise _Enough
        return look

    before = sys.gettrace()
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
            sys.settrace(look)
            replay.run(plain)
    except (Exception, _Enough):  # it needs more than this call
        return None
    finally:
        sys.settrace(before)
    return Watched(tree, frozenset(lines), lines[-1]) if lines else None


def why_unwritten(watched, name) -> str | None:
    """A sentence on what kept every line that writes `name` from running; None if one ran, or if that is unknown."""
    paths = list(_paths(watched.tree))
    if any(_writes(path[-1], _names_of(watched.tree, name, _mentions)) and watched.ran(path[-1]) for path in paths):
        return None
    writing = [path for path in paths if _writes(path[-1], _names_of(watched.tree, name, _views))]
    return next(filter(None, (_stopped_at(watched, path, name) for path in writing)), None)


def returned_name(watched, k, of) -> str | None:
    """What the function calls the k-th of the `of` values that it returns; None where it has no name for it."""
    returns = [path[-1].value for path in _paths(watched.tree) if isinstance(path[-1], ast.Return)]
    parts = [getattr(value, "elts", [value]) for value in returns if value is not None]
    names = {getattr(part[k], "id", None) for part in parts if len(part) == of}
    return names.pop() if len(names) == 1 else None


def left_in_a_loop(watched) -> str | None:
    """A sentence if a `return` in a `for` loop ended the call, in whatever turn; None otherwise."""
    for *above, line in _paths(watched.tree):
        loop = next((node for node in reversed(above) if isinstance(node, ast.For)), None)
        if loop is not None and isinstance(line, ast.Return) and line.lineno <= watched.left <= line.end_lineno:
            return f"In this call {_line(line)} ended your function inside of the loop {_head(loop)}."
    return None


def _stopped_at(watched, path, name):
    """The first of the loops and conditions around a line, from outside, that was not reached or did not enter."""
    goal = f"{_line(path[-1])}, which writes `{name}`, never ran"
    for outer, inner in zip(path, path[1:]):
        if isinstance(outer, ast.FunctionDef):
            reached = watched.ran(inner)
        elif not watched.ran(outer):
            reached = False
        else:
            reached = any(watched.ran(line) for line in _block_with(outer, inner))
        if reached:
            continue
        if isinstance(outer, ast.If) and not any(watched.ran(line) for line in _block_with(outer, inner)):
            is_true = "was not" if inner in outer.body else "was"
            return f"In this call `{ast.unparse(outer.test)}` in line {outer.lineno} {is_true} true, so {goal}."
        if isinstance(outer, ast.For | ast.While) and inner in outer.body:
            if not any(watched.ran(line) for line in outer.body):
                return f"In this call the loop {_head(outer)} made no turn, so {goal}.{_left_of_steps(outer)}"
        return _left_before(watched, inner, goal)
    block = path[-2] if len(path) > 1 else watched.tree  # its block was entered, and left before this line
    return _left_before(watched, path[-1], goal) if block is not None else None


def _left_of_steps(loop) -> str:
    """A sentence about a loop in steps of more than one that begins no step which it cannot finish; "" of others."""
    args = loop.iter.args if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else []
    step = ast.unparse(args[2]) if len(args) == 3 else "1"
    cut = len(args) == 3 and isinstance(args[1], ast.BinOp) and step != "1"
    return f" It goes in steps of {step}: what does not fill a step needs a loop of its own behind it." if cut else ""


def _left_before(watched, line, goal):
    """Which return, break or continue that ran lies before this line, in the same block?"""
    for *above, leaving in _paths(watched.tree):
        kinds = ast.Return | ast.Break | ast.Continue
        if isinstance(leaving, kinds) and leaving.lineno < line.lineno and watched.ran(leaving):
            test = next((node for node in reversed(above) if isinstance(node, ast.If)), None)
            because = f", inside of `if {ast.unparse(test.test)}`," if test is not None else ""
            ends = "ended your function" if isinstance(leaving, ast.Return) else "left this turn of the loop"
            return f"In this call {_line(leaving)}{because} {ends}, so {goal}."
    return None


def _block_with(outer, inner):
    """The list of lines of `outer` that holds `inner`."""
    blocks = [getattr(outer, field, None) or [] for field in BLOCKS]
    return next((block for block in blocks if inner in block), [inner])


def _paths(tree, above=()):
    """(function, loop, condition, …, line): every simple statement of a function, with what it lies in."""
    above = (*above, tree)
    for field in BLOCKS:
        for node in getattr(tree, field, None) or ():
            if any(getattr(node, inner, None) for inner in BLOCKS):
                if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                    yield from _paths(node, above)
            else:
                yield (*above, node)


def _names_of(tree, name, of) -> set[str]:
    """The name, and those of what may hold parts of it: `flat = dx.reshape(-1)`, `for g in grads`. of: which values?"""
    names = {name}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and of(node.value, names):
            names |= {n.id for target in node.targets for n in ast.walk(target) if _is_new(n)}
        elif isinstance(node, ast.For) and _mentions(node.iter, names):
            names |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    return names


def _is_new(node) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _views(value, names) -> bool:
    """Is it surely a view of one of them?"""
    called = getattr(value.func, "attr", "") if isinstance(value, ast.Call) else ""
    return root_name(value) in names and (called in VIEWS or isinstance(value, ast.Name | ast.Subscript))


def _mentions(value, names) -> bool:
    """May it hold parts of one of them? Its shape does not."""
    if isinstance(value, ast.Attribute) and value.attr in ("shape", "size", "ndim", "dtype"):
        return False
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("len", "range"):
        return False
    return getattr(value, "id", None) in names or any(_mentions(each, names) for each in ast.iter_child_nodes(value))


def _writes(line, names) -> bool:
    """May the statement write to one of these arrays? It may if it hands one over to a function."""
    targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
    for target in targets:
        in_place = isinstance(target, ast.Subscript) or isinstance(line, ast.AugAssign)
        if target is not None and in_place and root_name(target) in names:
            return True
    calls = [node for node in ast.walk(line) if isinstance(node, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return any(root_name(value) in names for value in given if not isinstance(value, ast.Call))


def _line(node) -> str:
    return f"line {node.lineno}, {quoted(node)}"


def _head(loop) -> str:
    if isinstance(loop, ast.While):
        return f"`while {ast.unparse(loop.test)}` in line {loop.lineno}"
    return f"`for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}` in line {loop.lineno}"


def single_turns(function) -> list[str]:
    """Sentences about `for` loops of the learner's that cannot make a second turn, here and in functions of theirs."""
    found, told = [getattr(function, "py_func", function)], []
    for each in found:  # which grows
        tree = _definition(each)
        if tree is None:
            continue
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        others = (getattr(v, "py_func", v) for n, v in each.__globals__.items() if n in names)
        file = each.__code__.co_filename
        mine = [f for f in others if isinstance(f, FunctionType) and f.__code__.co_filename == file]
        found += [f for f in mine if f not in found]
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and _ends_a_turn(node)]
        where = f" of `{tree.name}`" if each is not found[0] else ""
        only_one = "never makes a second turn: each way through it leaves it"
        told += [f"The loop {_head(loop)}{where} {only_one}." for loop in loops]
    return told


def _definition(function):
    """The function's tree, with the line numbers of its cell; None where there is none."""
    if not isinstance(function, FunctionType):
        return None
    try:
        source, first = inspect.getsourcelines(function)
        tree = ast.increment_lineno(ast.parse(textwrap.dedent("".join(source))), first - 1).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    return tree if isinstance(tree, ast.FunctionDef) else None


def _ends_a_turn(loop) -> bool:
    """Does each way through the loop's body end with return, break or raise?"""
    return _leaves(loop.body) and not any(isinstance(node, ast.Continue) for node in ast.walk(loop))


def _leaves(block) -> bool:
    last = block[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, ast.Return | ast.Break | ast.Raise)
