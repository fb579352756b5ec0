"""Which expressions of the learner's make the largest arrays? Said where a check finds that they take too much."""

import ast
import io
import re
import warnings
from contextlib import redirect_stdout

import numpy as np

from llmc.course.checks.explain import listed
from llmc.course.mutants.learners import learners
from llmc.course.mutants.replay import arrays_in
from llmc.course.mutants.traced import Trace
from llmc.course.own_names import learners_names

ASKED = re.compile(r"temporar(ies|y arrays) take")
MANY = 3  # that are named


def largest_arrays(function, replays, message) -> list[str]:
    """A sentence about the last call that could be kept, if the message says that temporary arrays are too large."""
    if not ASKED.search(message) or not replays:
        return []
    last = replays[-1]
    with learners_names(), redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer = learners(function)
        trace = Trace.of(answer, last) if answer else None
    found = {}  # {text: array} of the expressions that made one
    for step in trace.steps if trace else ():
        made = step.kind in (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp) and isinstance(step.value, np.ndarray)
        if made and step.value.base is None and not any(step.value is old for old in (*trace.outputs, *found.values())):
            found.setdefault(step.text, step.value)
    most = max((array.nbytes for array in found.values()), default=0)
    if 4 * most < max((array.nbytes for array in arrays_in((last.arguments, last.options))), default=0):
        return []
    large = [(text, array) for text, array in found.items() if 2 * array.nbytes >= most]
    named = [f"{text} {array.shape} {array.dtype}" for text, array in large[:MANY]]
    return [f"The largest arrays that it makes, in a smaller call: {listed(named)}."] if named else []
