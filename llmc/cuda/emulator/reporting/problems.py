"""Problems as a learner meets them: one for each mistake, with its line, its place and a paragraph of words."""

from dataclasses import dataclass, replace

from llmc.cuda.emulator.reporting.places import place, source_line
from llmc.cuda.emulator.reporting.wording import paragraph


@dataclass(frozen=True)
class Problem:
    """One mistake, in words. line is 0 where it is not known; those with a 2 belong to the other party of a race."""

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


def told(raw, found, line_of) -> list[Problem]:
    """The RawProblems `found` in the launch `raw`, merged and in words; line_of(pc) is the line of an instruction."""

    def lines_of(item):
        return item.line or line_of(item.pc), item.line2 or line_of(item.pc2)

    return [_in_words(raw, item, *lines_of(item)) for item in _merged(found, lines_of)]


def _merged(found, lines_of) -> list:
    """One for each kind, array and pair of lines: an unrolled loop has several instructions on a line."""
    groups = {}
    for item in found:
        line, line2 = lines_of(item)
        parties = frozenset([(line, item.write), (line2, item.write2)])
        key = item.kind, item.space, item.argument, parties, item.detail if item.kind == "assert" else ""
        first = groups.get(key)
        groups[key] = replace(first, count=first.count + item.count) if first else item
    return list(groups.values())


def _in_words(raw, item, line, line2) -> Problem:
    return Problem(
        kind=item.kind,
        line=line,
        source=source_line(raw.code, line),
        where=place(raw, item),
        text=paragraph(raw, item, line, line2),
        block=item.block,
        thread=item.thread,
        count=item.count,
        line2=line2,
        source2=source_line(raw.code, line2),
        block2=item.block2,
        thread2=item.thread2,
    )
