"""Calls that a failing check has not made yet: its cell runs once more, with other numbers and with our solution.

A change of the learner's function may mend the few calls that the check has made by chance. It should mend these, too.
"""

import inspect
import io
import time
from contextlib import redirect_stdout

import numpy as np

from llmc.course.learner import journal
from llmc.course.old.checks.evidence import explaining
from llmc.course.old.mutants.replay import Replay

MORE = 4  # calls than the failing check has made
LATER = 8  # further ones, in which there may be other mistakes
SECONDS = 1.0  # of processor time, after which no further call begins
SEED = 5


class _Enough(BaseException):
    """No more calls are needed; no `except Exception` of a check cell may catch it."""


class _Rehearsal:
    """What becomes of `check` in the cell that runs once more: it takes notes of the calls and says nothing."""

    def __init__(self, name):
        super().__init__(name)
        self.rng = np.random.default_rng(SEED)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        raise _Enough

    def call(self, function, *arguments, **options):
        """Call the solution, whose function this must be, and note the call."""
        replay = Replay.of(arguments, options) if function is self.function else None
        if replay is None or len(self.noted) >= self.most + LATER or time.thread_time() > self.deadline:
            raise _Enough
        replay.later = len(self.noted) >= self.most
        self.noted.append(replay)
        return function(*arguments, **options)


def rehearsed(cell, name, function, calls) -> list[Replay]:
    """Calls of `function`, our solution of the exercise `name`, without their outputs, some of them later.

    cell: the frame of the check cell. [] where it cannot run again: inside of a function, or with another exercise's.
    """
    if cell.f_code.co_flags & inspect.CO_OPTIMIZED or not isinstance(cell.f_globals.get("check"), type):
        return []
    end = time.thread_time() + SECONDS
    mine = {"function": staticmethod(function), "most": calls + MORE, "deadline": end, "noted": []}
    kind = type("Rehearsal", (_Rehearsal, cell.f_globals["check"]), mine)
    was_recording, was_explaining = journal.recording(False), explaining(False)
    try:
        with redirect_stdout(io.StringIO()):
            exec(cell.f_code, {**cell.f_globals, "check": kind, name: function})
    except (Exception, _Enough):  # whatever the cell needs that it cannot have here: the calls before are good
        pass
    finally:
        journal.recording(was_recording)
        explaining(was_explaining)
    return kind.noted
