"""`with check("layernorm_forward") as c:` around the lines of a check cell.

    fresh stub       "not done yet: …", no traceback, and the notebook runs on
    right answer     "✓ layernorm_forward is right.", and progress is recorded
    wrong answer     WrongAnswer: what is wrong and where to look; no traceback
    exception        WrongAnswer: the line of the learner's function that raised it, and the call that led there

Inside the block `c` makes inputs (`c.random`, `c.buffer`, `c.cases`), calls the learner's function (`c.call`), and
compares all its results with the exercise's reference (`c.compare`).
"""

import copy
import io
import sys
import textwrap
import time
from collections import deque
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple

import numpy as np

from llmc.course.checks import exceptions, hidden_state
from llmc.course.checks.calls import Call
from llmc.course.checks.comparison import compare, exchanged
from llmc.course.checks.exercise import exercise_named, labelled, named_arguments
from llmc.course.checks.guards.arguments import Containers, Protected
from llmc.course.checks.guards.endless import Limit, StillRunning, Stopped, where
from llmc.course.checks.guards.inputs import awkward, guarded, read_only
from llmc.course.checks.guards.isolation import without_llmc
from llmc.course.checks.guards.threads import LeftRunning, has_prange, no_race_in
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer, describe, describe_result, listed
from llmc.course.checks.messages.numba_errors import by_compiler
from llmc.course.learner import journal
from llmc.course.mutation.program import solution_of
from llmc.course.own_names import learners_names, names_of

NOT_DONE = "not done yet: {}. Replace `raise NotImplementedError` with your code, run that cell, then this one."
WATCHED = 3  # sizes at which races are looked for, in plain Python, which is slow
KEPT = 4  # how many of the last calls an explanation may make again
WIDTH = 72  # characters of a printed line; JupyterLab breaks longer ones in the middle of a word
_open = []  # the checks whose blocks are running, innermost last
_seed = None  # set by the tests of the checks, so that their runs repeat; None draws new inputs every time


class Tried(NamedTuple):
    """A call that has been made, as the rules of an exercise get it."""

    check: object
    function: object
    given: dict  # {name: argument}, as it was before the call
    got: dict  # {name: output}, returned or written
    expected: dict  # {name: what is right}


