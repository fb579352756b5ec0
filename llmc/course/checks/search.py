"""Which edit of our solution gives a learner's wrong numbers, and which edit of the learner's text makes them right?

The evidence is numbers, never the likeness of code. An edit of our solution must give the learner's error in the case
that failed, and what the learner's code gives in cases with other numbers. An edit of the learner's text must make that
case right, and then pass the whole check on three draws. What is tried is counted in edits and in turns of loops, never
in seconds: the same answer gets the same words on every machine.
"""

import ast
import re
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property

from llmc.course.checks.calls import Call, alike, same_error
from llmc.course.checks.hidden_state import right_when_new
from llmc.course.checks.rerun import calls_with, passes, quietly
from llmc.course.mutation import named
from llmc.course.mutation.edit import Edit
from llmc.course.mutation.program import TURNS, Program, edited, program_in, program_of, solution_of, solution_source
from llmc.course.mutation.python_edits import edits
from llmc.course.own_names import learners_names

WORK = 4_000_000  # numbers and turns of loops, in all runs of one search
FEWEST = 40  # edits that are tried however many numbers a run has
SHORT = 2000  # turns of loops that an edit may take in the case, if ten times those of what is edited are fewer
WHOLE = 6  # edits that the whole check is run with; 4 for a kernel
ALL = 2  # outputs of a case are explained


@dataclass
class Search:
    """A case that failed. label: of the wrong output, None if the code stopped. got, right: that output.

    Subclasses know the `case`, its `outputs` {label: value}, `others` [(case, what the learner's code gives, what is
    right)], and `ours`, our source. `mistaken`, `edited_ours` and `edited_theirs` yield codes for `run`.
    """

    check: object
    label: object
    got: object = None
    right: object = None

    def mistake(self) -> named.Mistake | Edit | None:
        """A named mistake or an edit of ours that explains all outputs; else a mistake that explains the wrong one."""
        found, explained = self._first(self.mistaken(), lost=True)
        edit, more = self._first(self.edited_ours()) if explained == 1 else (None, 0)
        return edit if more == ALL else found

    def edit_of_ours(self) -> Edit | None:
        """The first generated edit of our solution that does."""
        return self._first(self.edited_ours())[0]

    def repair(self) -> Edit | None:
        """The edit of the learner's code with which the whole check passes, or two; None if edits of more lines do."""
        found, whole = [], 0
        with learners_names(), quietly(), closing(self.edited_theirs()) as candidates:
            for edit, code in candidates:
                if not self.mends(code):
                    continue
                whole += 1
                if passes(self.check, self.answer_with(edit)):
                    found.append(edit)
                if len({each.line for each in found if not each.said}) > 2:
                    return None
                if whole == self.whole:
                    break
        others = (each for each in found[1:] if not each.said and each.line != found[0].line)
        return replace(found[0], other=next(others, None)) if found else None

    def _first(self, candidates, lost=False):
        best = None, 0
        with quietly(), closing(candidates):  # not later, while a learner's code runs
            for each, code in candidates:
                if (explained := self.explained_by(code, lost)) > best[1]:
                    best = each, explained
                if explained == ALL:
                    break
        return best

    def explained_by(self, code, lost=False) -> int:
        """ALL if this code gives what the learner's gives, here and for other numbers; 1 if the other outputs of this
        case differ; 0 if the wrong one does. lost: as in `same_error`.
        """
        made = self.run(code, self.case)
        if self.label not in made or not self.same_error(made[self.label], self.got, self.right, lost):
            return 0
        for case, theirs, right in self.others:
            other = self.run(code, case).get(self.label)
            if other is None or not (self.alike(other, theirs) or self.same_error(other, theirs, right)):
                return 0
        others = [label for label in self.outputs if label != self.label and label in made]
        return ALL if all(self.alike(made[label], self.outputs[label]) for label in others) else 1

    def in_line(self, edit) -> str:
        """ ", in its line `…`", where our solution has in several places what the edit replaces; else ""."""
        line = re.split(r"\s+(?:#|//) ", self.ours.splitlines()[edit.line - 1].strip())[0]
        return f", in its line `{line}`" if self.ours.count(edit.old) > 1 else ""

    whole, same_error, alike = WHOLE, staticmethod(same_error), staticmethod(alike)


