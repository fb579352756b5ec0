"""Does a change that explains one call hold in the check's other calls, and on numbers that it has not used?"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmc.course.old.mutants.picked import ROUNDING, Pick, close
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.stoppable import TooLong
from llmc.course.own_names import learners_names

STRETCHED = (30, -30)  # times the numbers of the failing call
AFRESH = 0.02  # of the error in a call on other numbers: how much nearer the same mistake must come
MOST = 0.1  # of the error in a call on other numbers, where there may be further mistakes, that a change may leave


@dataclass
class Elsewhere:
    """The other calls. `replay` is the failing one, of `replays`; `pick` takes the wrong array from a call's outputs.

    whole: the solution's function. function: the learner's. rehearsed: makes calls of the solution on other numbers.
    every_size: calls on other shapes count, too.
    """

    replays: list[Replay]
    replay: Replay
    pick: Pick
    whole: Callable
    function: Callable
    rehearsed: Callable
    every_size: bool = False

    def __post_init__(self):
        self.rights = {}  # {id of a call: what the solution gives in it}; without those where it stops
        for replay in self.replays:
            with suppress(Exception):
                self.rights[id(replay)] = replay.run(self.whole)

    @cached_property
    def fresh(self) -> list[Replay]:
        """Calls on numbers that the check has not used, and what the learner's function gives there."""
        found = []
        with learners_names():
            for replay in self.rehearsed(self.whole):
                with suppress(Exception):  # the learner's function stops there
                    self.rights[id(replay)] = replay.run(self.whole)
                    replay.outputs = replay.outputs or replay.run(self.function)  # a kernel has been launched
                    found.append(replay)
        return [replay for replay in found if len(replay.outputs) == len(self.replay.outputs)]  # no array is None

    def same(self, changed, partly=False) -> bool:
        """Does the changed solution, changed(), also give what the learner's function gave in the other calls?

        partly: other outputs that the learner's function gets right may be wrong then.
        """
        others = [replay for replay in self.replays if replay is not self.replay and id(replay) in self.rights]
        try:
            alike = partly or self._possible(self.replay, self.replay.run(changed()))
            alike = alike and all(self._same_in(replay, changed(), 0.01, partly) for replay in others)
        except Exception:  # it stops there, and the learner's did not
            return False
        fresh = [replay for replay in self.fresh if not replay.later]
        return alike and all(self._same_afresh(replay, changed(), partly) for replay in fresh)

    def _possible(self, replay, outputs) -> bool:
        """May the learner's function be what gives these outputs?

        They are as many, of the same types, and none that is right there is wrong here: whoever makes a mistake makes
        all that comes of it.
        """
        right, theirs, dtype = self.rights[id(replay)], replay.outputs, dtype_of(replay)
        if not len(outputs) == len(right) == len(theirs):
            return len(outputs) == len(right)  # an array of theirs is None, or there is one more: nobody knows which
        if any(_dtype(now) != _dtype(it) == _dtype(old) for old, now, it in zip(theirs, outputs, right)):
            return False
        return not any(_spoilt(old, now, it, dtype) for old, now, it in zip(theirs, outputs, right))

    def _same_in(self, replay, changed, share, partly) -> bool:
        """Is this array of the changed solution nearer to the learner's than the error, where either is wrong?"""
        outputs = replay.run(changed), self.rights[id(replay)], replay.outputs
        if not partly and not self._possible(replay, outputs[0]):
            return False
        if not self.every_size and not all(self.pick.fits(each) for each in outputs):
            return True
        array, right, theirs = map(self.pick.anywhere, outputs)
        if right is None or not array.shape == right.shape == theirs.shape:
            return right is None
        error = max(_distance(array, right), _distance(theirs, right))
        return _near(array, theirs, share * error + _rounding(replay, right))

    def _same_afresh(self, replay, changed, partly) -> bool:
        """The same for a call on other numbers, where a second mistake may add to the error."""
        try:
            return self._same_in(replay, changed, AFRESH, partly)
        except TooLong:
            return False
        except Exception:  # such a mistake cannot be made there: there is one sequence only, perhaps
            return True

    def meet(self, ours, yours) -> bool:
        """Do the changed solution and the learner's changed function also give the same in all calls, and afresh?

        ours(), yours(): the functions. Of the failing call, and of others, in all outputs that the learner's has wrong.
        """
        calls = [replay for replay in (*self.replays, *self.fresh) if not replay.later and id(replay) in self.rights]
        try:
            return all(self._meet_in(replay, ours(), yours()) for replay in calls)
        except Exception:  # one of them stops there
            return False

    def _meet_in(self, replay, ours, yours) -> bool:
        outputs = replay.run(ours), replay.run(yours), self.rights[id(replay)]
        if not all(map(_alike_where_wrong, *outputs, replay.outputs, [dtype_of(replay)] * len(replay.outputs))):
            return False
        if replay is self.replay:  # whose array is known to meet
            return True
        one, other, right = map(self.pick.anywhere, outputs)
        if right is None or not one.shape == other.shape == right.shape:
            return right is None
        error = max(_distance(one, right), _distance(other, right))
        return _near(one, other, 0.01 * error + _rounding(replay, right))

    def mended(self, changed, doubtful=False) -> bool:
        """Does the learner's changed function, changed(), mend this array everywhere, and spoil no right one?

        doubtful: such a change makes one call right by chance, so it must mend another one, too.
        """
        try:
            mends = all(self._right_in(replay, changed()) for replay in self.replays)
            if not mends or doubtful and not self._wrong_in_others():
                return False
            if doubtful and not all(self._nearer_in(replay, changed()) for replay in self.stretched):
                return False
            return all(self._nearer_in(replay, changed()) for replay in self.fresh)
        except Exception:  # it stops in another call, or gives something that is no number
            return False

    @cached_property
    def stretched(self) -> list[Replay]:
        """The failing call with all its numbers much larger, and turned around: a lucky constant is none there."""
        found = []
        with learners_names():
            for factor in STRETCHED:
                with suppress(Exception):  # no such call can be made
                    replay = self.replay.scaled(factor)
                    self.rights[id(replay)], replay.outputs = replay.run(self.whole), replay.run(self.function)
                    if np.isfinite(self.pick(self.rights[id(replay)])).all():
                        found.append(replay)
        return found

    def wrong_entries(self) -> int:
        """How many entries of this array are wrong in the other calls, as far as these are known."""
        found = 0
        for replay in (*self.replays, *self.fresh):
            if replay is not self.replay and id(replay) in self.rights:
                old, right = self.pick.anywhere(replay.outputs), self.pick.anywhere(self.rights[id(replay)])
                if right is not None and np.shape(old) == np.shape(right):
                    found += wrong_entries(old, right, dtype_of(replay))
        return found

    def _wrong_in_others(self) -> bool:
        """Is this array of the learner's function wrong in another call, too, so that a change can mend it there?"""
        others = [replay for replay in (*self.replays, *self.fresh) if replay is not self.replay]
        return any(not self._right_as_it_is(replay) for replay in others if id(replay) in self.rights)

    def _right_as_it_is(self, replay) -> bool:
        old, right = self.pick.anywhere(replay.outputs), self.pick.anywhere(self.rights[id(replay)])
        return right is None or np.shape(old) == np.shape(right) and close(old, right, right, dtype_of(replay))

    def _right_in(self, replay, changed) -> bool:
        right, new, dtype = replay.run(self.whole), replay.run(changed), dtype_of(self.replay)
        if self.pick.fits(right):
            mine, its = self.pick(new), self.pick(right)
            if np.shape(mine) != np.shape(its) or not close(mine, its, its, dtype):
                return False
        return not any(_spoilt(old, now, it, dtype) for old, now, it in zip(replay.outputs, new, right))

    def _nearer_in(self, replay, changed) -> bool:
        """Is nearly all of the error of this array gone in a call on other numbers, and maybe of another shape?

        In a later call, where it may have another cause: is it at least no larger?
        """
        outputs = replay.run(changed), self.rights[id(replay)], replay.outputs
        new, right, old = map(self.pick.anywhere, outputs)
        if right is None or not new.shape == right.shape == old.shape:
            return right is None
        left = 1.0 if replay.later else MOST
        if replay.later and not np.isfinite(old)[np.isfinite(right)].all():  # a change may mend a part of it
            return not (~np.isfinite(new) & np.isfinite(old) & np.isfinite(right)).any()
        return _near(new, right, left * _distance(old, right) + _rounding(replay, right))


