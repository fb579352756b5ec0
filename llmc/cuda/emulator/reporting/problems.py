"""Problems as a learner meets them: one for each mistake, with its line, its place and a paragraph of words."""

from dataclasses import dataclass, replace

from llmc.cuda.emulator.findings.finding import Finding
from llmc.cuda.emulator.findings.kinds import BY_NAME
from llmc.cuda.emulator.findings.places import source_line


@dataclass(frozen=True)
class Problem:
    """One mistake, in words. line is 0 where it is not known; what ends in 2 is about the other party of a race."""

    kind: str
    line: int
    source: str  # the text of the line
    where: str  # "out[1024]", "shared memory, byte 128 (4-byte element 32)"
    text: str  # the whole paragraph
    block: tuple
    thread: tuple
    count: int
    line2: int = 0
    source2: str = ""
    block2: tuple | None = None
    thread2: tuple | None = None

    def __str__(self):
        return self.text


def in_words(raw, found, line_of) -> list[Problem]:
    """The RawProblems `found` in the launch `raw`, merged and in words; line_of(pc) is the line of an instruction."""

    def lines_of(item):
        return item.line or line_of(item.pc), item.line2 or line_of(item.pc2)

    return [_problem(Finding(raw, item, *lines_of(item))) for item in _merged(found, lines_of)]


def _merged(found, lines_of) -> list:
    """One for each kind, array and pair of lines: an unrolled loop has several instructions on a line."""
    groups = {}
    for item in found:
        line, line2 = lines_of(item)
        parties = frozenset([(line, item.write), (line2, item.write2)])
        key = item.kind, item.space, item.argument, parties
        first = groups.get(key)
        groups[key] = replace(first, count=first.count + item.count) if first else item
    return list(groups.values())


def _problem(found: Finding) -> Problem:
    kind, item = BY_NAME[found.problem.kind], found.problem
    return Problem(
        kind=kind.name,
        line=found.line,
        source=source_line(found.raw.code, found.line),
        where=kind.place(found.raw, item),
        text=kind.paragraph(found),
        block=item.block,
        thread=item.thread,
        count=item.count,
        line2=found.line2,
        source2=source_line(found.raw.code, found.line2),
        block2=item.block2,
        thread2=item.thread2,
    )
