"""Is an output really overwritten? `dx *= 0` leaves NaN and infinity in it: 0 times NaN is NaN.

A buffer of the check holds awkward numbers, but none of these: in an array that a call must add to, or read, they have
no place. So once a right array has come, the call is made again with a buffer full of NaN. It should not matter, if it
does not matter to our solution.
"""

import io
import time
from contextlib import redirect_stdout

import numpy as np

from llmc.course.old.checks.inputs import read_only
from llmc.course.old.mutants.replay import Replay, arrays_in, outputs_of
from llmc.course.own_names import learners_names

LARGEST = 1 << 16  # bytes of arrays of a call that is made again


def holding(value, replay, k) -> Replay | None:
    """The same call, whose k-th array (of its arguments, from 0) holds nothing but that; None if it cannot."""
    again = Replay.of(replay.arguments, replay.options)
    arrays = arrays_in((again.arguments, again.options)) if again else []
    if sum(array.nbytes for array in arrays) > LARGEST or not np.issubdtype(arrays[k].dtype, np.floating):
        return None
    arrays[k][...] = value
    return again


def remains(function, solution, replay, k) -> int:
    """How many entries of the k-th array are NaN after the call because they were NaN before."""
    again = holding(np.nan, replay, k)
    if again is None:
        return 0
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
            right = again.run(solution.function(time.thread_time() + solution.seconds))[k - len(arrays_of(again))]
            if not np.isfinite(right).all():
                return 0  # it is read as well
            with learners_names():
                return int(
                    np.isnan(outputs_with_locked(function, again, replay.buffers)[k - len(arrays_of(again))]).sum()
                )
    except Exception:  # of such an array it need not know anything
        return 0


def from_zeros(function, replay, k):
    """What a call makes of the k-th array (of its arguments, from 0) if that held zeros before; None if it stops."""
    again = holding(0, replay, k)
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()), learners_names():
            return again and outputs_with_locked(function, again, replay.buffers)[k - len(arrays_of(again))]
    except Exception:
        return None


def arrays_of(replay) -> list:
    """The arrays among its arguments."""
    return arrays_in((replay.arguments, replay.options))


def outputs_with_locked(function, replay, buffers):
    """Outputs of that call, whose inputs are read-only: compiled code would be compiled again for others."""
    given = [
        read_only(value) if isinstance(value, np.ndarray) and not mine else value
        for value, mine in zip(replay.arguments, buffers)
    ]
    options = {name: read_only(v) if isinstance(v, np.ndarray) else v for name, v in replay.options.items()}
    return outputs_of(function(*given, **options), given, options)
