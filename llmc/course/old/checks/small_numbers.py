"""Is a tiny number of the learner's, which our solution has not, what makes a result wrong? `log(p + 1e-10)`, say.

The call is made again with a smaller number in its place: only where a wrong result comes nearer to the right one is
anything said.
"""

import ast
import time
from contextlib import suppress
from types import FunctionType

import numpy as np

from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.places import quoted

SMALL = 1e-3  # a number that is added against a division by 0, or a logarithm of it, is not larger
SMALLER = 1e-3  # times the number, to see whether it counts
LEAST = 1e-6  # of a result: a smaller change is rounding
FALLS = 1e-3  # of an error: by less, it falls by chance


def counted(function, solution, replay) -> list[str]:
    """A sentence about the first such number that makes what the call gives wrong; [] if there is none."""
    answer = learners(function)
    if answer is None or any(map(_is_small, ast.walk(solution.tree))) or _given_small(solution):
        return []
    own = [line for line in answer.tree.body if getattr(line, "name", None) not in solution.before]  # and not given
    for node in (node for line in own for node in ast.walk(line)):
        for number in filter(_is_small, ast.iter_child_nodes(node)) if isinstance(node, (ast.BinOp, ast.Call)) else ():
            if _counts(answer, number, replay, solution):
                return [f"The result changes with the `{number.value:g}` in {quoted(node)}: our solution has none."]
    return []


def _is_small(node) -> bool:
    return isinstance(node, ast.Constant) and _tiny(node.value)


def _tiny(value) -> bool:
    return isinstance(value, float) and 0 < value <= SMALL


def _given_small(solution) -> bool:
    """Have the given functions that our solution calls, or those which they call, such a number?"""
    names, seen = {node.id for node in ast.walk(solution.tree) if isinstance(node, ast.Name)}, set()
    while names:
        seen |= names
        called = [f for f in map(solution.before.get, names) if isinstance(f, FunctionType)]
        if any(_tiny(value) for f in called for value in (*f.__code__.co_consts, *(f.__defaults__ or ()))):
            return True
        names = {name for f in called for name in f.__code__.co_names} - seen
    return False


def _counts(answer, number, replay, solution) -> bool:
    was, changed = number.value, False
    with suppress(Exception):
        before = replay.run(answer.function(time.thread_time() + answer.seconds))
        number.value = was * SMALLER
        after = replay.run(answer.function(time.thread_time() + answer.seconds))
        right = replay.run(solution.function(time.thread_time() + solution.seconds))
        changed = any(_nearer(*each) for each in zip(before, after, right))
    number.value = was
    return changed


def _nearer(before, after, right) -> bool:
    """Has a result that was wrong changed, and come nearer to the right one, or nearer to an infinity?"""
    alike = np.shape(before) == np.shape(after) == np.shape(right)
    if not alike or np.asarray(before).dtype.kind not in "fiu":
        return False
    if np.allclose(before, after, rtol=LEAST, atol=0, equal_nan=True):
        return False
    far, near = (_error(each, right) for each in (before, after))
    return bool((np.isfinite(before) & ~np.isfinite(right)).any()) or near < (1 - FALLS) * far


def _error(result, right) -> float:
    """The largest, where both are finite."""
    result, right = (np.ravel(each).astype(np.float64) for each in (result, right))
    finite = np.isfinite(result) & np.isfinite(right)
    return np.abs(result - right)[finite].max(initial=0)