class PythonSearch(Search):
    """The last call of a check; a code is a Program, or a function."""

    @property
    def case(self) -> Call:
        return self.check.calls[-1]

    @property
    def outputs(self) -> dict:
        return self.case.outputs

    @cached_property
    def ours(self) -> str | None:
        return solution_source(self.check.exercise.name)[0]

    @cached_property
    def solution(self) -> Program | None:
        return solution_of(self.check.exercise.name)

    @cached_property
    def answer(self) -> Program | None:
        with learners_names():
            return program_of(self.case.function)

    @cached_property
    def others(self) -> list:
        found = []
        with learners_names(), quietly():
            for call in calls_with(self.check, self.solution.function()) if self.solution else ():
                theirs = self.run(self.case.function, call).get(self.label) if call.arguments is not None else None
                if theirs is not None and call.outputs.get(self.label) is not None:
                    found.append((call, theirs, call.outputs[self.label]))
        return sorted(found, key=lambda each: alike(each[1], each[2]))  # those that are also wrong tell more

    def run(self, code, call) -> dict:
        most = max([SHORT, *(10 * turns for turns in self._taken.values())]) if call is self.case else TURNS
        with suppress(Exception):
            return call.run(code.function(most) if isinstance(code, Program) else code)
        return {}

    @cached_property
    def _taken(self) -> dict:
        return {}

    def taken(self, program) -> int:
        """How many turns of its loops a program takes in the case; TURNS if it stops."""
        if id(program) not in self._taken:
            self._taken[id(program)] = TURNS
            with suppress(Exception):
                self._taken[id(program)] = program.turns(self.case.run)
        return self._taken[id(program)]

    def mistaken(self):
        """(mistake, our solution with it)."""
        source, names = solution_source(self.check.exercise.name)
        if self.case.arguments is not None and source:
            self.taken(self.solution)
            for mistake in named.mistakes(self.check.exercise.mistakes):
                with suppress(ValueError, SyntaxError):  # where a learner has changed the solution's text
                    yield mistake, program_in(named.applied(source, mistake), self.check.exercise.name, names)

    def edited_ours(self):
        """(edit, our solution while it is edited)."""
        _ = self.others  # which needs the solution as it was
        return self._edited(self.solution, lambda edit: True)

    def edited_theirs(self):
        """(edit, the learner's function while it is edited), where there is something to compare it with."""
        if self.label or self.solution:
            constants = self.solution.constants() if self.solution else set()
            yield from self._edited(self.answer, lambda edit: believable(edit, constants))

    def _edited(self, program, wanted):
        for edit in edits(program.own)[: self.tries(program)] if program and self.case.arguments is not None else ():
            if wanted(edit):
                with edited(edit.changes):
                    yield edit, program

    def tries(self, program) -> int:
        """How many edits of a program may be tried: fewer where a run is long."""
        turns = self.taken(program)
        return max(min(FEWEST, WORK // (1 + turns)), WORK // (1 + 10 * turns + self.case.size))

    def answer_with(self, edit):
        """The learner's function with this edit, which is made now."""
        return self.answer.function(TURNS * 10)

    def mends(self, program) -> bool:
        """Is the failing call right now: the output that was wrong, or all of them where it stopped?"""
        made = self.run(program, self.case)
        right = {self.label: self.right} if self.label else self._right
        return bool(right) and all(label in made and alike(made[label], array) for label, array in right.items())

    @cached_property
    def _right(self) -> dict:
        return self.run(self.solution, self.case)

    def right_when_new(self) -> str:
        """A sentence if the call is right in a fresh copy of the learner's function; else ""."""
        return right_when_new(self.case, self.label, self.right) if self.case.arguments is not None else ""


def believable(edit: Edit, constants) -> bool:
    """No number that our solution lacks, nothing dropped from a floor division: such an edit makes up for a mistake."""
    return (edit.constant is None or edit.constant in constants | {0, 1, -1}) and edit.drops is not ast.FloorDiv
