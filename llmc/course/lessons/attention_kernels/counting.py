"""Lesson 16: what a version of attention asks for, counted by the emulator and set against what it must move."""

import re
from typing import NamedTuple

from llmc.course.lessons.reductions.ladders import function_text  # noqa: F401  (the lesson shows functions with it)


class Counts(NamedTuple):
    """Of one launch, or of several that belong together."""

    sectors: int  # asked of global memory
    needed: int  # if qkv is read once, out and stats written once
    pairs: int  # of a query and a key that it sees
    requests: int  # of a warp to shared memory
    conflicts: int
    barriers: float  # a block, of the kernel that has the most

    @property
    def times(self) -> float:
        """Sectors, as a multiple of those needed."""
        return self.sectors / self.needed

    @property
    def each(self) -> float:
        """Requests to shared memory for each pair."""
        return self.requests / self.pairs

    def __str__(self):
        shared = f"; {self.each:.2f} requests to shared memory a pair" * bool(self.requests)
        extra = f", {self.conflicts} extra passes" * bool(self.conflicts)
        waits = f"; {self.barriers:g} barriers a block" * bool(self.barriers)
        return f"{self.sectors:,} sectors, {self.times:,.2f} times the {self.needed:,} needed{shared}{extra}{waits}"


def count(reports, B, T, NH, hs) -> Counts:
    """Counts of reports of the launches that make one forward pass of these sizes."""
    needed = B * T * NH * (4 * hs + 1) * 4 // 32  # q, k, v, out, and a number of stats
    requests = sum(use.requests for report in reports for use in report.lines if use.space == "shared")
    barriers = max(report.barriers / max(1, report.raw.blocks_run) for report in reports)
    sectors, conflicts = (sum(getattr(r, what) for r in reports) for what in ("sectors", "bank_conflicts"))
    return Counts(sectors, needed, B * NH * T * (T + 1) // 2, requests, conflicts, barriers)


def table(counted) -> str:
    """{name: Counts} as text, a line each."""
    lines = [f"{'':<24}{'sectors':>10}{'of needed':>11}{'shared requests a pair':>25}{'barriers (mean)':>17}"]
    for name, c in counted.items():
        lines.append(f"{name:<24}{c.sectors:>10,}{c.times:>10.2f}×{c.each:>25.2f}{c.barriers:>17g}")
    return "\n".join(lines)


def lines_between(source, first, last) -> str:
    """The lines of a source from the first that contains `first` to the next that contains `last`."""
    return re.search(rf"^.*{re.escape(first)}(?:.|\n)*?{re.escape(last)}.*$", source, re.MULTILINE)[0]
