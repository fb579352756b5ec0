"""Edits of kernels: all edits of a kernel are compiled into one text and switched on one by one.

A case is the arguments of the launch; those of other cases are the same, but for numbers that are changed at random.
"""

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmc.course.checks.calls import alike, same_error
from llmc.course.checks.search import Search
from llmc.course.kernel_checks import runs
from llmc.course.mutation import c_edits, named
from llmc.course.mutation.program import solution_source, source_of, text_in
from llmc.course.mutation.schemata import Schemata, with_edit
from llmc.errors import KernelError, NoCompiler, UserError

WORK, SOME, MOST = 14_000_000, 20_000, 250  # accesses in all launches of a search, more in each; edits of theirs
ALIKE, ALIKE_IN_16_BITS = 1e-4, 2.0**-7  # of the largest: the same number, but for the order of sums


@dataclass
class KernelSearch(Search):
    """A launch that failed, or gave a wrong output; label: that output's place among the arguments, or None.

    launch: (grid, block, arguments before it, places of outputs, bytes of shared memory, options). after: the arguments
    as the launch left them. A code is CUDA C, or a function that launches it.
    """

    code: str = ""
    kernel: str = ""
    launch: tuple = ()
    after: tuple = ()
    lines: tuple = ()  # that the emulator's report names
    whole = 4

    @property
    def case(self):
        return self.launch[2]

    @property
    def outputs(self) -> dict:
        return dict(enumerate(self.after))

    @cached_property
    def ours(self) -> str | None:
        """Our solution's source."""
        return source_of(self.check.exercise.name)

    @cached_property
    def others(self) -> list:
        rng, found = np.random.default_rng(5), []
        for _ in range(2):
            other = copy.deepcopy(self.case)
            for k, array in enumerate(other):
                if isinstance(array, np.ndarray) and array.dtype.kind in "fV" and k not in self.launch[3]:
                    array *= rng.uniform(0.7, 1.3, array.shape).astype(array.dtype)
            made = self.run(self.code, other)
            found += [(other, made[self.label], None)] if made else []
        return found

    def run(self, code, arguments) -> dict:
        """{place: argument} as a kernel leaves them; {} if it does not run."""
        given = copy.deepcopy(arguments)
        grid, block, _, outputs, shared_mem, options = self.launch
        with suppress(AssertionError, KernelError, UserError):  # it never ended, say
            if callable(code):
                return {} if code(grid, block, given, outputs, shared_mem).raw.problems else dict(enumerate(given))
            runs.emulate(code, self.kernel, grid, block, given, shared_mem=shared_mem, options=options, outputs=outputs)
            return dict(enumerate(given))
        return {}

    def mistaken(self):
        """(mistake, our kernel with it): first those that compile as one text."""
        source, _ = solution_source(self.check.exercise.name)
        if source is None or self.label is None:
            return
        together, alone = {}, []
        for mistake in named.mistakes(self.check.exercise.mistakes):
            edit = c_edits.between(self.ours, mistake.edit) if not isinstance(mistake.edit, str) else None
            if edit:
                together.setdefault(edit, mistake)
            else:
                alone.append(mistake)
        yield from ((together[edit], launched) for edit, launched in self._schemata(self.ours, [*together]))
        for mistake in alone:
            with suppress(ValueError, SyntaxError):
                yield mistake, text_in(named.applied(source, mistake), self.check.exercise.name)

    def edited_ours(self):
        """(edit, our kernel with it)."""
        yield from self._schemata(self.ours, c_edits.edits(self.ours)) if self.ours and self.label is not None else ()

    def edited_theirs(self):
        """(edit, the learner's kernel with it); a barrier belongs where the report sees the problem."""
        near = range(min(self.lines) - 1, max(self.lines) + 2) if self.lines else ()
        edits = [edit for edit in c_edits.edits(self.code) if not edit.said or not near or edit.line in near]
        yield from self._schemata(self.code, edits[:MOST]) if self._right else ()

    def _schemata(self, code, edits):
        edits = edits[: WORK // (sum(use.lanes for use in self.check.report.lines) + SOME)]
        with suppress(KernelError, NoCompiler, UserError):
            schemata = Schemata(code, self.kernel, edits, self.launch[5]) if edits else None
            for k in sorted(schemata.alive) if schemata else ():
                yield edits[k], lambda *launch, k=k: schemata.launch(k, *launch)

    def answer_with(self, edit) -> str:
        """The learner's source with this edit."""
        return with_edit(self.code, edit)

    def mends(self, launched) -> bool:
        """Are all outputs right now?"""
        made = self.run(launched, self.case)
        return bool(made) and all(self.alike(made[k], right) for k, right in self._right.items())

    @cached_property
    def _right(self) -> dict:
        return self.run(self.ours, self.case) if self.ours else {}

    def right_when_new(self) -> str:
        """Kernels keep nothing between launches that a fresh copy would not have."""
        return ""

    @staticmethod
    def alike(one, other) -> bool:
        """The same array, or number, but for the order in which it was added up?"""
        near = ALIKE if getattr(other, "itemsize", 4) > 2 else ALIKE_IN_16_BITS
        return not isinstance(other, np.ndarray) or alike(one, other, near)

    @staticmethod
    def same_error(made, got, right, lost=False) -> bool:
        """As for Python; what has 16 bits is looked at as float32."""
        return right is not None and same_error(*(np.asarray(each, np.float32) for each in (made, got, right)))
