"""Why was a buffer never written? `dw = dw + …` gives the name to another array and leaves the caller's array alone."""

import ast
import inspect
import textwrap

import numpy as np

from llmc.course.mutants.places import quoted
from llmc.course.mutants.replay import arrays_in

VIEWS = {"reshape", "ravel", "view", "asarray", "ascontiguousarray", "squeeze", "transpose", "swapaxes"}


def rebound(function, replay, buffer, adds) -> str | None:
    """A sentence about the line of the learner's function that gives another array the buffer's name; None without one.

    replay: the call that should have written to the buffer. adds: was it to add to what the buffer held?
    """
    name = _name_of(buffer, function, replay)
    line = next(_assignments(function, name), None) if name else None
    if line is None:
        return None
    instead = f"{name} += …" if adds else f"{name}[...] = …"
    new = f"gives the name `{name}` to another array and leaves the caller's array alone"
    return f"{quoted(line)} {new}: write into that one, with `{instead}`."


def _name_of(buffer, function, replay):
    """Which argument of the function is it?"""
    names = [name for name, value in replay.named(function).items() for _ in arrays_in(value)]
    arrays = replay.outputs[len(replay.outputs) - len(names) :]  # what was returned comes before them
    return next((name for name, array in zip(names, arrays) if np.may_share_memory(array, buffer)), None)


def _assignments(function, name):
    """The lines `name = …` of a function, also `name, other = …`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    for line in ast.walk(tree):
        targets = line.targets if isinstance(line, ast.Assign) else ()
        names = [part for target in targets for part in getattr(target, "elts", [target])]
        if any(getattr(part, "id", None) == name for part in names) and not _may_be_a_view(line.value):
            yield line


def _may_be_a_view(value) -> bool:
    """`dx.reshape(…)`, `dx[…]`, `dx.T`: what is written there reaches the caller's array."""
    called = getattr(value.func, "attr", "") if isinstance(value, ast.Call) else ""
    return called in VIEWS or isinstance(value, (ast.Subscript, ast.Attribute))
