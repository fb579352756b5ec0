"""Is a formula right, and only its digits are lost in float32? The call is made again with float64 arrays."""

import copy
import io
import time
from contextlib import redirect_stdout, suppress

import numpy as np

from llmc.course.mutants.picked import close
from llmc.course.mutants.replay import Replay
from llmc.course.own_names import learners_names

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
            return (
                f"With float64 arrays your function gives the right {name}: float32 loses the digits, "
                "as in a difference of two large numbers that are nearly equal."
            )
    return None


def _widened(replay) -> Replay | None:
    """The same call with float64 arrays for float32 ones; None if it has none of these."""

    def wide(value):
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if narrow else copy.deepcopy(value)

    if not any(getattr(value, "dtype", None) == np.float32 for value in replay.arguments):
        return None
    return Replay(tuple(map(wide, replay.arguments)), {name: wide(value) for name, value in replay.options.items()})
