"""How the check of a CUDA kernel explains itself: from the emulator's report to the message of a WrongAnswer."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from llmc.course.checks.explain import WrongAnswer
from llmc.course.kernel_checks import shares
from llmc.course.kernel_checks.source import literal_block
from llmc.cuda.emulator.compiling.source import global_names
from llmc.cuda.emulator.findings.kinds import BY_NAME, GRAVITY, KINDS

DRAWN = {kind.name for kind in KINDS if kind.drawn}
DRAWN |= {"efficiency", "sectors", "bank_conflicts", "rewrites", "busiest"}
NEVER_WRITTEN = "The launch is given, and large enough. Work out by hand which thread should write {}."
DRAW = "To see which thread touches what:  c.report.plot()"
TITLE = re.compile(r"(?P<title>[^:]+): kernel \S+?(?:, lines? [^:]+)?: ")  # how a report's paragraph begins


class Demand(NamedTuple):
    """What `c.demand` can require: a measure of a report and a sentence for it; the limit is the least or the most.

    advice: what to do about it, if there is advice that holds for every kernel.
    """

    measure: Callable
    sentence: str
    least: bool = False
    advice: str = ""


DEMANDS = {
    "efficiency": Demand(lambda r: r.efficiency, "{:.0%} of what global memory moves is used", True),
    "sectors": Demand(lambda r: r.sectors, "{:,} sectors of 32 bytes are moved"),
    "requests": Demand(lambda r: _requests(r, "global"), "{:,} requests of a warp go to global memory"),
    "shared_requests": Demand(lambda r: _requests(r, "shared"), "{:,} requests of a warp go to shared memory"),
    "bank_conflicts": Demand(lambda r: r.bank_conflicts, "{:,} extra passes are made for bank conflicts"),
    "rewrites": Demand(
        shares.rewrites,
        "{:,} writes go to numbers that another thread has written already",
        advice="Does every thread do all the work, or the work of another block? Each number belongs to one thread.",
    ),
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


def _requests(report, space) -> int:
    return sum(use.requests for use in report.lines if use.space == space)


def _pieces(report) -> str:
    """A sentence about the first line that takes a float4 apart before it has been read or stored; else ""."""
    for use in report.lines:
        if "float4" in report.raw.code and use.space == "global" and use.size == 4 and use.share <= 0.5:
            what = f"Line {use.line} {use.access} 4 bytes at a time"
            return f"{what}: read a whole float4 first, `float4 v = p[i];`, and store a whole one, `p[i] = v;`."
    return ""


class Wasteful(WrongAnswer):
    """The kernel is right, but it does more work than the task allows."""


@dataclass(frozen=True)
class Launch:
    """What distinguishes launches: source, kernel, grid and block (x, y, z), descriptions of the arguments."""

    code: str
    kernel: str
    grid: tuple
    block: tuple
    arguments: tuple


def call_text(launch, names) -> str:
    """ "gelu_kernel((4,), (32,), (out (127,) float32, inp (127,) float32, n 127))": as CuPy has it."""
    named = [f"{name} {value}" for name, value in zip(names, launch.arguments)]
    return f"{launch.kernel}({_short(launch.grid)}, {_short(launch.block)}, ({', '.join(named)}))"


def _short(size) -> str:
    """(4, 1, 1) as "(4,)"."""
    kept = size[: 3 if size[2] > 1 else 2 if size[1] > 1 else 1]
    return f"({', '.join(map(str, kept))}{',' * (len(kept) == 1)})"


def problem_text(report, where, cause=None) -> str:
    """The message for a report with problems: the gravest in full, the others by name.

    cause: words for the change of the solution that leads to the same; they take the place of general advice.
    """
    first, *others = sorted(report.problems, key=lambda p: GRAVITY[p.kind])  # often the cause of the others
    paragraph, ours = TITLE.sub("", first.text, count=1), NEVER_WRITTEN.format(first.where)
    paragraph = paragraph.replace(BY_NAME["never-written"].advice, ours)  # the launch is the check's, not the learner's
    if cause and "one too many" not in paragraph:
        paragraph = "\n".join([*paragraph.split("\n")[:-1], f"Our solution does exactly the same {cause}."])
    elif ";" in where.get(first.kind, "") and _one_place_for_two(report):  # what the check says there is better advice
        paragraph = "\n".join(paragraph.split("\n")[:-1])
    lines = [head(first) + ".", paragraph[:1].upper() + paragraph[1:]]
    names = [name for name in dict.fromkeys(map(head, others)) if name != head(first)]
    if names:
        lines.append(f"The report also has: {'; '.join(names[:3])}{'; …' * (len(names) > 3)}.")
    lines += [DRAW] * (first.kind in DRAWN)
    return "\n".join(lines + look(where, first.kind))


def _one_place_for_two(report) -> bool:
    """Do two threads write one place of shared memory in the same line? A barrier would not mend that."""
    races = [p for p in report.problems if p.kind == "race" and p.where.startswith("shared")]
    return any(race.line2 in (0, race.line) for race in races)


def head(problem) -> str:
    """ "race in shared memory, lines 9 and 12": in the words of the report."""
    title = TITLE.match(problem.text)
    lines = sorted({problem.line, problem.line2} - {0})
    place = f", line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}" if lines else ""
    return (title["title"] if title else problem.kind) + place


def look(where, kind) -> list[str]:
    """The line that says where to look, if the lesson has a place for this kind."""
    return [f"→ Where to look: {where[kind]}."] if kind in where else []


def with_comparison(message, launches) -> str:
    """The message; after its first line, how the last launch, which failed, differs from those that were right."""
    sentence = _comparison(*launches) if launches else None
    first, *rest = message.split("\n")
    return "\n".join([first, sentence, *rest]) if sentence else message


def _comparison(*launches):
    """One sentence about grid and block, or None."""
    *before, last = launches
    right = [a for a in before if (a.code, a.kernel, a.arguments) == (last.code, last.kernel, last.arguments)]
    same_block = [a for a in right if a.block == last.block]
    if any(a.grid == last.grid for a in same_block):
        kept = global_names(last.code)  # which outlives a launch
        over = f": is something left over in `{kept[0]}`, or does it depend on the numbers?" if kept else ""
        return f"A launch of the same sizes was right before, with other numbers{over or '.'}"
    if same_block:
        sentence = f"Right with {_listed(a.grid for a in same_block)} blocks, wrong with {_listed([last.grid])}"
        return f"{sentence}: does it assume how many blocks there are? Take gridDim."
    threads = _listed([last.block])
    steps_by_warps = not right and "__shfl" in last.code  # then a 64 may well be two warps
    number = None if steps_by_warps else literal_block(last.code, int(threads))
    if right and not number and {_listed([a.grid]) for a in right} == {"1"} != {_listed([last.grid])}:
        part = "does each block take its own part (blockIdx), as long as the block (blockDim)?"
        return f"Right with 1 block, wrong with {_listed([last.grid])}: {part}"
    lines = [f"Right with blocks of {_listed(a.block for a in right)} threads, wrong with {threads}"] * bool(right)
    beside = "" if right else f", and this block has {threads} threads"
    lines += [f"There is a {number} in the kernel{beside}"] * bool(number)
    return f"{'. '.join(lines)}: does it assume how many threads a block has? Take blockDim." if lines else None


def _listed(sizes) -> str:
    """ "256, 128 and 96": how many threads or blocks each of these has."""
    counts = list(dict.fromkeys(str(a * b * c) for a, b, c in sizes))
    return " and ".join([", ".join(counts[:-1]), counts[-1]] if counts[1:] else counts)


def demand_text(report, what, limit, where) -> str | None:
    """None if the report is within the limit, else the message."""
    demand = DEMANDS[what]
    value = demand.measure(report)
    if value >= limit if demand.least else value <= limit:
        return None
    goal = f"at {'least' if demand.least else 'most'} {demand.sentence.split('}')[0]}}}".format(limit)
    lines = [f"right, but {demand.sentence.format(value)}; the goal is {goal}."]
    advice = demand.advice or (_pieces(report) if what in ("requests", "sectors") else "")
    lines += [advice] * bool(advice) + [report.table()]
    return "\n".join(lines + [DRAW] * (what in DRAWN) + look(where, what))
