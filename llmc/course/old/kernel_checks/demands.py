"""What `c.demand` can require of a right kernel: how little it moves, how evenly its threads share the work."""

from collections.abc import Callable
from typing import NamedTuple

from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.kernel_checks import components, shares, traffic
from llmc.course.old.kernel_checks.words import DRAW, look

DRAWN = {"efficiency", "sectors", "bank_conflicts", "rewrites", "busiest"}


class Demand(NamedTuple):
    """What `c.demand` can require: a measure of a report and a sentence for it; the limit is the least or the most.

    advice: what to do about it, if there is advice that holds for every kernel.
    """

    measure: Callable
    sentence: str
    least: bool = False
    advice: str = ""


DEMANDS = {
    "efficiency": Demand(components.efficiency, "{:.0%} of what global memory moves is used", True),
    "sectors": Demand(components.sectors, "{:,} sectors of 32 bytes are moved"),
    "requests": Demand(components.requests, "{:,} requests of a warp go to global memory"),
    "shared_requests": Demand(components.shared_requests, "{:,} requests of a warp go to shared memory"),
    "bank_conflicts": Demand(components.bank_conflicts, "{:,} extra passes are made for bank conflicts"),
    "rewrites": Demand(shares.rewrites, "{:,} writes go to numbers that another thread has written already"),
    "busiest": Demand(
        shares.busiest,
        "{:,} numbers of one array are handled by a single thread",
        advice="Does it do the work of others, or do other threads or blocks idle? Each should take its own share.",
    ),
    "shared_atomics": Demand(
        lambda r: sum(use.lanes for use in r.lines if use.space == "shared" and use.atomic),
        "{:,} atomic operations go to shared memory",
        advice="At one place they run one after the other. In a tree, many threads add side by side in each step.",
    ),
    "barriers": Demand(lambda r: r.barriers / max(1, r.raw.blocks_run), "{:,g} barriers are passed by a block"),
}


class Wasteful(WrongAnswer):
    """The kernel is right, but it does more work than the task allows, or is right only once."""


def demand_text(report, what, limit, where, ours=lambda: None) -> str | None:
    """None if the report is within the limit, else the message. ours(): the report of our solution, or None."""
    demand = DEMANDS[what]
    value = demand.measure(report)
    if value >= limit if demand.least else value <= limit:
        return None
    goal = f"at {'least' if demand.least else 'most'} {demand.sentence.split('}')[0]}}}".format(limit)
    lines = [f"right, but {demand.sentence.format(value)}; the goal is {goal}."]
    advice = demand.advice or traffic.advice(report, what, limit, ours)
    lines += [advice] * bool(advice) + [report.table()]
    return "\n".join(lines + [DRAW] * (what in DRAWN) + look(where, what))
