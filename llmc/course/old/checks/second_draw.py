"""A known mistake explains one array. Does it explain the next ones, too? The check's cell runs once more.

Two mistakes often give the same numbers at one size, or for one sign: with three heads, 3C / NH is C. What a message
says of a cause must hold on other numbers and in all the calls of the cell, which are made again with the learner's own
answer. Where the mistake would show, and the array is right or otherwise wrong, nothing is said of it.
"""

import inspect
import io
import re
import time
import warnings
from contextlib import redirect_stdout, suppress

import numpy as np

from llmc.course.learner import journal
from llmc.course.old.checks.case import LIKE, same
from llmc.course.old.checks.evidence import explaining, running
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.isolation import without_llmc
from llmc.course.own_names import learners_names

LEAST, MOST = 0.2, 0.6  # seconds of processor time, as long as the check has taken so far
SEED = 11
ENOUGH, MANY = 10, 12  # arrays of that name; times as many of all names
FURTHER, LEISURE = 8, 1.0  # launches than the failing check has made, and seconds for them
SUBJECT = re.compile(r" \(| with | of batch| for T = ")  # what follows in a name differs from call to call
UNEXPLAINED = 0.05  # of an error: what a mistake may leave of it
CLEARLY = 10  # times as large as what is alike: an error that shows
_notes = None  # what the second run fills; None while there is none


class _Enough(BaseException):
    """The time is over; no `except Exception` of a check cell may catch it."""


class _Notes:
    """Which of the sentences were contradicted, in arrays of that name."""

    def __init__(self, name, sentences, known=()):
        """known: the mistakes of the wrong array. Other arrays that have the same show what each makes of them."""
        self.subject, self.sentences, self._against = _subject(name), sentences, set()
        self.mistakes, self._in_others = set(known), set()
        self._tables = []

    @property
    def against(self) -> set[str]:
        """The sentences; none if one table of mistakes, those of the first wrong array, stood beside several arrays.

        Of those that are left, other arrays exclude some, but not all: there may be a mistake of its own in these.
        """
        several = len({id(table) for table in self._tables}) < len(self._tables)
        against = set() if several else self._against
        left = self.sentences - against
        return against | (self._in_others if left - self._in_others and not several else set())

    def note(self, name, got, expected, known, start):
        """Compare one array with those of the mistakes."""
        own = _subject(name) == self.subject
        others = len(self.sentences) > 1 and self.mistakes == known.keys()
        if not (own or others) or np.shape(got) != np.shape(expected):
            return
        self._tables += [known] if self.sentences & known.keys() else []
        against = self._against if own else self._in_others
        with np.errstate(all="ignore"):
            mine = np.asarray(got, np.float64) - start
        present, explained = self.sentences & known.keys(), False
        for sentence in present:
            wrong = known[sentence]
            wrong = wrong[0] if isinstance(wrong, tuple) else wrong
            with np.errstate(all="ignore"):
                array = np.asarray(wrong() if callable(wrong) else wrong, np.float64)
            if array.shape == expected.shape and _contradicted(mine, array, expected, not own):
                against.add(sentence)
            explained |= array.shape == expected.shape and same(mine, array) and not same(array, expected)
        if own and explained:  # by one of them, and of the others some would be right here
            self._in_others |= self.sentences - present
        seen = len(self._tables)  # two show whether it is one table
        if seen == ENOUGH * (MANY if others else 1) or not others and seen > 1 and self._against == self.sentences:
            raise _Enough


class _Factors(_Notes):
    """What each array of that name is times what it should be, by its shape."""

    def __init__(self, name):
        super().__init__(name, ())
        self.found = []  # (shape, factor; None if there is none)

    def note(self, name, got, expected, known, start):
        """Note the factor of one array."""
        if _subject(name) != self.subject or np.shape(got) != np.shape(expected) or not expected.any():
            return
        mine = np.asarray(got, np.float64) - start
        factor = float(np.vdot(expected, mine) / np.vdot(expected, expected))
        self.found.append((expected.shape, factor if same(mine, factor * expected) else None))
        if len(self.found) == ENOUGH:
            raise _Enough


def always_times(name, factor) -> bool:
    """Are all arrays of that name, of several shapes, so many times what they should be when the cell runs again?"""
    notes, evidence = _Factors(name), running()
    if evidence and evidence.check and _notes is None:
        _run_again(evidence.check, notes)
    alike = all(each is not None and np.isclose(each, factor, rtol=LIKE) for _, each in notes.found)
    return alike and len({shape for shape, _ in notes.found}) > 1


