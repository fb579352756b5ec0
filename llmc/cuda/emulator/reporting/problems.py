"""Problems as a learner meets them: one for each mistake, with its line, its place and a paragraph of words."""

from dataclasses import dataclass, field, replace

from llmc.cuda.emulator.findings.causes import by_cause, more_races
from llmc.cuda.emulator.findings.finding import Finding
from llmc.cuda.emulator.findings.kinds import BY_NAME
from llmc.cuda.emulator.findings.places import source_line

RACES = {"race", "missing-syncwarp"}


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
    calls: tuple = ()  # the lines that called the function in which `line` is, its callers', and so on
    calls2: tuple = ()
    block2: tuple | None = None
    thread2: tuple | None = None
    more: tuple[tuple[int, int], ...] = ()  # lines of the other races that the same barrier would mend
    found: Finding | None = field(default=None, repr=False, compare=False)

    def __str__(self):
        return self.text


def without_settled(raw, chain_of) -> list:
    """raw.problems without races of plain reads that the same thread's atomic settles (settle() in shadow.cpp)."""
    if not any(item.atomic != item.atomic2 for item in raw.problems):
        return raw.problems
    settled = set(raw.excused) | {chain_of(pc)[0] for pc in raw.excused if chain_of(pc)}

    def excused(item):
        if item.atomic == item.atomic2 or item.write and item.write2:
            return False
        pc = item.pc if item.atomic2 else item.pc2
        return not settled.isdisjoint((pc, *chain_of(pc)[:1]))  # by line, since an instruction may have copies

    return [item for item in raw.problems if not excused(item)]


def in_words(raw, found, chain_of) -> list[Problem]:
    """The RawProblems `found` in the launch `raw`, merged and in words.

    chain_of(pc): the line of an instruction, the line that called its function, and so on.
    """
    groups = {}
    for item in found:
        here, there = _chain(item.line, chain_of(item.pc)), _chain(item.line2, chain_of(item.pc2))
        one = Finding(raw, item, (here,), (() if _read_elsewhere(item, here, there) else there,))
        groups.setdefault(_key(one), []).append(one)
    mistakes = [_merged(group) for key, group in groups.items() if not _said_by_another(key, groups)]
    return [_problem(*cause) for cause in by_cause(mistakes)]


def _read_elsewhere(item, here, there) -> bool:
    """Is a race's second line that of the first thread, while several others have read as well, perhaps on another?"""
    return item.kind in RACES and item.thread2 is None and not item.write2 and here[:1] != there[:1]


def _said_by_another(key, groups) -> bool:
    """Whether a group is but another side of a mistake that another group reports."""
    kind, space, argument, parties, calls = key
    if kind == "missing-syncwarp" and ("race", *key[1:]) in groups:
        return True  # what orders the warps of the block orders the threads of one of them
    # two threads that write one element on one line also read it there, if it is +=
    both_write = frozenset(party for party in parties if party[1])
    return (
        len({line for line, _ in parties}) == 1 < len(parties) and (kind, space, argument, both_write, calls) in groups
    )


def _chain(line, chain) -> tuple[int, ...]:
    """The chain of an instruction; for a barrier or an index, the line is known, and its calls only perhaps."""
    return chain if not line or chain[:1] == (line,) else (line,)


def _key(found: Finding) -> tuple:
    """What one mistake has in common: kind, array, lines, and whether two calls of a function are involved."""
    item, here, there = found.problem, found.chains[0], found.chains2[0]
    parties = frozenset([(found.line, item.write), (found.line2, item.write2)])
    return item.kind, item.space, item.argument, parties, bool(there) and here[1:] != there[1:]


def _merged(group) -> Finding:
    """One for many: an unrolled loop has several instructions on a line, and a function may be called repeatedly."""
    first = group[0]
    total = replace(first.problem, count=sum(one.problem.count for one in group))
    same = [one for one in group if one.line == first.line]
    chains = dict.fromkeys(one.chains[0] for one in same)
    return first._replace(problem=total, chains=(*chains,), chains2=(*dict.fromkeys(one.chains2[0] for one in same),))


def _problem(found: Finding, others) -> Problem:
    """others: what the same barrier would mend."""
    kind, item = BY_NAME[found.problem.kind], found.problem
    return Problem(
        kind=kind.name,
        line=found.line,
        source=source_line(found.raw.code, found.line),
        where=kind.place(found.raw, item),
        text=" ".join(filter(None, [kind.paragraph(found), more_races(others)])),
        block=item.block,
        thread=item.thread,
        count=item.count,
        line2=found.line2,
        source2=source_line(found.raw.code, found.line2),
        calls=found.chains[0][1:],
        calls2=found.chains2[0][1:],
        block2=item.block2,
        thread2=item.thread2,
        more=tuple((other.line, other.line2) for other in others),
        found=found,
    )
