"""A problem together with the launch it happened in and its lines: all that the sentences about it are made from."""

from typing import NamedTuple

import numpy as np

from llmc.cuda.emulator.findings import places
from llmc.cuda.emulator.findings.raw import Raw, RawProblem


class Finding(NamedTuple):
    """`problem` of the launch `raw`; line and line2 are its lines in the kernel, 0 where they are not known."""

    raw: Raw
    problem: RawProblem
    line: int = 0
    line2: int = 0

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
        return "writes" if self.problem.write else "reads"

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
        """ ", line 4", ", lines 4 and 7"; nothing where the launch as a whole is meant."""
        if self.line and self.line2 and self.line != self.line2:
            return f", lines {self.line} and {self.line2}"
        if self.line or self.line2:
            return f", line {self.line or self.line2}"
        return ", line unknown" if self.problem.pc else ""


def _quoted(code, line) -> str:
    text = places.source_line(code, line)
    return f"`{text}` " if text else ""
