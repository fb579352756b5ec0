"""Is a wrong result what our solution has at another step, such as the array before a function was applied to it?"""

import ast
import io
from contextlib import redirect_stdout, suppress

import numpy as np

from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.solution import Solution
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

FEW = 4  # entries; fewer of them may be alike by chance
MOST = 8  # steps of the first call that are looked for in the others
LEAST = 2  # calls that must agree


def step_in_place(solution, function, replay, k, others) -> str | None:
    """The text of the expression of our solution whose value output k of a call is; None without one.

    function: the learner's. others: further calls, on other numbers, in which that must hold as well.
    """
    if not isinstance(solution, Solution):
        return None
    texts = _texts(solution, replay, replay.outputs, k)[:MOST]
    agreed = 1
    for other in others if texts else ():
        with suppress(Exception), learners_names(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
            outputs = other.run(function)
            if len(outputs) == len(replay.outputs) and np.size(outputs[k]) >= FEW:
                texts = [text for text in texts if text in _texts(solution, other, outputs, k)]
                agreed += 1
    return texts[0] if texts and agreed >= LEAST else None


def _texts(solution, replay, outputs, k) -> list[str]:
    """Of the steps of our solution that have these values, where they are wrong; the last ones first."""
    got, trace = outputs[k], Trace.of(solution, replay)
    if trace is None or not isinstance(got, np.ndarray) or got.size < FEW or np.ptp(got) == 0:
        return []
    right = trace.outputs[k] if k < len(trace.outputs) else None
    if np.shape(right) != got.shape or close(got, right, right, "float32"):
        return []
    same = [step for step in trace.steps if _same(step.value, got) and step.kind not in (ast.Constant, ast.Tuple)]
    names = [step.text for step in same if step.kind is ast.Name]
    return list(dict.fromkeys([*reversed([s.text for s in same if s.kind is not ast.Name]), *names]))


def _same(value, got) -> bool:
    return isinstance(value, np.ndarray) and value.shape == got.shape and close(value, got, got, "float64")
