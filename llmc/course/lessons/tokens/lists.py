"""How a wrong list, text or step is explained: by edits, as arrays are, and with an example in the exercise's words.

Three things are otherwise than in `mutation/search.py`. Lists of two lengths can have the same mistake. A mistake must
give the learner's lists in many calls, because in a single one two mistakes often give the same list. And an edited loop
ends soon after the number of turns that a right answer takes: each turn may look through a list that grows for ever.
"""

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace

import numpy as np

from llmc.course.checks.calls import Call
from llmc.course.checks.diagnosis import Diagnosis, Kind, WrongAnswer
from llmc.course.checks.explanation import explain
from llmc.course.checks.rerun import quietly
from llmc.course.mutation.program import Program, program_of
from llmc.course.mutation.search import ALL, PythonSearch
from llmc.course.own_names import learners_names

CALLS = 60  # of other cases


@dataclass
class Short(Program):
    """A Program whose functions make at most so many turns in one call, and in all calls of a check."""

    most: int = 500

    def function(self, turns=None):
        return super().function(self.most if turns is None else min(turns, 100 * self.most))


@dataclass
class ListSearch(PythonSearch):
    """elsewhere: [(call, what the learner's function gives, turns that an edit may make)] of other cases."""

    elsewhere: list = field(default_factory=list)

    def __post_init__(self):
        self.most = self.turns(self.call, self.call.function)
        other = SimpleNamespace(rng=np.random.default_rng(5))
        with learners_names(), quietly():
            for case in islice(self.check.exercise.cases(other), CALLS * bool(self.label)):
                call = Call.of(self.call.function, case, {}, self.call.returns)
                with suppress(Exception):
                    self.elsewhere.append((call, call.run(call.function)[self.label], self.turns(call)))

    def turns(self, call, function=None) -> int:
        """How many turns of its loops an edited function may make in a call: a few times as many as ours."""
        taken = [0]
        for program in (self.solution, function and program_of(function)):
            with suppress(Exception):
                taken.append(program.turns(call.run))
        return 500 + 3 * max(taken)

    @property
    def answer(self):
        with learners_names():
            program = program_of(self.call.function)
        return program and Short(**vars(program), most=self.most)

    def explained_by(self, program, **unused):
        with suppress(Exception):
            for call, theirs, turns in ((self.call, self.got, self.most), *self.elsewhere):
                if [*call.run(program.function(turns))[self.label]] != [*theirs]:
                    return 0
            return ALL
        return 0


def shown(tell):
    """A rule: a wrong list or text is explained as `compare` does it, with an example, tell(arguments, got, right)."""

    def rule(tried):
        ((name, right),) = tried.expected.items()
        got, c = tried.got[name], tried.check
        if [*got] == [*right]:
            return None
        c.search = lambda got, right: ListSearch(c, name, got, right)
        known = Diagnosis(Kind.PLACE, tell([*tried.given.values()], got, right), name)
        return WrongAnswer(explain(known, None, name, got, right, c.exercise.look_for()))

    return rule


@contextmanager
def stops_told(c):
    """Around a call: where the learner's function stops, its exception says with which edit it would pass."""
    try:
        yield
    except Exception as error:
        if c.explains and c.calls and not isinstance(error, WrongAnswer | NotImplementedError):
            edit = ListSearch(c, "").repair()
            if edit:
                error.add_note(f"Your function passes this whole check {edit.words}, in line {edit.line}.")
            c.calls[-1].arguments = None  # `check` itself searches no more
        raise
