"""What the running check has seen: the calls that it made, and plain facts about the last of them.

Which mistake the numbers of these calls show is asked in `causes.py`; what a call wrote, and where, in `written.py`.
"""

import io
import time
import warnings
from collections import deque
from contextlib import redirect_stdout
from operator import itemgetter

import numpy as np

from llmc.course.old.checks.leftovers import after_large
from llmc.course.old.checks.stale import right_at_first, stale
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.replay import Replay, arrays_in, outputs_of
from llmc.course.old.mutants.solution import Solution, solution_of
from llmc.course.own_names import learners_names

CALLS = 4  # of a check, the last ones, that a wrong array may have come from; a check may make thousands
SMALL, LITTLE = 60, 1 << 14  # such calls with so many bytes of arrays at most
_open = []  # the Evidence of the check whose block is running, innermost last
_explaining = True


class Evidence:
    """The calls of one check."""

    def __init__(self, exercise, rehearsed=lambda solution: []):
        """rehearsed: makes calls of a solution, on other numbers than the check's."""
        self.exercise, self.rehearsed = exercise, rehearsed
        self.check = None  # whose calls these are, once its block runs
        self.function = None  # the learner's, as it was called last
        self.replays = deque(maxlen=CALLS)
        self.largest = None  # of all calls that could be kept, the first with the largest array
        self.small = deque(maxlen=SMALL)  # more of them, of small calls alone
        self.overwritten = set()  # which arrays of the arguments were tried with NaN in them, by their places

    def solution(self):
        """What mutants are made of; None if there is nothing."""
        return solution_of(self.exercise)

    def keeps_results(self) -> str | None:
        """A sentence if a function whose results were right gives them again for other numbers in the same array."""
        sizes = [sum(a.size for a in replay.arguments if isinstance(a, np.ndarray)) for replay in self.replays]
        smallest = min((call for call in zip(sizes, self.replays) if call[0]), key=itemgetter(0), default=(0, None))[1]
        return self.stale_in(smallest) or self._leaves(smallest) if smallest and _explaining else None

    def stale_in(self, replay) -> str | None:
        """A sentence if the learner's function keeps results by address or size, as this call shows; else None."""
        return self._with_solution(lambda ours: stale(self.function, ours, lambda: learners(self.function), replay))

    def right_at_first(self, replay) -> str | None:
        """A sentence if the learner's function is right in its first call, and no longer in its second; or None."""
        answer = lambda: learners(self.function)  # noqa: E731
        return self._with_solution(lambda ours: right_at_first(self.function, ours, answer, replay))

    def _leaves(self, replay) -> str | None:
        """A sentence if this call gives something else after one with very large numbers; else None."""
        return self._with_solution(lambda ours: after_large(self.function, ours, replay))

    def _with_solution(self, look) -> str | None:
        """look(our solution's function), quietly; None if there is no solution in Python."""
        solution = self.solution()
        if not isinstance(solution, Solution):
            return None
        with learners_names(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return look(solution.function(time.thread_time() + solution.seconds))

    def __enter__(self):
        _open.append(self)

    def __exit__(self, *unused):
        _open.remove(self)

    def before(self, function, arguments, options, buffers=()):
        """The copy of a call that is about to be made; None where it cannot be made again.

        buffers: the arrays that it may write to.
        """
        self.function = function
        given = {id(array) for array in arrays_in((arguments, options))}
        for earlier in self.replays:  # a buffer that is written again: keep what it holds now
            earlier.outputs = [np.copy(each) if id(each) in given else each for each in earlier.outputs]
        replay = Replay.of(arguments, options)
        if replay is not None:
            replay.buffers = [any(value is buffer for buffer in buffers) for value in arguments]
        return replay

    def after(self, replay, result, arguments, options):
        """Note what that call returned and wrote."""
        if replay is not None:
            replay.outputs = outputs_of(result, arguments, options)
            self.replays.append(replay)
            self.largest = max(filter(None, [self.largest, replay]), key=largest_of)
            little = sum(array.nbytes for array in arrays_in((replay.arguments, replay.options))) <= LITTLE
            self.small += [replay] * little


def largest_of(replay) -> int:
    """How many numbers the largest array among the arguments of a call holds."""
    return max((array.size for array in arrays_in((replay.arguments, replay.options))), default=0)


def explaining(on: bool) -> bool:
    """Whether causes are looked for, which takes up to seconds; returns what it was before."""
    global _explaining
    was, _explaining = _explaining, on
    return was


def is_explaining() -> bool:
    """Whether causes are looked for."""
    return _explaining


def running() -> Evidence | None:
    """The Evidence of the check whose block is running, of the innermost one; None outside of a check."""
    return _open[-1] if _open else None


def looked_into() -> Evidence | None:
    """The same, and None where no causes are looked for."""
    return running() if _explaining else None


def last_call() -> Replay | None:
    """The running check's last call; None outside of a check, and before its first call."""
    return _open[-1].replays[-1] if _open and _open[-1].replays else None


def learners_function():
    """The learner's function as the running check called it last; None outside of a check."""
    return _open[-1].function if _open else None


def inputs() -> dict:
    """{name: value} of the arguments of the running check's last call, as they were before; {} outside of a check."""
    last = last_call()
    return last.named(learners_function()) if last else {}


def absent() -> list[str]:
    """Names of the arguments that are None in the running check's last call, and were not in an earlier one."""
    calls = [replay.named(learners_function()) for replay in _open[-1].replays] if _open else []
    earlier = calls[:-1]
    return [name for name, value in inputs().items() if value is None and any(e.get(name) is not None for e in earlier)]


def calls_so_far() -> list[tuple]:
    """[(arguments, result)] of the running check's last calls of a function that returns one array; [] outside."""
    return [(replay.arguments, replay.outputs[0]) for replay in _open[-1].replays] if _open else []


def of_arrays() -> bool:
    """Do the functions of the running check work on whole arrays, and not thread by thread?"""
    solution = _open[-1].solution() if _open else None
    return solution is None or solution.of_arrays


def launch() -> tuple[int, int] | None:
    """(blocks, threads of a block) along x of the running check's last launch; None if that was no kernel."""
    last = last_call()
    if of_arrays() or last is None:
        return None
    (blocks, *_), (threads, *_) = last.arguments[:2]
    return blocks, threads


def made(replay, got) -> bool:
    """Was it this call that gave `got`? Calls on large arrays are not kept."""
    return any(may_be(mine, got) for mine in replay.outputs)


def may_be(mine, got) -> bool:
    """Is this output of a call the array `got`, or a view of the same memory?"""
    return isinstance(mine, np.ndarray) and np.may_share_memory(mine, got)
