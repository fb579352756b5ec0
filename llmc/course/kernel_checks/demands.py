"""What `c.demand` can require of a right kernel: how little it moves, how evenly its threads share the work."""

from collections.abc import Callable
from typing import NamedTuple

from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.cuda.emulator.reporting import float4, sharing

DRAW = "To see which thread touches what:  c.report.plot()"
ALONE = "Each thread should take its own share, and none should idle."


class Demand(NamedTuple):
    """A measure of a report and a sentence for it; the limit is the least or the most. advice: what helps, if any."""

    measure: Callable
    sentence: str
    least: bool = False
    advice: str = ""


DEMANDS = {
    "efficiency": Demand(float4.efficiency, "{:.0%} of what global memory moves is used", True),
    "sectors": Demand(float4.sectors, "{:,} sectors of 32 bytes are moved"),
    "requests": Demand(float4.requests, "{:,} requests of a warp go to global memory"),
    "shared_requests": Demand(float4.shared_requests, "{:,} requests of a warp go to shared memory"),
    "bank_conflicts": Demand(float4.bank_conflicts, "{:,} extra passes are made for bank conflicts"),
    "rewrites": Demand(sharing.rewrites, "{:,} writes go to numbers that another thread has written already"),
    "busiest": Demand(sharing.busiest, "{:,} numbers of one array are handled by a single thread", advice=ALONE),
    "shared_atomics": Demand(
        lambda report: sum(use.lanes for use in report.lines if use.space == "shared" and use.atomic),
        "{:,} atomic operations go to shared memory",
        advice="At one place they run one after the other. In a tree, many threads add side by side in each step.",
    ),
    "barriers": Demand(
        lambda report: report.barriers / max(1, report.raw.blocks_run), "{:,g} barriers are passed by a block"
    ),
}


def wasteful(report, what, limit, look, ours=lambda: None) -> WrongAnswer | None:
    """None if the report is within the limit, else "right, but …". ours(): the report of our solution, or None."""
    demand = DEMANDS[what]
    value = demand.measure(report)
    if value >= limit if demand.least else value <= limit:
        return None
    goal = f"at {'least' if demand.least else 'most'} {demand.sentence.split('}')[0]}}}".format(limit)
    sentence = f"right, but {demand.sentence.format(value)}; the goal is {goal}"
    more = [demand.advice or _costliest_line(report, what, ours())]
    return WrongAnswer(sentence, Kind.DEMAND, more=[each for each in more if each], look=look, table=_table(report))


COSTS = {  # of a use of an array by a line, and the word for it
    "efficiency": (lambda use: (use.sectors - use.ideal) * (use.space == "global"), "sectors that are not used"),
    "sectors": (lambda use: use.sectors, "sectors"),
    "requests": (lambda use: use.requests * (use.space == "global"), "requests"),
    "shared_requests": (lambda use: use.requests * (use.space == "shared"), "requests"),
    "bank_conflicts": (lambda use: use.extra, "extra passes"),
}


def _costliest_line(report, what, ours) -> str:
    """The line, by array, that costs most of what is demanded, next to what our solution has there."""
    cost, word = COSTS.get(what, (lambda use: 0, ""))
    worst = max(report.lines, key=cost, default=None)
    if worst is None or cost(worst) <= 0:
        return ""
    used = lambda each: sum(cost(u) for u in each.lines if (u.name, u.write) == (worst.name, worst.write))  # noqa: E731
    less = f"; our solution has {used(ours):,}" if ours and used(ours) < used(report) else ""
    does = "writes" if worst.write else "reads"
    return f"Most of it is for {worst.name}, which line {worst.line} {does}: {used(report):,} {word}{less}."


def _table(report) -> list[str]:
    return [*report.table().splitlines(), DRAW]
