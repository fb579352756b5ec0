"""Is a formula right, and only its digits are lost in float32? The call is made again with float64 arrays."""

import ast
import copy
import io
import time
from contextlib import redirect_stdout, suppress

import numpy as np

from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

LOST = 1e4  # times as large as their difference: then float32 keeps three digits of it, or fewer
CLEARLY = 10  # times as large a share as in any other difference
BETTER = 1e-3  # of the error in float32: what float64 may leave of it, where digits were lost


def lost(name, function, solution, replay, k) -> str | None:
    """A sentence if output k of a call of float32 arrays is right once all of them are float64; else None.

    function: the learner's. solution: a Solution.
    """
    wide = _widened(replay)
    if wide is None:
        return None
    with np.errstate(all="ignore"), redirect_stdout(io.StringIO()), suppress(Exception), learners_names():
        ours = solution.function(time.thread_time() + solution.seconds)
        (right, exact), got = (call.run(ours)[k] for call in (replay, wide)), wide.run(function)[k]
        narrow = np.abs(np.asarray(replay.outputs[k], np.float64) - right).max()
        if np.asarray(got).dtype != np.float64 or not np.abs(got - exact).max() <= BETTER * narrow:
            return None
        if close(right, exact, exact, "float32") and not close(replay.outputs[k], right, exact, "float32"):
            where = _difference(function, replay)
            where = f" in {where}, a" if where else ", as in a"
            return (
                f"With float64 arrays your function gives the right {name}: float32 loses the digits{where} "
                "difference of two large numbers that are nearly equal."
            )
    return None


def _difference(function, replay) -> str | None:
    """The learner's difference that loses most of its digits in this call; None if another one loses about as many."""
    answer = learners(function)
    trace = answer and Differences.of(answer, replay)
    if not trace:
        return None
    *others, worst = sorted(trace.larger, key=trace.larger.get) or [None]
    clearly = worst and trace.larger[worst] > LOST
    return worst if clearly and all(trace.larger[each] * CLEARLY < trace.larger[worst] for each in others) else None


class Differences(Trace):
    """larger: {text of a difference: how many times as large as the result is what is subtracted}."""

    def __init__(self, tree):
        self.larger = {}
        super().__init__(tree)

    def seen(self, number, value):
        """What an expression calls with its value; numbers are compared now, before a later line overwrites them."""
        super().seen(number, value)
        text, made_of = self.texts[number], self.last[number].made_of
        if len(made_of) > 1 and _is_difference(text):
            taken, left = (np.abs(np.asarray(each, np.float64)).mean() for each in (made_of[1].value, value))
            self.larger[text] = max(self.larger.get(text, 0.0), taken / left if left else 0.0)
        return value


def _is_difference(text) -> bool:
    """Is it `a - b`, `a -= b` or `np.subtract(a, b)`? Not if it is too long to be quoted whole."""
    try:
        line = ast.parse(text.strip("`")).body[0]
    except (SyntaxError, IndexError):
        return False
    node = getattr(line, "value", None) if isinstance(line, ast.Expr) else line
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else None
    return isinstance(getattr(node, "op", None), ast.Sub) or called == "np.subtract"


def _widened(replay) -> Replay | None:
    """The same call with float64 arrays for float32 ones; None if it has none of these."""

    def wide(value):
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else copy.deepcopy(value)

    if not any(getattr(value, "dtype", None) == np.float32 for value in replay.arguments):
        return None
    return Replay(tuple(map(wide, replay.arguments)), {name: wide(value) for name, value in replay.options.items()})
