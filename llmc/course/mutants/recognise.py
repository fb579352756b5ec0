"""Which small change of the solution gives a learner's wrong numbers? The evidence is the numbers, not the code.

The failing call is made again with every mutant of the solution; one whose error is the learner's error, number by
number, names the mistake, however the learner wrote it. Where none does, the learner's own function is changed in the
same ways: one change may make it right, or give what a mutant of the solution gives, which shows the place.
"""

import copy
import io
import time
import warnings
from contextlib import closing, redirect_stdout
from dataclasses import dataclass

import numpy as np

from llmc.course.mutants.arrays import arrays
from llmc.course.mutants.learners import learners
from llmc.course.mutants.python_source import likely, mutants, pairs
from llmc.course.mutants.replay import Replay, outputs_of
from llmc.course.mutants.solution import Solution, solution_of

SECONDS = 2.0  # that the mutants of the solution may take, and those of the learner's function
SHARE = {"float64": 1e-6, "float32": 1e-3}  # of the error that may remain unexplained
ROUNDING = {"float64": 1e-11, "float32": 2e-6}  # relative to the largest entry
FEW = 4  # wrong entries; fewer of them in float32 can agree with a mutant by chance


@dataclass(frozen=True)
class Found:
    """Words for a change of our solution, of the learner's function, or of both, after which they give the same.

    ours alone: it then gives the learner's numbers. yours alone: it then gives the right ones.
    """

    ours: str | None = None
    yours: str | None = None


def recognised(exercise, function, replays, got, expected, start=0.0) -> Found | None:
    """What explains a wrong array; None if nothing fits.

    function: the learner's. replays: the check's last calls of it. got: its array as the check compared it.
    expected: what it should be, without start, which it was to be added to; all of one shape.
    """
    solution = solution_of(exercise)
    if solution is None or np.shape(got) != np.shape(expected):
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for replay in reversed(replays):
            pick = _where(replay, solution, got, expected, start)
            if pick is not None:
                wrong, right = np.asarray(got, np.float64), np.asarray(expected + start, np.float64)
                return Search(solution, replays, replay, pick, wrong, right).explanation(function)
    return None


def place_of(exercise, replays, got) -> int | None:
    """Which of the results of the last call, counted from 0, should be what `got` is? None if none should."""
    solution = solution_of(exercise)
    if solution is None or not replays or np.size(got) < FEW:
        return None
    arguments, options = copy.deepcopy((replays[-1].arguments, replays[-1].options))
    try:
        results = outputs_of(solution.function(time.thread_time() + SECONDS)(*arguments, **options), (), {})
    except Exception:
        return None
    same = (k for k, it in enumerate(results) if np.shape(it) == np.shape(got) and _close(got, it, it, "float32"))
    return next(same, None)


@dataclass(frozen=True)
class Pick:
    """What the check compared: output k of the call, of this shape, at these flat indices of it."""

    k: int
    shape: tuple
    index: np.ndarray

    def fits(self, outputs) -> bool:
        """Could it be picked from these outputs?"""
        return self.k < len(outputs) and np.shape(outputs[self.k]) == self.shape

    def __call__(self, outputs):
        if not self.fits(outputs):
            raise ValueError("another shape")
        return np.asarray(outputs[self.k], np.float64).reshape(-1)[self.index]


