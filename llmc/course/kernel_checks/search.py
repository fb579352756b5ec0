"""Edits of kernels: which edit of ours gives a learner's wrong numbers, and which edit of theirs makes them right?

As for Python (`mutation/search.py`), but all edits of a kernel are compiled into one text and switched on one by one.
Other numbers are those of the same launch, changed at random.
"""

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmc.course.checks.calls import same_error
from llmc.course.checks.rerun import passes, quietly
from llmc.course.kernel_checks import runs
from llmc.course.mutation import c_edits, named
from llmc.course.mutation.edit import Edit
from llmc.course.mutation.program import solution_source, source_of, text_in
from llmc.course.mutation.schemata import Schemata, with_edit
from llmc.errors import KernelError, NoCompiler, UserError

ALL = 2  # outputs of a launch are explained
WHOLE = 8  # edits that the whole check is run with
ALIKE, ALIKE_IN_16_BITS = 1e-4, 2.0**-7  # of the largest: the same number, but for the order of sums


@dataclass
class KernelSearch:
    """A launch that failed, or gave a wrong output. at: that output's place among the arguments, or None.

    launch: (grid, block, arguments before it, places of outputs, bytes of shared memory, options). after: the arguments
    as the launch left them. right: what that output should be.
    """

    check: object
    code: str
    kernel: str
    launch: tuple
    after: tuple = ()
    at: int | None = None
    right: object = None

    @cached_property
    def ours(self) -> str | None:
        """Our solution's source."""
        return source_of(self.check.exercise.name)

    @cached_property
    def others(self):
        """[(arguments, what the learner's kernel makes of them)], on other numbers."""
        grid, block, arguments, outputs, *_ = self.launch
        rng, found = np.random.default_rng(5), []
        for _ in range(2):
            other = copy.deepcopy(arguments)
            for k, array in enumerate(other):
                if isinstance(array, np.ndarray) and array.dtype.kind == "f" and k not in outputs:
                    array *= rng.uniform(0.7, 1.3, array.shape).astype(array.dtype)
            made = self._launched(self.code, other)
            found += [(other, made[self.at])] if made is not None else []
        return found

    def _launched(self, code, arguments):
        """The arguments as a kernel leaves them; None if it does not run."""
        grid, block, _, outputs, shared_mem, options = self.launch
        given = copy.deepcopy(arguments)
        with suppress(AssertionError):
            runs.emulate(code, self.kernel, grid, block, given, shared_mem=shared_mem, options=options, outputs=outputs)
            return given
        return None

    def named_mistake(self) -> named.Mistake | None:
        """The first named mistake that gives the learner's numbers."""
        source, _ = solution_source(self.check.exercise.name)
        if source is None or self.at is None:
            return None
        table, edits, alone = named.mistakes(self.check.exercise.mistakes), [], []
        for mistake in table:
            edit = c_edits.between(self.ours, mistake.edit) if not isinstance(mistake.edit, str) else None
            (alone if edit is None else edits).append((mistake, edit))
        found = self._first_that_gives(self.ours, [edit for _, edit in edits])
        if found is not None:
            return next(mistake for mistake, edit in edits if edit is found)
        for mistake, _ in alone:
            with suppress(ValueError, SyntaxError), quietly():
                code = text_in(named.applied(source, mistake), self.check.exercise.name)
                if self._explained_by(lambda arguments, code=code: self._launched(code, arguments)):
                    return mistake
        return None

    def edit_of_ours(self) -> Edit | None:
        """The first generated edit of our solution that gives the learner's numbers."""
        if self.ours is None or self.at is None:
            return None
        return self._first_that_gives(self.ours, c_edits.edits(self.ours))

    def _first_that_gives(self, code, edits) -> Edit | None:
        """The first of these edits whose kernel makes the learner's wrong numbers, here and from other numbers.

        One that makes all other outputs as the learner's kernel does goes before one that does not.
        """
        first = None
        for k, launched in self._schemata(code, edits):
            explained = self._explained_by(launched)
            if explained == ALL:
                return edits[k]
            first = edits[k] if explained and first is None else first
        return first

    def _schemata(self, code, edits):
        """(k, a function of arguments: what the kernel with edits[k] makes of them) of those that compile."""
        grid, block, arguments, outputs, shared_mem, options = self.launch
        with suppress(KernelError, NoCompiler, UserError), quietly():
            schemata = Schemata(code, self.kernel, edits, options) if edits else None
            for k in sorted(schemata.alive) if schemata else ():

                def launched(arguments, k=k):
                    given = copy.deepcopy(arguments)
                    with suppress(KernelError, UserError):  # it never ended, say
                        report = schemata.launch(k, grid, block, given, outputs, shared_mem)
                        return None if report.raw.problems else given
                    return None

                yield k, launched

    def _explained_by(self, launched) -> int:
        """ALL if this makes what the learner's kernel makes, here and from other numbers; 1 if other outputs of this
        launch differ; 0 if the wrong one does.
        """
        made = launched(self.launch[2])
        if made is None or not _same_error(made[self.at], self.after[self.at], self.right):
            return 0
        others = [(launched(other), theirs) for other, theirs in self.others]
        if not all(each is not None and _like(each[self.at], theirs) for each, theirs in others):
            return 0
        return ALL if all(map(_like, made, self.after)) else 1

    def repair(self) -> Edit | None:
        """The edit of the learner's kernel with which the whole check passes; None where two different lines do."""
        right = self.ours and self._launched(self.ours, self.launch[2])
        if right is None:
            return None
        edits, found, whole = c_edits.edits(self.code), [], 0
        grid, block, arguments, outputs, shared_mem, options = self.launch
        with suppress(KernelError, NoCompiler, UserError), quietly():
            schemata = Schemata(self.code, self.kernel, edits, options)
            for k in sorted(schemata.alive):
                given = copy.deepcopy(arguments)
                try:
                    report = schemata.launch(k, grid, block, given, outputs, shared_mem)
                except (KernelError, UserError):
                    continue
                if report.raw.problems or not all(map(_like, given, right)) or whole == WHOLE:
                    continue
                whole += 1
                if passes(self.check, with_edit(self.code, edits[k])):
                    found.append(edits[k])
                if len({edit.line for edit in found if not edit.said}) > 1:
                    return None
        return found[0] if found else None

    def right_when_new(self) -> str:
        """Kernels keep nothing between launches that a fresh copy would not have."""
        return ""


def _like(one, other) -> bool:
    """The same array, or number, but for the order in which it was added up?"""
    if not isinstance(other, np.ndarray):
        return True
    near = ALIKE if other.itemsize > 2 else ALIKE_IN_16_BITS
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)):
        return False
    return bool((np.abs(one - other)[finite] <= near * np.abs(other[finite]).max(initial=0.0)).all())


def _same_error(made, got, right) -> bool:
    made, got, right = (np.asarray(each, np.float32) for each in (made, got, right))
    return same_error(made, got, right)
