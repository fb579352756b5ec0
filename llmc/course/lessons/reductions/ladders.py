"""Lesson 13: the source of a kernel, what the emulator counts in it, how full it makes a GPU, and how fast it is."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

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
    """What a row costs: sectors of its own arrays and of arrays that all rows share; what a block waits for."""

    own: float  # sectors a row, of arrays (N, C)
    common: float  # sectors a row, of everything else
    needed: float  # sectors a row, if every number of the first kind is moved once
    passes: float  # through the banks of shared memory, a row
    conflicts: int  # extra passes, in all
    barriers: float  # a block

    def __str__(self):
        moved = f"{self.own:,.0f} sectors a row, {self.own / self.needed:.3g} times the {self.needed:.0f} needed"
        shared = f"{self.passes:,.0f} passes through shared memory" + f" ({self.conflicts} extra)" * bool(
            self.conflicts
        )
        return f"{moved}; {shared}; {self.barriers:g} barriers"


def count(report, N, C, own=("x", "out")) -> Counts:
    """Counts of a launch on N rows of C float32 numbers; own names the arrays of that shape."""
    moved = {mine: sum(use.sectors for use in report.lines if (use.name in own) == mine) for mine in (True, False)}
    passes = sum(use.passes for use in report.lines if use.space == "shared")
    barriers = report.barriers / max(1, report.raw.blocks_run)
    needed = len(own) * C * 4 / 32
    return Counts(moved[True] / N, moved[False] / N, needed, passes / N, report.bank_conflicts, barriers)


def count_table(counted) -> str:
    """{name: Counts} as text, a line each."""
    head = f"{'':<8}{'x and out':>12}{'of needed':>11}{'the rest':>10}{'shared':>9}{'conflicts':>11}{'barriers':>10}"
    rows = [head, f"{'':<8}{'sectors/row':>12}{'':>11}{'':>10}{'passes':>9}{'':>11}{'a block':>10}"]
    for name, c in counted.items():
        rows.append(
            f"{name:<8}{c.own:>12,.0f}{c.own / c.needed:>10.3g}×{c.common:>10,.0f}{c.passes:>9,.0f}"
            f"{c.conflicts:>11}{c.barriers:>10g}"
        )
    return "\n".join(rows)


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


class Times(NamedTuple):
    """Microseconds and GB/s of each version, what GB/s a copy reaches, and where that was measured."""

    us: dict  # {"v1": microseconds}
    gb_s: dict  # {"v1": 10^9 bytes that must move, a second}
    limit: float  # GB/s
    place: str


def stored_times(name, path=TABLE) -> Times | None:
    """Of all versions of a kernel, from the reference measurements; None where there are none."""
    path = Path(path)
    if not path.is_file():
        return None
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [row for row in rows if re.fullmatch(rf"{name}_v\d+", row["kernel"])]
    if not found:
        return None
    version = {row["kernel"].rsplit("_", 1)[1]: row for row in found}
    us, gb_s = ({v: row[key] for v, row in version.items()} for key in ("us", "gb_s"))
    limit = found[-1]["gb_s"] / found[-1]["share"]
    return Times(us, gb_s, limit, f"reference: NVIDIA H200, {found[-1]['shape']}")


def without_tensor_cores(rows) -> list[dict]:
    """The rows of versions that multiply with ordinary arithmetic: tensor cores have a roof of their own."""
    names = {
        f"{function}_v{v}"
        for layer in (attention, matmul)
        for function, both in layer.TENSOR_CORES.items()
        for v in both
    }
    return [row for row in rows if row["kernel"] not in names]


def gpu_times(launches, nbytes, copy) -> Times:
    """On this GPU. launches: {"v1": function}; nbytes: what each must move; copy: a function that moves as much."""
    from llmc.cuda import xp

    us = {name: _microseconds(launch) for name, launch in launches.items()}
    device = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"].decode()
    limit = nbytes / _microseconds(copy) / 1e3
    return Times(us, {name: nbytes / t / 1e3 for name, t in us.items()}, limit, f"measured here: {device}")


def _microseconds(launch, rounds=7, times=20) -> float:
    """The median of several rounds of launches, by the GPU's own clock."""
    from llmc.cuda import xp

    launch()
    begin, end = xp.cuda.Event(), xp.cuda.Event()
    found = []
    for _ in range(rounds):
        begin.record()
        for _ in range(times):
            launch()
        end.record()
        end.synchronize()
        found.append(1e3 * xp.cuda.get_elapsed_time(begin, end) / times)
    return float(np.median(found))