@dataclass
class Search:
    """One wrong array: `replay` is the call that made it, `pick` takes it from that call's outputs."""

    solution: Solution
    replays: list
    replay: Replay
    pick: Pick
    got: np.ndarray
    target: np.ndarray

    def explanation(self, function) -> Found | None:
        """Single changes first, of the solution, then of the learner's function; two mistakes come last."""
        found = self._in_the_solution(mutants, arrays)
        if found:
            return found
        answer = learners(function)
        if answer is not None and self._made_by(answer):
            found = self._in_the_answer(answer) or self._meeting(answer)
        return found or self._in_the_solution(pairs)

    def _in_the_solution(self, *kinds):
        """The first change of it that gives the learner's numbers."""
        end = time.thread_time() + SECONDS
        for several in kinds:
            with closing(self._made(self.solution, several, end)) as made:
                for words, array in made:
                    if self._explains(array):
                        return Found(ours=words)
        return None

    def _in_the_answer(self, answer):
        """The first change of the learner's function that makes this array right, and no other one wrong."""
        end = time.thread_time() + SECONDS
        with closing(self._made(answer, mutants, end)) as made:
            for words, array in made:
                if _close(array, self.target, self.target, self.dtype) and self._right_everywhere(answer, end):
                    return Found(yours=words)
        return None

    def _made(self, program, several, end):
        """(words, array) of every change of a program that still gives an array of the right shape."""
        with closing(several(program.tree)) as changes:  # which makes the tree whole again
            for words in changes:
                if time.thread_time() > end:
                    return
                try:
                    array = self.pick(self.replay.run(program.function(end)))
                except Exception:  # most mutants stop with one: a shape that does not fit, a name without a value
                    continue
                if np.shape(array) == self.got.shape:
                    yield words, array

    def _made_by(self, answer) -> bool:
        """Does the learner's function, run again, give the array that the check saw?"""
        try:
            array = self.pick(self.replay.run(answer.function(time.thread_time() + SECONDS)))
        except Exception:  # it needs more than its source: what an earlier call left, a class of its own
            return False
        return np.shape(array) == self.got.shape and _close(array, self.got, self.target, self.dtype)

    def _right_everywhere(self, answer, end) -> bool:
        """Does the changed function mend this array in every call, and spoil no other one that was right?"""
        for replay in self.replays:
            try:
                right, new = (replay.run(program.function(end)) for program in (self.solution, answer))
                mended = not self.pick.fits(right) or self._alike(self.pick(new), self.pick(right))
            except Exception:
                return False
            before = zip(replay.outputs, new, right)
            if not mended or any(self._alike(old, it) and not self._alike(now, it) for old, now, it in before):
                return False
        return True

    def _alike(self, array, right) -> bool:
        return np.shape(array) == np.shape(right) and _close(array, right, right, self.dtype)

    def _meeting(self, answer):
        """A change of the learner's function and one of ours after which both give the same: the least change."""
        if self.target.size < FEW:
            return None
        weights = np.random.default_rng(0).uniform(1, 2, self.target.size)  # one number stands for an array
        end = time.thread_time() + SECONDS
        ours = [made for made in self._made(self.solution, likely, end) if self._says_something(made[1])]
        keys = np.array([array.ravel() @ weights for _, array in ours])
        best, least = None, np.inf
        for words, array in self._made(answer, likely, time.thread_time() + SECONDS):
            near, size = SHARE[self.dtype] * np.abs(array).sum(), np.abs(array - self.target).max()
            if size < least and not self._explains(array):
                for k in np.flatnonzero(np.abs(keys - array.ravel() @ weights) <= near):  # the likeliest first
                    if self._explains(ours[k][1], array):
                        best, least = Found(ours[k][0], words), size
                        break
        return best

    @staticmethod
    def _says_something(array) -> bool:
        """Is it neither constant nor infinite? Many changes of different programs give the same zeros."""
        return bool(np.isfinite(array).all() and np.ptp(array) > 0)

    @property
    def dtype(self) -> str:
        outputs = self.replay.outputs or ()
        return "float32" if any(getattr(a, "dtype", None) == np.float32 for a in outputs) else "float64"

    def _explains(self, array, got=None) -> bool:
        """Is the error of `got` the error of `array`, except for a small share?"""
        got, target, dtype = self.got if got is None else got, self.target, self.dtype
        if not (np.isfinite(array) == np.isfinite(got)).all():
            return False
        finite = np.isfinite(got) & np.isfinite(target)
        error, largest = np.abs(array - target)[finite], np.abs(target[finite])
        if not finite.any():
            return False
        rounding = ROUNDING[dtype] * largest.max()
        if error.max() <= 20 * rounding or dtype == "float32" and (error > 20 * rounding).sum() < FEW:
            return False
        return np.abs(array - got)[finite].max() <= SHARE[dtype] * error.max() + rounding


def _where(replay, solution, got, expected, start) -> Pick | None:
    """Where in a call's outputs lies what the check compared? None if this call did not make it."""
    try:
        outputs = replay.run(solution.function(time.thread_time() + SECONDS))
    except Exception:  # it is too slow without Numba, or needs what only the whole notebook makes
        return None
    for k, mine in enumerate(replay.outputs or ()):
        if isinstance(mine, np.ndarray) and isinstance(got, np.ndarray) and np.may_share_memory(mine, got):
            index = _index_of(mine, got)
            if index is not None:
                return Pick(k, mine.shape, index)
    for k, output in enumerate(outputs):
        if np.shape(output) == np.shape(expected) and _close(output, expected + start, expected, "float32"):
            return Pick(k, np.shape(output), np.arange(np.size(output)).reshape(np.shape(output)))
    return None


def _index_of(array, view):
    """Flat indices (in the order of array) of a view's entries; None when it is not made of array's own entries."""
    if view is array:
        return np.arange(array.size).reshape(array.shape)
    if not array.flags.c_contiguous or array.dtype != view.dtype or not view.size:
        return None
    start = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    index = np.full(view.shape, start, np.int64)
    for axis, (length, stride) in enumerate(zip(view.shape, view.strides)):
        index += (np.arange(length) * stride).reshape(-1, *[1] * (view.ndim - axis - 1))
    index, rest = np.divmod(index, array.itemsize)
    return index if not rest.any() and 0 <= index.min() and index.max() < array.size else None


def _close(array, target, size, dtype) -> bool:
    array, target = np.asarray(array, np.float64), np.asarray(target, np.float64)
    allowed = 100 * ROUNDING[dtype] * max(np.abs(size).max(initial=0.0), np.abs(target).max(initial=0.0))
    return bool(np.allclose(array, target, rtol=0, atol=allowed, equal_nan=True))
