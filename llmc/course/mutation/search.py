"""Which edit of our solution gives a learner's wrong numbers, and which edit of the learner's text makes them right?

The evidence is numbers, never the likeness of code. An edit of our solution must give the learner's error in the call
that failed, and what the learner's function gives in calls on other numbers. An edit of the learner's text must make
that call right, and then pass the whole check on three draws. What is tried is counted in edits and in turns of loops,
never in seconds: the same answer gets the same words on every machine.
"""

import ast
from contextlib import suppress
from dataclasses import dataclass
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
FEWEST = 40  # edits that are tried however long they take
WHOLE = 12  # edits that the whole check is run with
FRESH = 4  # calls on other numbers that must agree
ALL = 2  # outputs of a call are explained


@dataclass
class PythonSearch:
    """The last call of a check, which gave a wrong output, or stopped.

    label: the output's name in the call, "" where it stopped. got, right: that output, and what it should be.
    """

    check: object
    label: str
    got: object = None
    right: object = None

    @property
    def call(self) -> Call:
        return self.check.calls[-1]

    @cached_property
    def solution(self) -> Program | None:
        return solution_of(self.check.exercise.name)

    @cached_property
    def answer(self) -> Program | None:
        with learners_names():
            return program_of(self.call.function)

    @cached_property
    def others(self) -> list:
        """[(call, what the learner's function gives, what is right)] on other numbers."""
        found = []
        if self.solution is None:
            return found
        with learners_names():
            for call in calls_with(self.check, self.solution.function())[-FRESH - 3 :]:
                theirs = None
                if call.arguments is not None:
                    with suppress(Exception):
                        theirs = call.run(self.call.function).get(self.label)
                if theirs is not None and call.outputs.get(self.label) is not None:
                    found.append((call, theirs, call.outputs[self.label]))
        wrong = [each for each in found if not alike(each[1], each[2])]
        return wrong[:FRESH] + [each for each in found if alike(each[1], each[2])][:2]

    def made_by(self, function, call):
        """What a function gives in another call for the output that is wrong; None if it stops."""
        with suppress(Exception):
            return call.run(function).get(self.label)
        return None

    def tries(self, program) -> int:
        """How many edits of a program may be tried: fewer where a run is long."""
        with suppress(Exception):
            return max(FEWEST, int(WORK / (1 + 10 * program.turns(self.call.run) + self.call.size)))
        return FEWEST

    def named_mistake(self) -> named.Mistake | None:
        """The first named mistake that gives the learner's numbers, in all outputs if there is one; None for none."""
        solution = self.solution
        if solution is None or self.call.arguments is None:
            return None
        first = None
        with quietly():
            for mistake in named.mistakes(self.check.exercise.mistakes):
                program = mistaken(self.check.exercise, mistake)
                explained = self.explained_by(program, lost=True) if program is not None else 0
                if explained == ALL:
                    return mistake
                first = first or (mistake if explained else None)
        return first

    def explained_by(self, program, lost=False) -> int:
        """ALL if this program gives what the learner's function gives, here and for other numbers; 1 if the other
        outputs of this call differ; 0 if the wrong one does. lost: as in `same_error`.
        """
        function = program.function()
        with suppress(Exception):
            made = self.call.run(function)
            if not same_error(made[self.label], self.got, self.right, lost):
                return 0
            if not all(_same(self.made_by(function, call), theirs, right) for call, theirs, right in self.others):
                return 0
            others = [label for label in self.call.outputs if label != self.label and label in made]
            return ALL if all(alike(made[label], self.call.outputs[label]) for label in others) else 1
        return 0

    def edit_of_ours(self) -> Edit | None:
        """The first generated edit of our solution that gives the learner's numbers, in all outputs if there is one."""
        solution = self.solution
        if solution is None or self.call.arguments is None:
            return None
        first = None
        with quietly():
            for edit in edits(solution.own)[: self.tries(solution)]:
                with edited(edit.changes):
                    explained = self.explained_by(solution)
                if explained == ALL:
                    return edit
                first = first or (edit if explained else None)
        return first

    def repair(self) -> Edit | None:
        """The edit of the learner's function with which the whole check passes; None where two different lines do."""
        answer = self.answer
        if answer is None or self.call.arguments is None or not (self.label or self.solution):
            return None
        found, whole = [], 0
        constants = self.solution.constants() if self.solution else set()
        with learners_names(), quietly():
            for edit in edits(answer.own)[: self.tries(answer)]:
                if not believable(edit, constants) or whole == WHOLE:
                    continue
                with edited(edit.changes), suppress(Exception):
                    if not self._mends(answer.function()):
                        continue
                    whole += 1
                    if passes(self.check, answer.function(TURNS * 10)):
                        found.append(edit)
                if len({each.line for each in found}) > 1:
                    return None
        return found[0] if found else None

    def right_when_new(self) -> str:
        """A sentence if the call is right in a fresh copy of the learner's function; else ""."""
        return right_when_new(self.call, self.label, self.right) if self.call.arguments is not None else ""

    def _mends(self, function) -> bool:
        """Is the failing call right now?"""
        made = self.call.run(function)
        right = {self.label: self.right} if self.label else self._right
        return all(label in made and alike(made[label], array) for label, array in right.items())

    @cached_property
    def _right(self) -> dict:
        """All outputs of the call, as our solution makes them."""
        return self.call.run(self.solution.function())


def mistaken(exercise, mistake) -> Program | None:
    """Our solution with a named mistake; None where a learner has changed the solution's text."""
    source, names = solution_source(exercise.name)
    with suppress(ValueError, SyntaxError):
        return program_in(named.applied(source, mistake), exercise.name, names)
    return None


def _same(made, theirs, right) -> bool:
    """Is what was made what the learner's function gives, right or wrong?"""
    return made is not None and (same_error(made, theirs, right) or alike(made, theirs))


def believable(edit: Edit, constants) -> bool:
    """No number that our solution lacks, nothing dropped from a floor division: such an edit makes up for a mistake."""
    return (edit.constant is None or edit.constant in constants | {0, 1, -1}) and edit.drops is not ast.FloorDiv
