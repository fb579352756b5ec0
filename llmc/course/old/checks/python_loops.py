"""Does a function loop in Python, turn by turn, or only in what is compiled? How many lines does a call run?"""

import ast
import contextlib
import inspect
import sys
import textwrap
from pathlib import Path
from types import FunctionType

import numpy as np

from llmc.course.own_names import among_learners_names

TURNS = {"vectorize", "frompyfunc", "apply_along_axis", "fromiter", "map"}  # calls that are loops in Python, too
LOOPS = (ast.For, ast.While, ast.comprehension)
NOT_COUNTED = (str(Path(np.__file__).parent), str(Path(__file__).parents[2]), contextlib.__file__)  # the course's own


def in_python(function, above=()) -> bool:
    """Is there a loop in the function, or in one that it calls by name and that is not compiled?

    True where the source is unknown, and for None. above: the functions that called it, which are not looked at again.
    """
    if function is not None and not isinstance(function, FunctionType):  # Numba's, a ufunc: compiled
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    if any(isinstance(node, LOOPS) or _takes_turns(node) for node in ast.walk(tree)):
        return True
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    helpers = [function.__globals__.get(name) for name in called]
    above = (*above, function)
    return any(
        in_python(helper, above) for helper in helpers if isinstance(helper, FunctionType) and helper not in above
    )


def lines_run(call) -> int:
    """How many lines of Python, outside of NumPy, does a call of this function of nothing run in this thread?"""
    count = 0

    def line(frame, event, argument):
        nonlocal count
        count += event == "line"
        return line

    def enter(frame, event, argument):
        return None if frame.f_code.co_filename.startswith(NOT_COUNTED) else line

    previous = sys.gettrace()
    sys.settrace(enter)
    try:
        among_learners_names(call)()
    finally:
        sys.settrace(previous)
    return count


def _takes_turns(node) -> bool:
    """np.vectorize(…), map(…)"""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in TURNS