def _contradicted(got, array, expected, wrong_too=False) -> bool:
    """Would this mistake show clearly in this array, and what came is clearly something else?

    wrong_too: or would it not show, and what came is clearly wrong?
    """
    if not all(np.isfinite(each).all() for each in (got, array, expected)):
        return False
    size = LIKE * max(np.abs(each).max(initial=0.0) for each in (got, array, expected))
    error = np.abs(array - expected).max(initial=0.0)
    error = max(error, np.abs(got - expected).max(initial=0.0)) if wrong_too else error
    return bool(error > CLEARLY * size and np.abs(got - array).max(initial=0.0) > UNEXPLAINED * error + size)


def _subject(name) -> str:
    return SUBJECT.split(name)[0]


def noted(name, got, expected, known, start) -> bool:
    """Is a second run on? Then it takes note of this comparison, and nothing is said of it."""
    if _notes is None:
        return False
    _notes.note(name, got, np.asarray(expected, np.float64), known or {}, start)
    return True


def contradicted(name, sentences, known=()) -> set[str]:
    """Those of the sentences, of known mistakes, that do not hold when the running check's cell runs once more."""
    notes, evidence = _Notes(name, set(sentences), known), running()
    if evidence and evidence.check and _notes is None:
        _run_again(evidence.check, notes)
    return notes.against


def launches(check) -> list:
    """Launches of the check's cell on other numbers, the learner's kernel's: Replays with its outputs.

    Of each size of the arrays and of each block there is one at least, as far as the time allows.
    """
    again = _run_again(check, _Notes("", set()), len(check.calls) + FURTHER) if _notes is None else None
    return again._evidence.of_all_sizes() if again else []


def _run_again(check, notes, calls=None):
    """Run the check's cell with the learner's answer, which fills the notes; returns the check of that run, or None.

    calls: of the answer, at most.
    """
    global _notes
    cell, kind = check._cell, type(check)
    names = [each for each, value in cell.f_globals.items() if value is kind]
    if cell.f_code.co_flags & inspect.CO_OPTIMIZED or not names:
        return None
    made, seconds = [], min(MOST, max(LEAST, time.thread_time() - check.began)) if calls is None else LEISURE
    mine = {"deadline": time.thread_time() + seconds, "most": calls, "made": made}
    again = type("SecondDraw", (_SecondDraw, kind), mine)
    was_recording, was_explaining = journal.recording(False), explaining(False)
    _notes = notes
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(cell.f_code, {**cell.f_globals, **dict.fromkeys(names, again)})
    except (Exception, _Enough):  # what the cell says of the answer, or cannot do a second time: the notes are good
        pass
    finally:
        _notes = None
        journal.recording(was_recording)
        explaining(was_explaining)
    return made[0] if made else None


class _SecondDraw:
    """What becomes of `check` in the cell that runs once more: it takes other numbers, and is not strict."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rng = np.random.default_rng(SEED)
        self._seen = set()  # blocks, and sizes, that have been launched

    def __enter__(self):
        self._cell = None
        self.made.append(self)
        return self

    def __exit__(self, kind, error, traceback):
        raise _Enough

    def _in_time(self):
        if time.thread_time() > self.deadline or self.most is not None and len(self.calls) >= self.most:
            raise _Enough

    def call(self, function, *arguments, **options):
        """Call the learner's function, with inputs that it cannot write to, as the check did."""
        self._in_time()
        given = [self._protect(argument) for argument in arguments]
        locked = {name: self._protect(value) for name, value in options.items()}
        self.calls.append(("", None))
        with learners_names(), without_llmc(self._may_call):
            return function(*given, **locked)

    def launch(self, code, grid, block, args, **options):
        """Launch the learner's kernel; where only the launches count, one that is like earlier ones is left out."""
        self._in_time()
        if self.most is None:
            return super().launch(code, grid, block, args, **options)
        new = {("block", block), tuple(a.shape if isinstance(a, np.ndarray) else a for a in args)}
        if new <= self._seen:
            return None
        self._seen |= new
        with suppress(WrongAnswer):  # the next launch may tell more
            super().launch(code, grid, block, args, **options)
        if self._report is None:
            raise _Enough
        self.as_ours(args)  # or what the cell says of wrong numbers would end it
        return self._report

    def demand(self, **limits):
        """Hold the last launch to these limits, but where the launches count."""
        if self.most is None:
            super().demand(**limits)
