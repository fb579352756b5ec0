"""On which inputs does a wrong number depend, and on which should it? Slices of the inputs are changed, one by one.

What a sentence from here says was seen to change, or not, in calls of the learner's function and of our solution.
"""

import copy
import time
from contextlib import suppress

import numpy as np

from llmc.course.old.checks.explain import listed
from llmc.course.old.checks.overwritten import outputs_with_locked
from llmc.course.old.mutants.replay import Replay

SECONDS = 1.0  # of processor time for all calls
LEAST = 1e-6  # of the number: a smaller change may be rounding
FAR = (-1, 1000, -1000)  # factors of a large change: a share of attention may be 0 until its score is the largest
FEW = 3  # slices that a sentence lists


def influences(function, solution, replay, k, at) -> str | None:
    """Words about slices of an input that change a number in one of the two functions alone; or None.

    It is entry `at`, counted row by row, of output k. function: the learner's. solution: ours. replay: a call.
    """
    end, seen = time.thread_time() + SECONDS, {}
    with suppress(Exception), np.errstate(all="ignore"):
        base = [_entry(each(replay), k, at) for each in (lambda r: _theirs(function, r), lambda r: r.run(solution))]
        for n, name in enumerate(list(replay.named(function))[: len(replay.arguments)]):
            array = replay.arguments[n]
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or any(replay.buffers[n : n + 1]):
                continue
            for axis in range(array.ndim):
                for index in range(array.shape[axis]):
                    if time.thread_time() > end:
                        return None
                    other = _changed(replay, n, axis, index)
                    both = _entry(_theirs(function, other), k, at), _entry(other.run(solution), k, at)
                    mine, ours = (_changes(now, was) for now, was in zip(both, base))
                    if {mine, ours} != {True, False}:
                        continue
                    still = (lambda r: r.run(solution)) if mine else (lambda r: _theirs(function, r))
                    far = (_changed(replay, n, axis, index, factor) for factor in FAR)
                    if not any(_awakes(_entry(still(call), k, at), base[mine]) for call in far):
                        seen.setdefault((name, axis, array.shape[axis], mine), []).append(index)
    # the axis along which fewest slices make the difference says the most
    found = min(seen.items(), key=lambda item: len(item[1]), default=None)
    return _said(*found[0], found[1]) if found else None


def _changes(now, was) -> bool | None:
    """Clearly, or not at all? None if neither."""
    return False if now == was else True if abs(now - was) > LEAST * (abs(was) + abs(now)) else None


def _awakes(now, was) -> bool:
    """Does a number that a small change has left as it was change with a large one, as behind a limit that clips?"""
    return np.isfinite(now) and now != was


def _said(name, axis, length, mine, indices) -> str:
    """ "changes with `dout` at index 4 of axis 2, and should not"."""
    run = len(indices) > FEW and indices == [*range(indices[0], indices[-1] + 1)]
    few = ", ".join(map(str, indices[:FEW])) + ", …" if len(indices) > FEW + 1 else listed([*map(str, indices)])
    places = f"{indices[0]} to {indices[-1]}" if run else few
    where = f" at ind{'ex' if len(indices) == 1 else 'ices'} {places} of axis {axis}" if len(indices) < length else ""
    return (
        f"changes with `{name}`{where}, and should not" if mine else f"should change with `{name}`{where}, and does not"
    )


def _theirs(function, replay):
    again = Replay(*copy.deepcopy((replay.arguments, replay.options)))
    return outputs_with_locked(function, again, [*replay.buffers, *[False] * len(again.arguments)])


def _entry(outputs, k, at) -> float:
    return float(np.asarray(outputs[k]).reshape(-1)[at])


def _changed(replay, n, axis, index, factor=1):
    """The same call with the n-th argument changed a little, and times a factor, at one index of an axis."""
    arguments = copy.deepcopy(replay.arguments)
    part = arguments[n][(slice(None),) * axis + (index,)]
    change = (0.05 * np.random.default_rng(3).uniform(0.5, 1, part.shape)).astype(part.dtype)
    arguments[n][(slice(None),) * axis + (index,)] = (part + change) * factor
    return Replay(arguments, replay.options, buffers=replay.buffers)
