"""A problem together with the launch it happened in and its lines: all that the sentences about it are made from."""

from typing import NamedTuple

import numpy as np

from llmc.cuda.emulator.findings import places
from llmc.cuda.emulator.findings.raw import Raw, RawProblem

MOST_CALLS = 4  # lines of calls that a message lists


class Finding(NamedTuple):
    """`problem` of the launch `raw`, and where in the kernel it happened.

    chains: for each way that leads there (line, the line that called its function, the line that called that one's, …),
    () where nothing is known. chains2: the same for the other party of a race. between: two lines between which one
    barrier mends several races, where this one speaks for them.
    """

    raw: Raw
    problem: RawProblem
    chains: tuple[tuple[int, ...], ...] = ((),)
    chains2: tuple[tuple[int, ...], ...] = ((),)
    between: tuple[int, int] | None = None

    @property
    def line(self) -> int:
        """The line, 0 where it is not known."""
        return (*self.chains[0], 0)[0]

    @property
    def line2(self) -> int:
        """The line of the other party of a race."""
        return (*self.chains2[0], 0)[0]

    @property
    def array(self) -> np.ndarray | None:
        """The array of the launch that the access was meant for."""
        return places.array_of(self.raw, self.problem)

    @property
    def name(self) -> str:
        """What the kernel calls that array."""
        return self.raw.arguments[self.problem.argument].name

    @property
    def place(self) -> str:
        """The element or the bytes that were touched: "out[1024]"."""
        return places.place(self.raw, self.problem)

    @property
    def verb(self) -> str:
        """What the (first) access does."""
        return _verb(self.problem.write, self.problem.atomic)

    @property
    def verb2(self) -> str:
        """What the other party's access does."""
        return _verb(self.problem.write2, self.problem.atomic2)

    @property
    def quoted(self) -> str:
        """The source line in backticks and a space; "" where it is not known."""
        return _quoted(self.raw.code, self.line)

    @property
    def quoted2(self) -> str:
        """The same for the second line."""
        return _quoted(self.raw.code, self.line2)

    @property
    def within(self) -> str:
        """ "in `x = y;`, " where the line is known."""
        return f"in {self.quoted.rstrip()}, " if self.quoted else ""

    @property
    def on_lines(self) -> str:
        """ ", line 4, called at line 40", ", lines 4 and 7"; nothing where the launch as a whole is meant."""
        if not self.line and not self.line2:
            return ", line unknown" if self.problem.pc else ""
        calls, calls2 = ({chain[1:] for chain in chains if chain} for chains in (self.chains, self.chains2))
        if not self.line or not self.line2 or self.line == self.line2 or self.problem.kind == "uninitialised-local":
            return f", line {self.line or self.line2}{_called(calls | calls2)}"
        if calls == calls2:
            return f", lines {self.line} and {self.line2}{_called(calls)}"
        return f", line {self.line}{_called(calls)}, and line {self.line2}{_called(calls2)}"


def _verb(write, atomic) -> str:
    return "updates" if atomic else "writes" if write else "reads"


def _called(calls) -> str:
    """ ", called at line 40", ", called at lines 40 and 44 from line 60"; "" if it is in the kernel itself."""
    ways = sorted(calls - {()})
    if not ways:
        return ""
    near, outer = sorted({way[0] for way in ways}), {way[1:] for way in ways}
    from_there = "".join(f" from line {line}" for line in outer.pop()) if len(outer) == 1 else ""
    some = [str(line) for line in near[:MOST_CALLS]] + ["others"] * (len(near) > MOST_CALLS)
    lines = some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"
    return f", called at line{'s' * (len(some) > 1)} {lines}{from_there}"


def _quoted(code, line) -> str:
    text = places.source_line(code, line)
    return f"`{text}` " if text else ""