class check:
    """Context manager around a check cell; `name` is the exercise's name, unique in the course."""

    what = "function"  # what an answer is
    explains = True  # does a wrong answer get an explanation? Not where the cell runs once more to find one

    def __init__(self, name):
        self.name, self.exercise = name, exercise_named(name)
        self.rng = np.random.default_rng(_seed)
        self.calls = deque(maxlen=KEPT)  # a Call for each c.call, the last ones
        self.made = 0  # calls so far
        self.smallest = None  # the Call with the fewest numbers
        self.news = ""  # what is new in the calls that follow
        self.comparing = ""  # which output of the last call is being compared, as the call names it
        self._buffers = []
        self._writable = set()  # ids of the functions that cannot take read-only arrays
        self._kept = []  # (array that was returned, copy of it)
        self._notes = []
        self._may_call = ()  # functions of the notebook that an answer may call, whatever they use
        self._watched = set()  # sizes of the arguments for which races were looked for

    def __enter__(self):
        self.cell = sys._getframe(1)  # the check cell's own frame
        self._names = names_of(self.cell, self.name)
        self._names.__enter__()
        self._limit = Limit(self.cell)
        self._limit.start()
        _open.append(self)
        return self

    def __exit__(self, kind, error, traceback):
        self._limit.stop()
        try:
            return self._conclude(error, traceback)
        finally:
            _open.remove(self)
            self._names.__exit__(None, None, None)

    def _conclude(self, error, traceback):
        """Say that the answer is right or not done yet (True: no error), or raise the explanation of what is wrong."""
        error = error or self._at_the_end()
        if error is None:
            say(" ".join([f"✓ {self.name} is right.", *self._notes, journal.record(self.name)]).rstrip())
        elif isinstance(error, NotImplementedError) and not by_compiler(error):
            say(NOT_DONE.format(self.name))
            return True
        elif isinstance(error, Exception):
            journal.record_try(self.name)
            found = exceptions.diagnosis_of(self, self.cell, error, traceback)
            raise self._wrong(self._completed(found)) from None
        elif isinstance(error, StillRunning | KeyboardInterrupt):
            self._say_where_it_was(error, traceback)
        return False

    def _at_the_end(self):
        """A WrongAnswer if an answer whose results were right keeps something between calls; None if all is well."""
        told = hidden_state.after_success(self) if self.explains else ""
        return WrongAnswer(told, Kind.STATE) if told else None

    def _completed(self, found: Diagnosis) -> Diagnosis:
        """The same with the call, folded; if the function stopped, also with an edit that makes the check pass."""
        if found.kind is Kind.EXCEPTION and self.explains and self.calls:
            from llmc.course.checks.search import PythonSearch

            edit = PythonSearch(self, "").repair()
            found.more += [f"Your function passes this whole check {edit.there}."] if edit else []
        if self.calls and not found.folded:
            found.folded = [f"The call was {self.calls[-1].text}."]
            if self.calls[-1].described not in (None, "None"):  # an in-place function rightly returns None
                found.folded.append(f"It returned {self.calls[-1].described}.")
        return found

    def _wrong(self, diagnosis) -> WrongAnswer:
        error = WrongAnswer(diagnosis)
        error.exercise = self.name
        return error

    def _say_where_it_was(self, error, traceback):
        """Raise the sentence about an answer that ran on and on, or was stopped; return if it was not running."""
        frames = exceptions.own_frames(traceback, self.cell)
        if frames and isinstance(error, StillRunning):
            journal.record_try(self.name)
            ended = f"it does not come to an end: after {error.seconds:.0f} s it was {where(frames)}"
            raise self._wrong(Diagnosis(Kind.EXCEPTION, ended)) from None
        if frames:
            seconds = time.perf_counter() - self._limit.began_wall
            raise Stopped(f"✗ {self.name}: stopped after {seconds:.0f} s, {where(frames)}.") from None

    # ------------------------------------------------------------------------------------------------- inputs

    def cases(self):
        """What the exercise tries, one after the other: arguments for `c.compare`, or what its cell unpacks."""
        if self.exercise.cases is None:  # the set-up cell imports the lesson's
            raise NameError(name="exercises")
        return self.exercise.cases(self)

    def random(self, *shape, dtype=np.float64):
        """New awkward input (…, n): no mean is 0, no spread is 1 (`llmc.course.awkward`)."""
        return awkward(self.rng, *shape, dtype=dtype)

    def buffer(self, *shape, dtype=np.float64):
        """New output buffer: it already holds numbers, and a write outside of it is noticed after the call."""
        self._buffers.append(guarded(awkward(self.rng, *shape, dtype=dtype)))
        return self._buffers[-1].array

    def new(self, news):
        """What the calls from here on have that earlier ones did not: "some of z is -inf". Said if nothing is found."""
        self.news = news

    def say(self, note):
        """Add a sentence to the line printed on success."""
        self._notes.append(note)

    def may_call(self, *functions):
        """Let answers call these functions of the notebook, which use llmc themselves."""
        self._may_call += functions

    # -------------------------------------------------------------------------------------------------- calls

    def compare(self, function, *arguments, **options):
        """Call the learner's function, and compare all that it returns and writes with the exercise's reference.

        Returns what the function returned.
        """
        exercise = self.exercise
        given = copy.deepcopy((arguments, options))
        outputs = exercise.written(function, arguments, options)
        before = {name: copy.deepcopy(array) for name, array in outputs.items()}
        result = self.call(function, *arguments, **options)
        self._judge(function, named_arguments(function, *given), given, outputs, before, result)
        return result

    def _judge(self, function, named, given, outputs, before, result):
        """Hold a call to the exercise's rules, and compare all that it returned and wrote with the reference."""
        exercise = self.exercise
        expected = self._expected(given, before)
        got = self._returned(result, expected) | outputs
        for rule in exercise.rules:
            told = rule(Tried(self, function, named, got, expected))
            if told:
                raise told if isinstance(told, WrongAnswer) else WrongAnswer(told, look=exercise.look_for())
        for name, right in expected.items():
            how = {"added_to": before[name]} if name in exercise.adds.split() else {}
            how |= {"before": before[name]} if name in exercise.writes.split() and name in before else {}
            parts, mine = labelled(name, right), labelled(name, got[name])
            for label, part in parts.items():
                self.comparing = f"argument {label}" if name in outputs else label
                made = mine.get(label) if label != name else got[name]  # which may be a list where a number is due
                how |= {"look": exercise.look_for(name), **exercise.bounds(name, *given)}
                compare(label, made, part, **how)
        self.comparing = ""

    def _expected(self, given, before) -> dict:
        """{name: what is right} of the outputs, in order: of what is returned, or else of what is written."""
        exercise, (arguments, options) = self.exercise, copy.deepcopy(given)  # a reference may write to them
        names = exercise.returns.split() or [*before]
        if not (exercise.reference or solution_of(exercise.name)):
            raise WrongAnswer("this check compares with our solution, but the folder solutions is missing: restore it")
        reference = exercise.reference or solution_of(exercise.name).function()
        unseen = io.StringIO()  # catch_warnings would make Python forget which of the learner's warnings it has shown
        with np.errstate(all="ignore"), redirect_stdout(unseen), redirect_stderr(unseen):
            right = reference(*arguments, **options)
        if exercise.reference is None and not exercise.returns:  # it wrote into its arguments
            after = exercise.written(reference, arguments, options)
            adds = exercise.adds.split()
            right = tuple(a - before[n] if n in adds and a is not None else a for n, a in after.items())
            right = right if len(names) > 1 else right[0]
        named = zip(names, [right] if len(names) == 1 else right, strict=True)
        return dict(sorted(named, key=lambda each: getattr(each[1], "size", 0)))  # small results are often made first

    def _returned(self, result, expected) -> dict:
        """{name: part} of what the function returned; WrongAnswer if there are not as many as it should return."""
        names = self.exercise.returns.split()
        if len(names) < 2:
            if isinstance(result, tuple) and any(isinstance(expected[name], np.ndarray) for name in names):
                told = f"one array, {names[0]}, is expected, but your function returned {describe_result(result)}"
                raise WrongAnswer(told, Kind.SHAPE)
            return dict.fromkeys(names, result)
        wanted = f"{len(names)} results are expected, {listed(names, many=9)}"
        stacked = isinstance(result, np.ndarray) and {result.shape[1:]} == set(map(np.shape, expected.values()))
        if not (stacked or isinstance(result, tuple | list)) or len(result) != len(names):
            why = ": is a `return` missing?" if result is None else ""
            raise WrongAnswer(f"{wanted}, but your function returned {describe_result(result)}{why}", Kind.SHAPE)
        found = dict(zip(names, result))
        if exchanged(found, expected):
            raise WrongAnswer(f"the results are in the wrong order: return {', '.join(names)}", Kind.SHAPE)
        return found

    def call(self, function, *arguments, **options):
        """Call the learner's function. It can write to buffers made by c.buffer, but not to its other inputs.

        It can use neither the variables of check cells nor functions of llmc.
        """
        names = [*named_arguments(function, arguments, {})][: len(arguments)]
        call = Call.of(function, arguments, options, tuple(self.exercise.returns.split()))
        call.text = _call_text(function, names, arguments, options)
        self.calls.append(call)
        self.made += 1
        given = [self._protect(argument) for argument in arguments]
        locked = {name: self._protect(value) for name, value in options.items()}
        call.locked = tuple(mine is not its for mine, its in zip(arguments, given))

        def run(function, arguments):
            with learners_names(), without_llmc(self._may_call):
                return function(*arguments, **locked)

        self._limit.begin()
        buffers = [buffer for buffer in self._buffers if any(buffer.array is value for value in given)]
        protected = Protected(names, given, buffers)
        arrays = [buffer.array for buffer in self._buffers]
        containers, threads = Containers([*zip(names, given), *locked.items()], arrays), LeftRunning()
        threads.begin()
        result, writable = protected.run(run, function, writable=id(function) in self._writable)
        threads.inspect([buffer.array for buffer in buffers])
        self._writable |= {id(function)} if writable else set()
        call.lockable = not writable
        call.described = describe_result(result)
        call.finish(result, arguments, options)
        if call.arguments is not None and call.size and (self.smallest is None or call.size < self.smallest.size):
            self.smallest = call
        self._watch_for_races(function, call)
        self._inspect_bands()
        containers.inspect()
        self._inspect_earlier(result)
        return result

    def faster(self, given, yours, times, **how):
        """The answer must be `times` times as fast as the given one: see `faster` in speed/timing.py."""
        from llmc.course.checks.speed.timing import faster

        return faster(self, given, yours, times, **how)

    def search(self, array, right):
        """A search for edits that explain a wrong output of the last call; None if the array is not one of them."""
        from llmc.course.checks.search import PythonSearch  # which runs checks, too

        call = self.calls[-1] if self.calls else None
        label = call and (self.comparing or call.label_of(array))
        if not label or label not in call.outputs:
            return None
        return PythonSearch(self, label, call.outputs[label], right)

    def before_timing(self):
        """The cell measures speed from here on: nothing to do, except in a run that is not about speed."""

    @contextmanager
    def explained_as(self, exercise):
        """Around calls of a function that another exercise asks for, whose mistakes and solution then explain it."""
        mine, self.exercise = self.exercise, exercise_named(exercise)
        try:
            yield
        finally:
            self.exercise = mine

    def _watch_for_races(self, function, call):
        """Raise WrongAnswer if turns of the function's pranges race in this call; only the first sizes are watched."""
        sizes = call.arguments and tuple(getattr(argument, "size", 1) for argument in call.arguments)
        if "numba" in sys.modules and sizes and sizes not in self._watched and len(self._watched) < WATCHED:
            self._watched.add(sizes)
            if not call.options and has_prange(function):
                no_race_in(function, *copy.deepcopy(call.arguments))

    def _protect(self, argument):
        """A buffer itself; a read-only copy of any other array."""
        mine = any(argument is buffer.array for buffer in self._buffers)
        return argument if mine or not isinstance(argument, np.ndarray) else read_only(argument)

    def _inspect_bands(self):
        """Raise WrongAnswer if the call wrote outside of a buffer."""
        for buffer in self._buffers:
            front, back = buffer.written_outside()
            if front or back:
                where = " and ".join(f"{n} elements {side}" for n, side in ((front, "before"), (back, "after")) if n)
                raise WrongAnswer(f"your code wrote outside a {describe(buffer.array)} output: {where} it")

    def _inspect_earlier(self, result):
        """Raise WrongAnswer if this call changed an array that an earlier one returned: it was returned twice."""
        if any(not np.array_equal(array, copy, equal_nan=True) for array, copy in self._kept):
            raise WrongAnswer(
                "this call changed an array that an earlier call had returned: make a new array in every call"
            )
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, np.ndarray) and not any(np.may_share_memory(value, b.whole) for b in self._buffers):
                self._kept.append((value, value.copy()))


def running() -> check | None:
    """The check whose block is running, the innermost one; None outside of a check."""
    return _open[-1] if _open else None


def say(sentences):
    """Print the sentences in lines that fit into a notebook."""
    print(textwrap.fill(sentences, WIDTH, break_long_words=False, break_on_hyphens=False))


def _call_text(function, names, arguments, options):
    """ "layernorm_forward(x (3, 5, 7) float64, w (7,) float64)": the call as the learner would recognise it."""
    named = [*zip(names, arguments), *options.items()]
    inside = ", ".join(f"{name} {describe(value)}".lstrip() for name, value in named)
    return f"{getattr(function, '__name__', 'your function')}({inside})"
