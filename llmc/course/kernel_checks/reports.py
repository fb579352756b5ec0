"""From the emulator's report of a launch to a Diagnosis: of the gravest problem, or of what a right kernel costs.

`c.demand` says how little a kernel should move, and how evenly its threads should share the work.
"""

from collections.abc import Callable
from typing import NamedTuple

from llmc.course.checks.messages.diagnosis import Diagnosis, Kind, WrongAnswer, stopped
from llmc.cuda.emulator.findings.kinds import BY_NAME, GRAVITY
from llmc.cuda.emulator.reporting import float4, sharing

DRAW = "To see which thread touches what:  c.report.plot()"
ALONE = "Each thread should take its own share, and none should idle."


def diagnosis_of(report, exercise, repair=None) -> Diagnosis:
    """repair: an Edit of the kernel with which the whole check passes; it takes the place of general advice."""
    first, *others = sorted(report.problems, key=lambda problem: GRAVITY[problem.kind])  # often the others' cause
    kind = BY_NAME[first.kind]
    called = f", called from line {first.calls[0]}" if first.calls else ""
    happened = kind.sentence(first.found)
    sentence = f"{_head(first)}{called}. {happened[:1].upper()}{happened[1:]}"
    who, to_do = kind.doer(first.found), kind.advice if isinstance(kind.advice, str) else kind.advice(first.found)
    if repair:
        to_do = f"Your kernel passes this whole check {repair.there}."
    more = [stopped(line) for line in (who, to_do) if line]
    names = [name for name in dict.fromkeys(map(_head, others)) if name != _head(first)]
    if names:
        more.append(f"The report also has: {'; '.join(names[:3])}{'; …' * (len(names) > 3)}.")
    more += [DRAW] if kind.drawn else []
    return Diagnosis(Kind.EMULATOR, sentence, more=more, look=_look_for(first, exercise))


def _head(problem) -> str:
    """ "race in shared memory, lines 9 and 12"."""
    title = BY_NAME[problem.kind].title.format(space=problem.found.problem.space)
    lines = sorted({problem.line, problem.line2} - {0})
    return title + (f", line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}" if lines else "")


def _look_for(problem, exercise) -> str:
    """Where the exercise says to look for this kind of problem: in this array, in this space, or anywhere."""
    places = exercise.look if isinstance(exercise.look, dict) else {}
    array, space = problem.where.partition("[")[0], problem.found.problem.space
    for key in (f"{problem.kind} {array}", f"{problem.kind} in {space} memory", problem.kind):
        if key in places:
            return exercise.place(places[key])
    return ""


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
    most = f"at {'least' if demand.least else 'most'} " if limit else ""
    goal = f"{most}{demand.sentence.split('}')[0]}}}".format(limit)
    sentence = f"right, but {demand.sentence.format(value)}; the goal is {goal}"
    more = [demand.advice or _costliest_line(report, what, ours())]
    return WrongAnswer(
        sentence,
        Kind.DEMAND,
        more=[each for each in more if each],
        look=look,
        table=[*report.table().splitlines(), DRAW],
    )


COSTS = {  # of a use of an array by a line, and the word for it
    "efficiency": (lambda use: (use.sectors - use.ideal) * (use.space == "global"), "sectors that are not used"),
    "sectors": (lambda use: use.sectors, "sectors"),
    "requests": (lambda use: use.requests * (use.space == "global"), "requests"),
    "shared_requests": (lambda use: use.requests * (use.space == "shared"), "requests"),
    "bank_conflicts": (lambda use: use.extra, "extra passes"),
}


def _costliest_line(report, what, ours) -> str:
    """The array, and the line, that costs more of what is limited than any other, next to what our solution has."""
    cost, word = COSTS.get(what, (lambda use: 0, ""))
    worst = max(report.lines, key=cost, default=None)
    if worst is None or cost(worst) <= 0:
        return ""
    used = lambda each: sum(cost(u) for u in each.lines if (u.name, u.write) == (worst.name, worst.write))  # noqa: E731
    less = f"; our solution has {used(ours):,}" if ours and used(ours) < used(report) else ""
    does = "writes" if worst.write else "reads"
    return f"{used(report):,} {word} are for {worst.name}, which line {worst.line} {does}{less}."
