"""Why was a buffer never written? `dw = dw + …` gives the name to another array and leaves the caller's array alone.

So does `z = z - z.max()` after `z = logits[:V]`: what is written into z from there on does not reach logits.
"""

import ast
import inspect
import textwrap
import time
from contextlib import suppress

import numpy as np

from llmc.course.old.checks.copies import root_name
from llmc.course.old.checks.loop_variables import lost_in_a_loop
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.places import quoted
from llmc.course.old.mutants.replay import arrays_in

VIEWS = {"reshape", "ravel", "view", "asarray", "ascontiguousarray", "squeeze", "transpose", "swapaxes"}


def rebound(function, replay, buffer, adds, target=None) -> str | None:
    """A sentence about the line of the learner's function that gives another array the buffer's name; None without one.

    replay: the call that should have written to the buffer. adds: was it to add to what the buffer held? target: what
    the buffer should hold, where that is known.
    """
    given, tree = name_of(buffer, function, replay), _tree(function)
    if given is None or tree is None:
        return None
    in_a_list = isinstance(replay.named(function)[given], list | tuple)
    name = _each_of(tree, given) if in_a_list else given
    line = next(_assignments(tree, name), None) if name else None
    if line is None:
        return (_view_lost(tree, name) if name else None) or lost_in_a_loop(tree, given, buffer.ndim, in_a_list)
    new = f"{_new_name(line, name)} and leaves the caller's array alone"
    if target is not None and _right_without(line, function, replay, buffer, target):
        return f"{new}. Without this line, your function writes into that one, and what it writes is right."
    instead = f"{name} += …" if adds else f"{name}[...] = …"
    return f"{new}: write into that one, with `{instead}`."


def given_away(function, k) -> str:
    """The line that gives the name of the learner's argument k to another array, and that it does; "" without one."""
    tree = _tree(function) if function else None
    names = [argument.arg for argument in tree.body[0].args.args] if tree else []
    line = next(_assignments(tree, names[k]), None) if k < len(names) else None
    return _new_name(line, names[k]) if line else ""


def _new_name(line, name) -> str:
    return f"{quoted(line)} gives the name `{name}` to another array"


def _right_without(line, function, replay, buffer, target) -> bool:
    """Does the buffer hold what it should after the same call of the learner's function without this line?"""
    answer, text = learners(function), ast.unparse(line)
    for block in (getattr(node, "body", None) for node in ast.walk(answer.tree if answer else ast.Module([], []))):
        for k, statement in enumerate(block if isinstance(block, list) else ()):
            if ast.unparse(statement) == text:
                block[k] = ast.copy_location(ast.Pass(), statement)
    places = [k - len(replay.outputs) for k, array in enumerate(replay.outputs) if np.may_share_memory(array, buffer)]
    with suppress(Exception):  # such a call stops
        after = answer.function(time.thread_time() + answer.seconds)
        return bool(places) and close(replay.run(after)[places[-1]], target, target, "float32")
    return False


def name_of(buffer, function, replay):
    """Which argument of the function is it?"""
    names = [name for name, value in replay.named(function).items() for _ in arrays_in(value)]
    arrays = replay.outputs[len(replay.outputs) - len(names) :]  # what was returned comes before them
    return next((name for name, array in zip(names, arrays) if np.may_share_memory(array, buffer)), None)


def _each_of(tree, name):
    """What a loop over a list calls its members: "g" for `for g in grads`; None without such a loop."""
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For) and getattr(node.iter, "id", None) == name)
    return next((getattr(loop.target, "id", None) for loop in loops), None)


def _tree(function):
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _assignments(tree, name):
    """The lines `name = …`, also `name, other = …`, that give a name to a new array."""
    for line in ast.walk(tree):
        targets = line.targets if isinstance(line, ast.Assign) else ()
        names = [part for target in targets for part in getattr(target, "elts", [target])]
        if any(getattr(part, "id", None) == name for part in names) and not _may_be_a_view(line.value):
            yield line


def _view_lost(tree, name):
    """A sentence about another name that began as a view of this one and was given to a new array; None without one."""
    lines = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AugAssign))]
    written = {n.value.id: n.lineno for n in ast.walk(tree) if isinstance(n, ast.Subscript) and _is_written(n)}
    for view in [line for line in lines if isinstance(line, ast.Assign) and _may_be_a_view(line.value)]:
        other = getattr(view.targets[0], "id", None)
        if root_name(view.value) == name and other in written:
            for line in _assignments(tree, other):
                if view.lineno < line.lineno < written[other]:
                    new = f"gives the name `{other}` to a new array"
                    return f"{quoted(line)} {new}: what you write into `{other}` after it does not reach `{name}`."
    return None


def _is_written(node) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)


def _may_be_a_view(value) -> bool:
    """`dx.reshape(…)`, `dx[…]`, `dx.T`: what is written there reaches the caller's array."""
    called = getattr(value.func, "attr", "") if isinstance(value, ast.Call) else ""
    return called in VIEWS or isinstance(value, (ast.Subscript, ast.Attribute))
