"""How a wrong list, text or step is explained: by edits, as arrays are, and with an example in the exercise's words.

Three things are otherwise than in `checks/search.py`. A wrong list may have another length than the right one. An
edit must give the learner's lists in many calls: in a single one, two mistakes often give the same. And an edited loop
ends soon after as many turns as a right answer takes: each turn may look through a list that grows for ever.
"""

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from llmc.course.checks.calls import Call
from llmc.course.checks.explanation import explain
from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer
from llmc.course.checks.rerun import quietly
from llmc.course.checks.search import ALL, PythonSearch
from llmc.course.mutation.program import TURNS, program_of
from llmc.course.own_names import learners_names

MORE = 500  # turns of loops in a call, for an edit that goes another way


@dataclass
class ListSearch(PythonSearch):
    def __post_init__(self):
        """elsewhere: [(call, what the learner's function gives, turns that an edit may make)] of other cases."""
        other = SimpleNamespace(rng=np.random.default_rng(5), before_timing=int)
        with learners_names(), quietly():
            self.answer, self.elsewhere, always = program_of(self.case.function), [], 0
            self.turns = self.taken(self.case)
            for case in [*self.check.exercise.cases(other)][:-4]:  # the last ones may be large
                call = Call.of(self.case.function, case, {}, self.case.returns)
                turns = self.taken(call)
                always += 10 * turns
                with suppress(Exception):
                    self.elsewhere.append((call, call.run(call.function).get(self.label), turns))
        if self.answer:
            function, once = self.answer.function, 2 * self.turns + MORE
            self.answer.function = lambda turns=0: function(always + MORE if turns > TURNS else once)

    def taken(self, call) -> int:
        """How many turns of loops our function, or the learner's, makes in a call."""
        taken = [0]
        for program in (self.solution, self.answer):
            with suppress(Exception):
                taken.append(program.turns(call.run))
        return max(taken)

    def tries(self, program):
        """Fewer than elsewhere: each turn of a loop may look through a list."""
        return min(100, super().tries(program))

    def explained_by(self, program, lost=False):
        with suppress(Exception):
            for call, theirs, turns in ((self.case, self.got, self.turns), *self.elsewhere):
                turns *= 2 if program is self.solution else 20
                if [*call.run(program.function(turns + MORE))[self.label]] != [*theirs]:
                    return 0
            return ALL
        return 0


def shown(tell):
    """A rule: a wrong list or text is explained as `compare` does it, with what tell(arguments, got, right) gives.

    That is a sentence on this call, and a cause that it shows, or "".
    """

    def rule(tried):
        ((name, right),) = tried.expected.items()
        got, c = tried.got[name], tried.check
        if _kind(got, right) != _kind(right, right):
            return f"{name} should be {_kind(right, right)}, but your function returned {_kind(got, right)}"
        if [*got] == [*right]:
            return None
        c.search = lambda got, right: ListSearch(c, name, got, right)
        told, cause = tell([*tried.given.values()], got, right)
        known = Diagnosis(Kind.RULE, f"{told}: {cause}", name) if cause else Diagnosis(Kind.PLACE, told, name)
        return WrongAnswer(explain(known, None, name, got, right, c.exercise.look_for()))

    return rule


def _kind(value, like) -> str:
    """ "list"; of what should be a tuple, the kinds of its parts, "bytes, list"."""
    parts = value if isinstance(like, tuple) and isinstance(value, tuple | list) else [value]
    return ", ".join(type(part).__name__ for part in parts)


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
