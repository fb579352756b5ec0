"""`with check("layernorm_forward") as c:` around the asserts of a check cell.

    fresh stub       "not done yet: …", no traceback, and the notebook runs on
    right answer     "✓ layernorm_forward is right.", and progress is recorded
    wrong answer     WrongAnswer: what is wrong and where to look; no traceback
    exception        WrongAnswer: the line of the learner's function that raised it, and the call that led there

Inside the block `c` makes inputs (`c.random`, `c.buffer`) and calls the learner's function (`c.call`).
"""

import copy
import inspect
import sys
import textwrap
import time
from contextlib import contextmanager

import numpy as np

from llmc.course.learner import journal
from llmc.course.old.checks.blame import explain_error, own_frames
from llmc.course.old.checks.compiling import by_compiler
from llmc.course.old.checks.containers import Containers
from llmc.course.old.checks.endless import Limit, StillRunning, Stopped, where
from llmc.course.old.checks.evidence import Evidence
from llmc.course.old.checks.explain import Named, WrongAnswer, describe, describe_result
from llmc.course.old.checks.inputs import awkward, guarded, read_only
from llmc.course.old.checks.isolation import without_llmc
from llmc.course.old.checks.left_running import LeftRunning
from llmc.course.old.checks.no_race import has_prange, no_race_in
from llmc.course.old.checks.protection import Protected
from llmc.course.old.checks.rehearsal import rehearsed
from llmc.course.old.checks.remedy import with_remedy
from llmc.course.own_names import learners_names, names_of

NOT_DONE = "not done yet: {}. Replace `raise NotImplementedError` with your code, run that cell, then this one."
WATCHED = 3  # sizes with which races are looked for, in plain Python, which is slow
LONG = 8.0  # seconds of processor time of a check
WIDTH = 72  # characters of a printed line; JupyterLab breaks longer ones in the middle of a word
_seed = None  # set by the tests of the checks, so that their runs repeat; None draws new inputs every time


