"""The report of a launch: what went wrong, line by line, and what it cost."""

from collections import Counter
from functools import cached_property
from html import escape

from llmc.cuda.emulator.findings.places import plural
from llmc.cuda.emulator.reporting import lines, measures
from llmc.cuda.emulator.reporting.problems import Problem, in_words, without_settled

MOST = 8  # problems that the text spells out


class Report:
    """What `inspect` found out about one launch.

    problems and notes (which are not mistakes) are lists of Problem; the numbers are explained in measures.py and are 0
    if nothing was measured. `raw` is everything that the emulator recorded.
    """

    def __init__(self, raw):
        self.raw = raw
        if raw.excused:
            raw.problems = without_settled(raw, self._chain)

    @cached_property
    def problems(self) -> list[Problem]:
        """One for each kind and pair of lines, in the order in which they were found."""
        return in_words(self.raw, self.raw.problems, self._chain)

    @cached_property
    def notes(self) -> list[Problem]:
        """What is allowed, but worth a look."""
        return in_words(self.raw, self.raw.notes, self._chain)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.raw.problems

    @property
    def kinds(self) -> set[str]:
        """The kinds of the problems."""
        return {problem.kind for problem in self.raw.problems}

    # ------------------------------------------------------------------------------------------- measured

    @cached_property
    def lines(self) -> list[measures.LineUse]:
        """What each line did to each array, in the order of the source."""
        return measures.by_line(self.raw, self.line_of)

    @property
    def sectors(self) -> int:
        """How many 32-byte sectors of global memory the warps moved."""
        return sum(use.sectors for use in self.lines)

    @property
    def ideal_sectors(self) -> int:
        """The fewest sectors that would have held the bytes asked for."""
        return sum(use.ideal for use in self.lines if use.space == "global")

    @property
    def efficiency(self) -> float:
        """Ideal sectors over sectors: 1.0 is coalesced, and also means that global memory was not used."""
        return self.ideal_sectors / self.sectors if self.sectors else 1.0

    @property
    def bytes(self) -> int:
        """Bytes of global memory moved, 32 per sector."""
        return measures.SECTOR * self.sectors

    @property
    def bank_conflicts(self) -> int:
        """How many passes through the banks of shared memory are due to conflicts."""
        return sum(use.extra for use in self.lines)

    @property
    def barriers(self) -> int:
        """How many times a block passed a `__syncthreads()`, summed over all blocks."""
        return self.raw.barriers

    @property
    def shuffles(self) -> int:
        """How many times a warp executed a `__shfl_…_sync`, summed over all warps."""
        return self.raw.shuffles

    def table(self) -> str:
        """A row for each line and array: requests, sectors against the ideal, passes through the banks."""
        return measures.table(self.lines)

    def plot(self, kind=None):
        """A matplotlib Figure. kind "threads": which thread touches which element; "lines": the source and its costs.

        Without `kind`, threads are drawn if the launch was small enough to be recorded, lines otherwise.
        """
        from llmc.cuda.emulator.reporting import plot  # matplotlib takes half a second

        return plot.draw(self, kind)

    # ------------------------------------------------------------------------------------------------ words

    def __str__(self):
        found = [problem.text for problem in self.problems[:MOST]]
        if len(self.problems) > MOST:
            found.append(f"... and {plural(len(self.problems) - MOST, 'more problem')}.")
        if len(found) > 1:
            found.insert(0, f"{plural(len(self.problems), 'problem')} in {self._launch()}")
        notes = [f"Note: {note.text}" for note in self.notes]
        return "\n\n".join((found or [f"No problems in {self._launch()}"]) + notes + self._unknown())

    def __repr__(self):
        counts = Counter(problem.kind for problem in self.problems)
        words = ", ".join(kind if n == 1 else f"{n} {kind}" for kind, n in counts.items())
        return f"<Report of {self.raw.kernel}: {words or 'no problems'}>"

    def _repr_html_(self):
        text = f"{self}\n\n{self.table()}" if self.lines else str(self)
        return f'<pre style="white-space:pre-wrap">{escape(text)}</pre>'

    def _launch(self) -> str:
        raw = self.raw
        return f"kernel {raw.kernel}, grid {_shape(raw.grid)}, block {_shape(raw.block)}."

    def _unknown(self) -> list[str]:
        """Why lines are missing, if any are."""
        missing = any(
            item.pc and not item.line and not self.line_of(item.pc) for item in [*self.raw.problems, *self.raw.notes]
        )
        if not missing or lines.symbolizer():
            return []
        return [f"The lines are unknown because this machine has no addr2line; install {lines.INSTALL}."]

    # ---------------------------------------------------------------------------------------------- lines

    @cached_property
    def _lines_of_addresses(self) -> dict[int, tuple[int, ...]]:
        """All at once, since it takes a process."""
        raw = self.raw
        found = [*raw.problems, *raw.notes]
        addresses = {item.pc for item in [*found, *raw.accesses]} | {item.pc2 for item in found}
        addresses |= set(raw.excused)
        return lines.source_lines(raw.library, addresses - {0})

    def _chain(self, address) -> tuple[int, ...]:
        """The line of an instruction, the line that called its function, and so on; () where it is not known."""
        return self._lines_of_addresses.get(address, ())

    def line_of(self, address) -> int:
        """The source line of an instruction, 0 where it is not known."""
        return (*self._chain(address), 0)[0]


def _shape(shape) -> str:
    return f"({', '.join(map(str, shape))})"
