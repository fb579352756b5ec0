"""Wrong at the end, as far as a quotient was rounded down: 65 rows in 64 strips of 65 // 64 leave one over."""

import ast
import math
import re
from dataclasses import replace

import numpy as np

from llmc.course.old.mutants.traced import Trace

THREADS = 3  # with which a kernel is also run in plain Python, as `find_races` does
WHOLE = re.compile(r"`(int|round|(math|np)\.(floor|trunc|round|rint))\(")  # a number is rounded


def with_threads(answer):
    """The same program on a machine with so many threads."""
    names = [name for name, value in answer.before.items() if getattr(value, "__name__", "") == "get_num_threads"]
    return replace(answer, before=answer.before | {name: lambda: THREADS for name in names})


def left_over(answer, replay, wrong) -> str | None:
    """A sentence if just those entries are wrong that a division of the learner's, `n // parts`, leaves over; or None.

    answer: `learners` of the function. replay: the call. wrong: like the wrong array, True where it is wrong.
    """
    trace = Trace.of(answer, replay) if wrong.any() else None
    for step in trace.steps if trace else ():
        divided = step
        if step.kind is ast.Call and WHOLE.match(step.text) and step.made_of:
            divided = step.made_of[-1]  # int(n / parts)
        values = [part.value for part in divided.made_of]
        if divided.kind is not ast.BinOp or "/" not in divided.text or len(values) != 2:
            continue
        if divided is step and "//" not in step.text:
            continue
        if all(isinstance(value, int | np.integer) and value > 0 for value in values) and step.value > 0:
            (whole, by), quotient = map(int, values), int(step.value)
            rest = whole - by * quotient
            if 0 < rest < whole and quotient == whole // by and _are_the_last(wrong, whole, rest):
                last = "the last one is" if rest == 1 else f"the last {rest} are"
                parts = f"{whole} = {by} · {quotient} + {rest}"
                return f"{step.text} is {quotient}, rounded down: {last} left over, of {parts}"
    return None


def _are_the_last(wrong, whole, rest) -> bool:
    """Are the last `rest` of `whole` wrong, along an axis of that length or several together, and no others?"""
    for k in range(wrong.ndim):
        several = wrong.reshape(math.prod(wrong.shape[: k + 1]), -1).any(axis=1)
        alone = np.moveaxis(wrong, k, 0).reshape(wrong.shape[k], -1).any(axis=1)
        for bad in (several, alone):
            if len(bad) == whole and np.array_equal(np.flatnonzero(bad), np.arange(whole - rest, whole)):
                there = wrong.size * rest // whole  # so many entries are left over
                return 2 * int(wrong.sum()) > there  # a corner of them has another reason
    return False
