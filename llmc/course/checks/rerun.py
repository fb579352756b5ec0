"""A check's cell that runs once more, on other numbers and with another function: quietly, and without progress.

With our solution it makes calls that the failing check has not made; with an edited answer it tells whether it passes.
"""

import inspect
import io
import warnings
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from llmc.course import uncleared
from llmc.course.checks import check as check_cell
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.learner import journal

try:
    import resource
except ImportError:  # Windows
    resource = None

ROOM = 4 << 30  # bytes on top of what is in use: far more than the arrays of any check and all that a launch needs
BEFORE, LONG_BEFORE, AFTER, FEW = 4, 60, 3, 1000  # calls before the one that failed: of many numbers, of FEW; after it
SEEDS = (5, 6, 7)  # of the numbers that an edit must be right for


class Enough(BaseException):
    """The run has shown what was wanted; no `except Exception` of a check cell may catch it."""


class Rerun:
    """What `check` becomes in the cell that runs once more: a base class in front of its own."""

    explains = False

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rng = np.random.default_rng(self.seed)

    def __enter__(self):
        self.cell = None
        check_cell._open.append(self)
        self._limit = SimpleNamespace(begin=lambda: None)  # of time: the check around it has one
        return self

    def __exit__(self, kind, error, traceback):
        check_cell._open.remove(self)
        return False

    def call(self, function, *arguments, **options):
        """As the check does; the calls are noted."""
        result = super().call(function, *arguments, **options)
        self._note(self.calls[-1])
        return result

    def _note(self, call):
        if self.seen is not None:
            self.seen.append(call)
            if len(self.seen) >= self.most:
                raise Enough

    def before_timing(self):
        """An edited function is plain Python, whatever the learner's is: its speed says nothing."""
        raise Enough


def calls_with(check, answer, seed=SEEDS[0]) -> list:
    """The calls that the check's cell makes to `answer`, our solution, on other numbers: those around the last one."""
    seen, before = [], BEFORE if check.calls[-1].size > FEW else LONG_BEFORE
    _run(check, answer, seed, seen, check.made + AFTER)
    return seen[max(0, check.made - before) :]


def passes(check, answer) -> bool:
    """Does the whole check accept this answer, on every draw?"""
    return all(_run(check, answer, seed, None, 0) for seed in SEEDS)


def _run(check, answer, seed, seen, most) -> bool:
    """Was there nothing to refuse? Where the cell cannot run again, say inside a function, no answer passes."""
    kind = type(check)
    cell, name = check.cell, kind.__name__
    if cell is None or cell.f_code.co_flags & inspect.CO_OPTIMIZED or cell.f_globals.get(name) is not kind:
        return False
    again = type(name, (Rerun, kind), {"seed": seed, "seen": seen, "most": most})
    names = {name: value for name, value in cell.f_globals.items() if not name.startswith("__llmc")}
    with quietly():
        try:
            exec(cell.f_code, names | {name: again, check.name: answer})
        except Enough:
            return True
        except (Exception, WrongAnswer):  # the check's refusal, or whatever the cell cannot do a second time
            return False
    return True


@contextmanager
def quietly():
    """No progress, no output, no warnings, no array that takes all of the memory or holds what was there before."""
    was = journal.recording(False)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"), little_memory():
            warnings.simplefilter("ignore")
            with uncleared.marked():  # as where the learner's function ran
                yield
    finally:
        journal.recording(was)


@contextmanager
def little_memory():
    """Inside the block, an array that takes this process far beyond what it has now raises MemoryError (on Linux)."""
    try:
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (OSError, AttributeError):  # another system
        yield
        return
    was, hard = resource.getrlimit(resource.RLIMIT_AS)
    lower = used + ROOM if was == resource.RLIM_INFINITY else min(used + ROOM, was)
    resource.setrlimit(resource.RLIMIT_AS, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (was, hard))
