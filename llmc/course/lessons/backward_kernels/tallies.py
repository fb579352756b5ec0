"""Lesson 14: what the launches of one version cost, as the emulator counts it."""

from typing import NamedTuple

SECTOR = 8  # float32 numbers in 32 bytes


class Tally(NamedTuple):
    """Counts of all launches together."""

    own: int  # sectors of the arrays whose numbers must be moved
    needed: float  # sectors, if each of those numbers were moved once
    others: int  # sectors of everything else: sums, scratch memory, w, mean, rstd
    atomics: int  # numbers added by atomics to global memory
    in_shared: int  # numbers added by atomics to shared memory
    passes: int  # through the banks of shared memory

    def __str__(self):
        moved = f"{self.own:,} sectors, {self.own / self.needed:.3g} times what is needed, and {self.others:,} others"
        return f"{moved}; {self.atomics:,} atomics in global memory, {self.in_shared:,} in shared memory"


def tally(reports, numbers, own) -> Tally:
    """Of the launches of one version. numbers: how many must be moved; own: names of the arrays that hold them."""
    uses = [use for report in reports for use in report.lines]
    moved = [use for use in uses if use.space == "global"]
    mine, others = (sum(use.sectors for use in moved if (use.name in own) == which) for which in (True, False))
    atomics = {
        space: sum(use.lanes for use in uses if use.atomic and use.space == space) for space in ("global", "shared")
    }
    passes = sum(use.passes for use in uses if use.space == "shared")
    return Tally(mine, numbers / SECTOR, others, atomics["global"], atomics["shared"], passes)


def tally_table(tallies) -> str:
    """{name: Tally} as text, a line each."""
    rows = [
        f"{'':<5}{'sectors':>10}{'of needed':>11}{'others':>10}{'atomics':>10}{'atomics in':>13}{'passes':>9}",
        f"{'':<5}{'':>10}{'':>11}{'':>10}{'global':>10}{'shared':>13}{'shared':>9}",
    ]
    for name, t in tallies.items():
        sectors = f"{name:<5}{t.own:>10,}{t.own / t.needed:>10.3g}×{t.others:>10,}"
        rows.append(f"{sectors}{t.atomics:>10,}{t.in_shared:>13,}{t.passes:>9,}")
    return "\n".join(rows)
