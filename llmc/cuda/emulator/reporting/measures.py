"""What a launch cost, by source line: sectors of global memory, passes through the banks of shared memory.

A GPU moves global memory in sectors of 32 bytes. The ideal is the number of sectors that the bytes a warp asks for
would fill if they lay side by side. Shared memory has 32 banks, each of which delivers one 4-byte word per pass; lanes
that want different words of one bank need several passes.
"""

from dataclasses import dataclass

from llmc.cuda.emulator.findings.places import cut, source_line

SECTOR = 32  # bytes
WIDTH = 60  # characters of a source line in the table


@dataclass(frozen=True)
class LineUse:
    """What one line of the kernel did to one array (or to shared memory), summed over the launch."""

    line: int  # 0 where it is not known
    source: str
    space: str  # "global" or "shared"
    name: str  # of the array; "shared"
    write: bool
    atomic: bool
    size: int  # bytes that a lane asks for at once
    requests: int  # executions by a warp
    lanes: int  # accesses by single threads
    sectors: int
    passes: int  # through the banks (shared)
    ideal: int  # the fewest sectors (global), passes without conflicts (shared)
    worst: int  # passes of the worst request (shared)

    @property
    def bytes(self) -> int:
        """Bytes moved: whole sectors of global memory, what the threads asked for in shared memory."""
        return SECTOR * self.sectors if self.space == "global" else self.size * self.lanes

    @property
    def extra(self) -> int:
        """Passes through the banks that conflicts cost."""
        return max(0, self.passes - self.ideal) if self.space == "shared" else 0

    @property
    def share(self) -> float:
        """Ideal over actual, of sectors or of passes."""
        actual = self.sectors if self.space == "global" else self.passes
        return self.ideal / actual if actual else 1.0

    @property
    def access(self) -> str:
        """ "reads x", "atomic on dout"."""
        return f"atomic on {self.name}" if self.atomic else f"{'writes' if self.write else 'reads'} {self.name}"


def by_line(raw, line_of) -> list[LineUse]:
    """The accesses of a launch, summed by line, array and direction; line_of(pc) gives the line of an instruction."""
    groups = {}
    for access in raw.accesses:
        key = line_of(access.pc), access.write, access.space, access.argument, access.atomic
        groups.setdefault(key, []).append(access)
    return [_sum(raw, line, group) for (line, *_), group in sorted(groups.items(), key=lambda item: item[0])]


def _sum(raw, line, group) -> LineUse:
    first = group[0]
    named = first.space == "global" and 0 <= first.argument < len(raw.arguments)
    return LineUse(
        line=line,
        source=source_line(raw.code, line),
        space=first.space,
        name=raw.arguments[first.argument].name if named else first.space,
        write=first.write,
        atomic=first.atomic,
        size=max(access.size for access in group),
        requests=sum(access.requests for access in group),
        lanes=sum(access.lanes for access in group),
        sectors=sum(access.sectors for access in group),
        passes=sum(access.passes for access in group),
        ideal=sum(access.ideal for access in group),
        worst=max(access.worst for access in group),
    )


# ------------------------------------------------------------------------------------------------------- table

TITLES = ("line", "access", "requests", "sectors", "ideal", "share", "passes", "worst", "source")


def table(uses) -> str:
    """The lines as text, columns aligned; a total when more than one moves global memory."""
    if not uses:
        return "Nothing was measured."
    rows = [TITLES, *map(_row, uses)]
    moving = [use for use in uses if use.space == "global"]
    if len(moving) > 1:
        requests, sectors, ideal = (sum(getattr(use, name) for use in moving) for name in TITLES[2:5])
        rows.append(
            ("", "all global", *_counts(requests, sectors, ideal), f"{ideal / max(sectors, 1):.0%}", "", "", "")
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(_aligned(row, widths) for row in rows)


def _row(use) -> tuple:
    if use.space == "global":
        costs = (*_counts(use.requests, use.sectors, use.ideal), f"{use.share:.0%}", "", "")
    else:
        costs = (*_counts(use.requests), "", "", f"{use.share:.0%}", *_counts(use.passes, use.worst))
    return str(use.line or "?"), use.access, *costs, cut(use.source, WIDTH)


def _aligned(row, widths) -> str:
    """Words to the left, numbers to the right."""
    left = (1, len(row) - 1)
    cells = [cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
    return "  ".join(cells).rstrip()


def _counts(*numbers) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in numbers)