class check:
    """Context manager around a check cell; `name` is the exercise's name, unique in the course."""

    def __init__(self, name):
        self.name = name
        self.rng = np.random.default_rng(_seed)
        self.calls = []  # (text of the call, result or None) of each c.call, for the explanation
        self._evidence = Evidence(name, self._rehearsed)
        self._buffers = []
        self._writable = set()  # ids of the functions that cannot take read-only arrays
        self._kept = []  # (array that was returned, copy of it)
        self._notes = []
        self._may_call = ()  # functions of the notebook's that an answer may call, whatever they use
        self._watched = set()  # sizes of the arguments for which races were looked for

    def __enter__(self):
        self._cell = sys._getframe(1)  # the check cell's own frame
        self._names = names_of(self._cell, self.name)
        self._names.__enter__()
        self._evidence.__enter__()
        self._evidence.check, self.began = self, time.thread_time()
        self._limit = Limit(self._cell)
        self._limit.start()
        return self

    def __exit__(self, kind, error, traceback):
        self._limit.stop()
        self._evidence.__exit__()
        try:
            return self._conclude(error, traceback)
        finally:
            self._names.__exit__(None, None, None)

    def _conclude(self, error, traceback):
        """Say that the answer is right or not done yet (True: no error), or raise the explanation of what is wrong."""
        kept = self._evidence.keeps_results() if error is None else None
        error = WrongAnswer(f"{kept}.") if kept else error
        if error is None:
            say(" ".join([f"✓ {self.name} is right.", *self._notes, journal.record(self.name)]).rstrip())
        elif isinstance(error, NotImplementedError) and not by_compiler(error):
            say(NOT_DONE.format(self.name))
            return True
        elif isinstance(error, Exception):
            journal.record_try(self.name)
            picture = getattr(error, "picture", None)
            message = explain_error(self, self._cell, error, traceback)
            if not getattr(error, "explained", False):
                named = bool(error.args) and isinstance(error.args[0], Named)
                message = with_remedy(self, self._cell, message, named)
            raise WrongAnswer(message, picture) from None
        elif isinstance(error, StillRunning | KeyboardInterrupt):
            self._say_where_it_was(error, traceback)
        return False

    def _say_where_it_was(self, error, traceback):
        """Raise the sentence on an answer that went on and on, or that was stopped; return if it was not running."""
        frames = own_frames(traceback, self._cell)
        if frames and isinstance(error, StillRunning):
            journal.record_try(self.name)
            ended = f"does not come to an end: after {error.seconds:.0f} s it was {where(frames)}"
            raise WrongAnswer(f"✗ {self.name}: {ended}.") from None
        if frames:
            seconds = time.perf_counter() - self._limit.began_wall
            raise Stopped(f"✗ {self.name}: stopped after {seconds:.0f} s, {where(frames)}.") from None

    def random(self, *shape, dtype=np.float64):
        """New awkward input (…, n): no mean is 0, no spread is 1 (`llmc.course.awkward`)."""
        return awkward(self.rng, *shape, dtype=dtype)

    def buffer(self, *shape, dtype=np.float64):
        """New output buffer: it already holds numbers, and a write outside of it is noticed after the call."""
        self._buffers.append(guarded(awkward(self.rng, *shape, dtype=dtype)))
        return self._buffers[-1].array

    def say(self, note):
        """Add a sentence to the line printed on success."""
        self._notes.append(note)

    def may_call(self, *functions):
        """Let answers call these functions of the notebook's, which use llmc themselves."""
        self._may_call += functions

    def call(self, function, *arguments, **options):
        """Call the learner's function. It can write to buffers made by c.buffer, but not to its other inputs.

        It can use neither the variables of check cells nor functions of llmc.
        """
        self.calls.append((_call_text(function, arguments, options), None))
        given = [self._protect(argument) for argument in arguments]
        locked = {name: self._protect(value) for name, value in options.items()}

        def run(function, arguments):
            with learners_names(), without_llmc(self._may_call):
                return function(*arguments, **locked)

        self._limit.begin()
        buffers = [buffer for buffer in self._buffers if any(buffer.array is value for value in given)]
        call = Protected(_names_of_arguments(function, arguments), given, buffers)
        arrays = [buffer.array for buffer in self._buffers]
        containers = Containers([*zip(_names_of_arguments(function, arguments), given), *locked.items()], arrays)
        replay, threads = self._evidence.before(function, arguments, options, arrays), LeftRunning()
        threads.begin()
        result, writable = call.run(run, function, writable=not self.takes_read_only(function))
        threads.inspect([buffer.array for buffer in buffers])
        self._writable |= {id(function)} if writable else set()
        self.calls[-1] = (self.calls[-1][0], describe_result(result))
        self._evidence.after(replay, result, arguments, options)
        self._watch_for_races(function, replay)
        self._inspect_bands()
        containers.inspect()
        self._inspect_earlier(result)
        return result

    def calls_are_long(self) -> bool:
        """Did this check take so long that none of its calls should be made again?"""
        return time.thread_time() - self.began > LONG

    def before_timing(self):
        """The cell measures speed from here on: nothing to do, but for a run of it that is not about speed."""

    @contextmanager
    def explained_as(self, exercise):
        """Around calls of a function that another exercise asks for, whose solution then explains what is wrong."""
        outer, self._evidence = self._evidence, Evidence(exercise)
        try:
            with self._evidence:
                yield
        finally:
            self._evidence = outer

    def takes_read_only(self, function) -> bool:
        """Does the function take read-only arrays, as far as its calls have shown? Others would compile it again."""
        return id(function) not in self._writable

    def _rehearsed(self, solution):
        """Calls of the function `solution` that this check would make, a few more than it has made."""
        return rehearsed(self._cell, self.name, solution, len(self.calls))

    def _watch_for_races(self, function, replay):
        """Raise WrongAnswer if turns of the function's pranges race in this call; only the first sizes are watched."""
        sizes = replay and tuple(getattr(argument, "size", 1) for argument in replay.arguments)
        if "numba" in sys.modules and sizes and sizes not in self._watched and len(self._watched) < WATCHED:
            self._watched.add(sizes)
            if not replay.options and has_prange(function):
                no_race_in(function, *copy.deepcopy(replay.arguments))

    def _protect(self, argument):
        """A buffer itself; a read-only copy of any other array."""
        mine = any(argument is buffer.array for buffer in self._buffers)
        return argument if mine or not isinstance(argument, np.ndarray) else read_only(argument)

    def _inspect_bands(self):
        """Raise WrongAnswer when the call wrote outside of a buffer."""
        for buffer in self._buffers:
            front, back = buffer.written_outside()
            if front or back:
                where = " and ".join(f"{n} elements {side}" for n, side in ((front, "before"), (back, "after")) if n)
                raise WrongAnswer(f"your code wrote outside a {describe(buffer.array)} output: {where} it.")

    def _inspect_earlier(self, result):
        """Raise WrongAnswer when this call changed an array that an earlier one returned: it was returned twice."""
        if any(not np.array_equal(array, copy, equal_nan=True) for array, copy in self._kept):
            raise WrongAnswer(
                "this call changed an array that an earlier call had returned: make a new array in every call."
            )
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, np.ndarray) and not any(np.may_share_memory(value, b.whole) for b in self._buffers):
                self._kept.append((value, value.copy()))


def say(sentences):
    """Print them in lines that fit into a notebook."""
    print(textwrap.fill(sentences, WIDTH, break_long_words=False, break_on_hyphens=False))


def _call_text(function, arguments, options):
    """ "layernorm_forward(x (3, 5, 7) float64, w (7,) float64)": the call as the learner would recognise it."""
    named = [*zip(_names_of_arguments(function, arguments), arguments), *options.items()]
    inside = ", ".join(f"{name} {describe(value)}".lstrip() for name, value in named)
    return f"{getattr(function, '__name__', 'your function')}({inside})"


def _names_of_arguments(function, arguments):
    """What the function calls each of them: ["x", "w"]; "" where it has no name for one."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (names + [""] * len(arguments))[: len(arguments)]
