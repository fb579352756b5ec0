"""Does a wrong array come from what a function keeps between calls, or from inputs that it rounded?

Sums may never be cleared, results be kept by shape. As in `recognise.py`, the numbers are the evidence: the solution
runs on the failing call with one argument of an earlier call of the same shapes, or with rounded arguments, and its
error must be the learner's, number by number. Where that shows nothing, the learner's own function makes the same call
again (`remembered`).
"""

import inspect
import io
import time
import warnings
from contextlib import redirect_stdout
from operator import itemgetter

import numpy as np

from llmc.course.old.mutants.picked import where
from llmc.course.old.mutants.replay import Replay, arrays_in

SHARE = 1e-3  # of the error that may remain unexplained; float16's rounding is as far above float32's
FEW = 3  # entries of an array that a try may equal by chance
MANY = 4  # entries that two arrays hardly share by chance
EARLIER = "of an earlier call: what does your function keep from one call to the next?"
NOTHING = "what your function keeps from one call to the next must start from nothing"
BEFORE = f"plus those of the {{}}before: {NOTHING}"
KEEPS = "your function keeps something from one call to the next"
ROUNDED = "when {} rounded to {}"


def kept_between(solution, replays, got, expected, start=0.0) -> str | None:
    """ "with `w` of an earlier call: …": words that go on from "our solution gives it …"; None if nothing fits.

    Arguments as those of `recognise.recognised`.
    """
    if solution is None or not solution.of_arrays or np.shape(got) != np.shape(expected):
        return None
    deadline = time.thread_time() + solution.seconds
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in reversed(range(len(replays))):
            pick = where(replays[k], solution, got, expected, start)
            if pick is not None:
                earlier = [replay for replay in list(replays)[:k] if _shapes(replay) == _shapes(replays[k])]
                tries = _Tries(solution.function(deadline), pick, replays[k], earlier, np.any(start))
                return tries.words(np.asarray(got, np.float64), np.asarray(expected + start, np.float64))
    return None


def _shapes(replay):
    return [array.shape for array in arrays_in((replay.arguments, replay.options))]


class _Tries:
    """Runs of the solution with other arguments. earlier: calls of the same shapes before the failing one.

    adds: does a call add to what its buffers hold?
    """

    def __init__(self, function, pick, failing, earlier, adds):
        self.function, self.pick, self.failing, self.earlier, self.adds = function, pick, failing, earlier, adds
        self.names = list(inspect.signature(function).parameters)

    def words(self, got, target):
        """Those of the try that comes nearest to the learner's numbers, the first of several; or None."""
        error = np.abs(got - target).max()
        if got.size < FEW or not np.isfinite(error):
            return None
        found = []  # (distance, words)
        for words, array in self._all(target):
            apart = np.abs(array - got).max() if np.shape(array) == got.shape else np.inf
            if apart <= SHARE * error:
                found.append((apart, words))
        return min(found, key=itemgetter(0))[1] if found else None

    def _all(self, target):
        """(words, array) of every try that runs."""
        for call in reversed(self.earlier):
            for k, name in enumerate(self.names[: len(self.failing.arguments)]):
                if list(arrays_in(self.failing.arguments[k])):
                    yield f"with `{name}` {EARLIER}", self._run(_with(self.failing, k, call.arguments[k]))
            yield f"with the arguments {EARLIER}", self._run(call)
        total = target
        for n, call in enumerate(reversed(self.earlier)):
            array, held = self._run(call), self._held(call) if self.adds else 0.0
            total = None if array is None or held is None or total is None else total + array - held
            yield BEFORE.format("call " if n == 0 else "calls "), total
        for name, rounded in (("float16", _half), ("bfloat16", _brain)):
            for axes in (0, 2):  # all arrays, or those that are matrices
                other = _rounded(self.failing, rounded, axes)
                if other is not None:
                    yield ROUNDED.format(self._rounded_names(other), name), self._run(other)

    def _rounded_names(self, other) -> str:
        """ "`x` and `w` are": the arguments that are others in this call than in the failing one."""
        pairs = zip(self.names, other.arguments, self.failing.arguments)
        *first, last = [f"`{name}`" for name, new, old in pairs if new is not old]
        return f"{', '.join(first)} and {last} are" if first else f"{last} is"

    def _held(self, replay):
        """What the buffer of a call held before it."""
        return self._run(replay, lambda *arguments, **options: None)

    def _run(self, replay, function=None):
        try:
            return self.pick(replay.run(function or self.function))
        except Exception:  # arguments of two calls need not go together
            return None


def _with(replay, k, value):
    """The same call with another k-th argument."""
    arguments = list(replay.arguments)
    arguments[k] = value
    return Replay(tuple(arguments), replay.options)


def _rounded(replay, rounded, axes):
    """The same call with its float32 inputs rounded that have at least so many axes; None if that changes nothing."""

    def changed(k, value):
        narrow = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim >= axes
        return rounded(value) if narrow and not any(replay.buffers[k : k + 1]) else value

    arguments = tuple(changed(k, value) for k, value in enumerate(replay.arguments))
    pairs = [(new, old) for new, old in zip(arguments, replay.arguments) if new is not old]
    return None if all(np.array_equal(new, old) for new, old in pairs) else Replay(arguments, replay.options)


def _half(array):
    return array.astype(np.float16).astype(np.float32)


def _brain(array):
    """To the nearest bfloat16, whose bits are the first half of a float32's."""
    bits = array.view(np.uint32)
    bits = bits + 0x7FFF + (bits >> 16 & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).reshape(array.shape)


def remembered(function, replays, got) -> str | None:
    """ "is what an earlier call gave, …": words that go on from an array's name; None if nothing remains.

    replays: the check's last calls, the wrong one last. got: the array that it gave.
    """
    if not replays or not isinstance(got, np.ndarray) or got.size < MANY or np.ptp(got) == 0:
        return None
    *earlier, last = replays
    for replay in reversed(earlier):
        if any(_same(got, old) and not np.may_share_memory(got, old) for old in replay.outputs):
            return f"is what an earlier call gave, for other numbers: {KEEPS}"
    again = _again(function, last, got)
    if again is not None and not np.allclose(again, got, rtol=1e-3, atol=1e-3 * np.abs(got).max()):
        cause = "does something remain from one call to the next, or does chance play a part?"
        return f"has other values when the same call is made again: {cause}"
    return None


def growing(function, replays, got, expected) -> str | None:
    """Words that go on from an array's name if it grows by the right values with each such call; or None."""
    if not replays or not isinstance(got, np.ndarray) or got.size < MANY or np.ptp(expected) == 0:
        return None
    again = _again(function, replays[-1], got)
    if again is None or not np.allclose(again - got, expected, rtol=0, atol=1e-3 * np.abs(expected).max()):
        return None
    return "grows by the right values whenever the same call is made again: " + NOTHING


def _again(function, replay, got):
    """The array `got` as the same call gives it when it is made again; None where it cannot be."""
    k = next((k for k, mine in enumerate(replay.outputs) if _same(got, mine)), None)
    if k is None:
        return None
    try:
        with np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
            again = np.asarray(replay.run(function)[k], np.float64)
    except Exception:  # what it says then is no part of this message
        return None
    return np.where(np.isfinite(replay.outputs[k]), again, got) if again.shape == got.shape else None


def _same(array, other) -> bool:
    """Are they equal where `other` is finite? A check may have replaced the rest, as the -inf of a mask."""
    if np.shape(array) != np.shape(other):
        return False
    finite = np.isfinite(other)
    return finite.sum() >= MANY and np.array_equal(array[finite], np.asarray(other)[finite])
