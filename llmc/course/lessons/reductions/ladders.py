"""Lesson 13: the source of a kernel, what the emulator counts in it, how full it makes a GPU, and how fast it is."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from llmc.bench.kernels import times
from llmc.bench.kernels.versions import versions
from llmc.kernels import attention, matmul

TABLE = Path("reference/h200_kernels.json")  # in the lessons' folder: what `llmc bench --kernels --json` measured
MULTIPROCESSORS, PLACES = 132, 64  # of an H200: its multiprocessors, and the warps that each of them can hold
BLOCKS = 32  # that a multiprocessor can hold

# ------------------------------------------------------------------------------------------------- the source


def function_text(source, name) -> str:
    """A function or struct of a .cu file: with the comment and the template line above, up to its closing brace."""
    lines = source.split("\n")
    first = next(i for i, line in enumerate(lines) if re.match(rf"[\w<>, \"()]*\b{name}(\(| {{)", line))
    last = first
    while not lines[last].startswith("}") and not lines[first].endswith("}"):  # a short one is a single line
        last += 1
    while lines[first - 1].startswith(("//", "template", 'extern "C"')):
        first -= 1
    return "\n".join(lines[first : last + 1])


# ------------------------------------------------------------------------------------------------- the counts


class Counts(NamedTuple):
    """What the launches of one version cost, as the emulator counts it: in all, or for a row."""

    own: float  # sectors of the arrays whose numbers must be moved
    needed: float  # sectors, if each of those numbers were moved once
    others: float  # sectors of everything else: w, mean, rstd, sums, scratch memory
    passes: float  # through the banks of shared memory
    conflicts: float  # of these, extra ones
    barriers: float  # of a block
    atomics: int  # numbers added by atomics to global memory, in all
    shared_atomics: int  # and to shared memory

    def rest(self) -> dict:
        """{"barriers": "2"}: in words, what is not about the sectors of its own arrays."""
        counts = list(self._asdict().items())[2:]
        return {name.replace("_", " "): f"{round(count, 1):,.10g}" for name, count in counts}

    def __str__(self):
        moved = f"{self.own:,.0f} sectors, {self.own / self.needed:.3g} times the {self.needed:,.0f} needed"
        rest = (f"{n} {what.removesuffix('s') if n == '1' else what}" for what, n in self.rest().items() if n != "0")
        return "; ".join([moved, *rest])


def count(reports, numbers, own=("x", "out"), rows=1) -> Counts:
    """Of the launches of one version. numbers: how many must be moved; own: names of the arrays that hold them."""
    uses = [use for report in reports for use in report.lines]
    moved, shared = ([use for use in uses if use.space == space] for space in ("global", "shared"))
    mine, others = (sum(use.sectors for use in moved if (use.name in own) == which) for which in (True, False))
    passes, conflicts = sum(use.passes for use in shared), sum(report.bank_conflicts for report in reports)
    barriers = max(report.barriers / max(1, report.raw.blocks_run) for report in reports)
    atomics = (sum(use.lanes for use in space if use.atomic) for space in (moved, shared))
    return Counts(*(n / rows for n in (mine, numbers / 8, others, passes, conflicts)), barriers, *atomics)


def count_table(counted) -> str:
    """{name: Counts} as text, a line each; a column of zeros is left out."""
    rows = {name: c.rest() for name, c in counted.items()}
    columns = [what for what in next(iter(rows.values())) if any(row[what] != "0" for row in rows.values())]
    lines = [f"{'':<4}{'sectors':>10}{'of needed':>11}" + "".join(f"{what:>16}" for what in columns)]
    for name, c in counted.items():
        rest = "".join(f"{rows[name][what]:>16}" for what in columns)
        lines.append(f"{name:<4}{c.own:>10,.0f}{c.own / c.needed:>10.3g}×{rest}")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ the filling


def filling(blocks, threads) -> tuple[int, float]:
    """(multiprocessors that have work, occupancy) of an H200 in a launch of blocks of that many threads.

    Occupancy: the share of all places for warps that are in use while the GPU is as full as it gets. Registers and
    shared memory, which may leave room for fewer blocks, are not considered.
    """
    warps = -(-threads // 32)
    at_once = min(BLOCKS, PLACES // warps) * MULTIPROCESSORS
    return min(blocks, MULTIPROCESSORS), min(blocks, at_once) * warps / (PLACES * MULTIPROCESSORS)


# -------------------------------------------------------------------------------------------------- the times


class Version(NamedTuple):
    """Of a function. share: of the closer of the GPU's two limits. repeats: did a second call give equal bits?"""

    us: float
    gb_s: float  # 10^9 bytes that must move, a second
    share: float
    repeats: bool | None


class Ladder(NamedTuple):
    """{"v1": Version, …} of a function, what GB/s a copy reaches, and where it was measured."""

    versions: dict
    limit: float
    place: str

    def __str__(self):
        lines = [f"{self.place}; the limit is {self.limit:,.0f} GB/s"]
        for version, row in self.versions.items():
            bits = "   other bits" if row.repeats is False else ""
            lines.append(f"   {version}  {row.us:8.1f} µs  {row.gb_s:6,.0f} GB/s  {row.share:5.0%} of a copy{bits}")
        return "\n".join(lines)

    def best(self) -> str:
        """The fastest version."""
        return min(self.versions, key=lambda version: self.versions[version].us)


def stored(path=TABLE) -> dict:
    """{function: Ladder} from the reference measurements."""
    return _ladders(json.loads(Path(path).read_text(encoding="utf-8")), "reference")


def here(names) -> dict:
    """The same, measured on this GPU by what `llmc bench --kernels` uses; takes a few seconds."""
    bounds, found = times.limits(), []
    for group in map(versions, names):
        rows = [{"kernel": version.name, "right": True} for version in group]
        times.add_times(group, rows, bounds)
        found += rows
    return _ladders(found, "measured here")


def _ladders(rows, place) -> dict:
    found = {}
    for row in rows:
        name, version = row["kernel"].rsplit("_", 1)
        of = found.setdefault(name, Ladder({}, row["copy_gb_s"], f"{place}: {row['device']}, {row['shape']}"))
        of.versions[version] = Version(*(row.get(what) for what in Version._fields))
    return found


def without_tensor_cores(rows) -> list[dict]:
    """The rows of versions that multiply with ordinary arithmetic: tensor cores have a roof of their own."""
    functions = attention.TENSOR_CORES | matmul.TENSOR_CORES
    names = {f"{function}_v{v}" for function, both in functions.items() for v in both}
    return [row for row in rows if row["kernel"] not in names]
