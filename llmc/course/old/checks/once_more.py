"""A check's cell that runs once more: calls as in the check, and no progress, no text, no timing."""

import copy
import io
import time
import warnings
from contextlib import contextmanager, redirect_stdout

import numpy as np

from llmc.course.learner import journal
from llmc.course.old.checks.containers import Containers
from llmc.course.old.checks.evidence import explaining
from llmc.course.old.checks.isolation import without_llmc
from llmc.course.old.checks.same_deeds import Call
from llmc.course.old.checks.silence import silent_libraries
from llmc.course.old.mutants.little_memory import little_memory
from llmc.course.old.mutants.replay import arrays_in
from llmc.course.own_names import learners_names

MOST = 60  # calls that are looked at


class Late(BaseException):
    """The time is over; no `except Exception` of a check cell may catch it."""


class Timed(BaseException):
    """The cell has come to where it measures speed."""


class Again:
    """What becomes of `check` in the cell that runs once more."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rng = np.random.default_rng(self.seed)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return False

    def call(self, function, *arguments, **options):
        """Call the function with inputs that it cannot write to, as the check did."""
        if time.thread_time() > self.deadline:
            raise Late
        given = [self._protect(argument) for argument in arguments]
        locked = {name: self._protect(value) for name, value in options.items()}
        named = [("", value) for value in (*given, *locked.values())]
        containers = Containers(named, [buffer.array for buffer in self._buffers])
        self.calls.append(("", None))
        seen = Call.of(arguments, options) if self.seen is not None and len(self.seen) < MOST else None
        if seen:
            self.seen.append(seen)
        function = self.anew(function) if self.anew else function
        with learners_names(), without_llmc(self._may_call):
            result = function(*given, **locked)
        if seen:
            seen.did = copy.deepcopy((result, arrays_in((given, locked))))
        self._inspect_bands()
        containers.inspect()
        self._inspect_earlier(result)
        return result

    def before_timing(self):
        """A changed function is plain Python, whatever the learner's is: its speed says nothing."""
        raise Timed


@contextmanager
def quietly():
    was_recording, was_explaining = journal.recording(False), explaining(False)
    try:
        with redirect_stdout(io.StringIO()), silent_libraries(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with little_memory():
                yield
    finally:
        journal.recording(was_recording)
        explaining(was_explaining)
