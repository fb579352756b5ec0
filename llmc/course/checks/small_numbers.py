"""Does a tiny number of the learner's, which our solution has not, count in a wrong result? `log(p + 1e-10)`, say.

The call is made again with a smaller number in its place: what is said was seen to change.
"""

import ast
import time
from contextlib import suppress

import numpy as np

from llmc.course.mutants.learners import learners
from llmc.course.mutants.places import quoted

SMALL = 1e-3  # a number that is added against a division by 0, or a logarithm of it, is not larger
SMALLER = 1e-3  # times the number, to see whether it counts
LEAST = 1e-6  # of a result: a smaller change is rounding
MOST = 0.995  # of an error: what a smaller number leaves of it, if it explains a part of it


def counted(function, solution, replay) -> list[str]:
    """A sentence about the first such number that changes what the call gives for the worse; [] if there is none."""
    answer = learners(function)
    if answer is None or any(_is_small(node) for node in ast.walk(solution.tree)):
        return []
    own = [line for line in answer.tree.body if getattr(line, "name", None) not in solution.before]  # and not given
    right = _run(solution, replay)
    for node in (node for line in own for node in ast.walk(line)):
        for number in filter(_is_small, ast.iter_child_nodes(node)) if isinstance(node, (ast.BinOp, ast.Call)) else ():
            if _counts(answer, number, replay, right):
                return [f"The result changes with the `{number.value:g}` in {quoted(node)}: our solution has none."]
    return []


def _is_small(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value <= SMALL


def _run(program, replay) -> list:
    """Its outputs in this call; [] if it stops."""
    with suppress(Exception):
        return replay.run(program.function(time.thread_time() + program.seconds))
    return []


def _counts(answer, number, replay, right) -> bool:
    was, before = number.value, _run(answer, replay)
    number.value = was * SMALLER
    after = _run(answer, replay)
    number.value = was
    return any(_differ(a, b) and _nearer(a, b, r) for a, b, r in zip(before, after, right))


def _differ(a, b) -> bool:
    if np.shape(a) != np.shape(b) or np.asarray(a).dtype.kind not in "fiu":
        return False
    return not np.allclose(a, b, rtol=LEAST, atol=0, equal_nan=True)


def _nearer(before, after, right) -> bool:
    """Is the largest error clearly smaller after it? So it is, too, where it is infinite."""
    if np.shape(right) != np.shape(before):
        return True
    finite = np.isfinite(before) & np.isfinite(after) & np.isfinite(right)
    if not np.all(finite):
        return True
    return bool(np.abs(after - right).max() < MOST * np.abs(before - right).max())
