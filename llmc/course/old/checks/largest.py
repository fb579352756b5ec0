"""Which expressions of the learner's make the largest arrays? Said where a check finds that they take too much."""

import ast
import io
import re
import warnings
from contextlib import redirect_stdout

import numpy as np

from llmc.course.old.checks.explain import listed
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.replay import arrays_in
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

ASKED = re.compile(r"temporar(ies|y arrays) take")
MANY = 3  # that are named


def largest_arrays(function, replays, message) -> list[str]:
    """A sentence about the last call that could be kept, if the message says that temporary arrays are too large."""
    if not ASKED.search(message) or not replays:
        return []
    with learners_names(), redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer = learners(function)
        calls = [found for last in replays if (found := _made_in(answer, last))] if answer else []
    everywhere = [text for text in calls[-1] if all(text in found for found in calls)] if calls else []
    named = [f"{text} {calls[-1][text].shape} {calls[-1][text].dtype}" for text in everywhere[:MANY]]
    more = f", the first of {len(everywhere)}" if len(everywhere) > MANY else ""
    return [f"The largest arrays that it makes, in a smaller call{more}: {listed(named)}."] if named else []


def _made_in(answer, call) -> dict:
    """{text: array} of what makes one of the largest in this call, the largest first; {} where its inputs are larger.

    In a single call, arrays may be as large by chance: where it has as many channels as rows, say.
    """
    trace, found = Trace.of(answer, call), {}
    old = list(trace.outputs) if trace else []  # also where one text makes several: `root` is not made by `out=root`
    for step in trace.steps if trace else ():
        made = step.kind in (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp) and isinstance(step.value, np.ndarray)
        if made and step.value.base is None and not any(step.value is each for each in old):
            old.append(step.value)
            found.setdefault(step.text, step.value)
    most = max((array.nbytes for array in found.values()), default=0)
    if 4 * most < max((array.nbytes for array in arrays_in((call.arguments, call.options))), default=0):
        return {}
    large = {text: array for text, array in found.items() if 2 * array.nbytes >= most}
    return dict(sorted(large.items(), key=lambda pair: -pair[1].nbytes))