def wrong_entries(array, right, dtype) -> int:
    """How many entries differ by more than rounding."""
    return int((np.abs(array - right) > 100 * ROUNDING[dtype] * _largest(right)).sum())


def _dtype(value):
    return getattr(value, "dtype", None)


def _alike_where_wrong(one, other, right, theirs, dtype) -> bool:
    """Are two changed outputs the same, if this one is wrong in the learner's call?"""
    if not np.shape(one) == np.shape(other) == np.shape(right) == np.shape(theirs):
        return np.shape(theirs) != np.shape(right)
    one, other, right, theirs = (np.asarray(each, np.float64) for each in (one, other, right, theirs))
    rounding = 100 * ROUNDING[dtype] * _largest(right)
    error = max(_distance(one, right), _distance(theirs, right))
    return _distance(theirs, right) <= rounding or _near(one, other, 0.01 * error + rounding)


def _spoilt(old, now, right, dtype) -> bool:
    """Is there an entry of `old` that was right and of `now` that is wrong?"""
    if np.shape(old) != np.shape(right):
        return False
    if np.shape(now) != np.shape(right):
        return True
    allowed = 100 * ROUNDING[dtype] * _largest(np.asarray(right, np.float64))
    was, wrong = np.abs(np.subtract(old, right, dtype=np.float64)), np.abs(np.subtract(now, right, dtype=np.float64))
    return bool(((was <= allowed) & ~(wrong <= allowed)).any())


def _near(one, other, allowed) -> bool:
    """Are both NaN or infinite in the same places, and do they differ by no more than that elsewhere?"""
    return np.array_equal(np.isfinite(one), np.isfinite(other)) and _distance(one, other) <= allowed


def _distance(one, other) -> float:
    """The largest difference where both are numbers."""
    finite = np.isfinite(one) & np.isfinite(other)
    return np.abs(one[finite] - other[finite]).max(initial=0.0)


def _rounding(replay, right) -> float:
    return 100 * ROUNDING[dtype_of(replay)] * _largest(right)


def _largest(array) -> float:
    """Of the numbers in it, without NaN and infinities."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def dtype_of(replay) -> str:
    """ "float32" if any output of that call is."""
    outputs = replay.outputs or ()
    return "float32" if any(getattr(a, "dtype", None) == np.float32 for a in outputs) else "float64"
