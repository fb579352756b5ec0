"""Why a kernel moves more through global memory than it should: numbers that lie apart, in pieces, or twice."""

import math
import re
from collections import Counter

import numpy as np

from llmc.course.old.kernel_checks import components, excess
from llmc.course.old.kernel_checks.banks import conflict
from llmc.course.old.kernel_checks.modelled import MODELS
from llmc.course.old.kernel_checks.rewritten import by_several
from llmc.cuda.emulator.compiling.text import mask, surroundings
from llmc.cuda.emulator.findings.places import element

SHARED = re.compile(r"__shared__\s+(\w+)")
WIDE = 16  # bytes of a float4, the widest access
GOOD = 0.9  # share of what is moved that is used


def advice(report, what, limit, ours=lambda: None) -> str:
    """What the lines of a report show about an efficiency, sectors or requests beyond the limit; else "".

    ours(): the report of our solution's launch, or None.
    """
    if what == "rewrites":
        return by_several(report)
    if what == "bank_conflicts":
        told, theirs = conflict(report), ours()
        return told or (excess.shared(report, theirs) if theirs else "")
    if what in ("efficiency", "sectors") and (theirs := ours()):
        more = excess.of_sectors(report, theirs)
        told = _of_lines(report, what, limit, more)
        return " ".join(filter(None, [excess.named(more) if what == "sectors" else "", told]))
    return _of_lines(report, what, limit)


def _of_lines(report, what, limit, more=None) -> str:
    """more: {(array, is it written?)} of which our solution moves less, if that is known: only these are spoken of."""
    some = [use for use in report.lines if more is None or (use.name, use.write) in more]
    if what == "efficiency":
        return _in_fours(report, some) or _apart(report, some)
    if what == "requests":
        return _pieces(report, some) or _no_tail(report) or _narrow(report)
    if what == "shared_requests":
        return _busiest_line(report, limit)
    if what == "sectors":
        ideal = sum(use.ideal for use in report.lines if use.space == "global")
        return (
            _pieces(report, some)
            or _in_fours(report, some)
            or (_often(report) or _again(report, some) if ideal > limit else _apart(report, some))
        )
    return ""


def _pieces(report, uses) -> str:
    """A sentence about the first line that takes a float4 apart before it has been read or stored; else ""."""
    for use in uses:
        if "float4" in report.raw.code and use.space == "global" and use.size == 4 and use.share <= 0.5:
            what = f"Line {use.line} {use.access} 4 bytes at a time"
            return f"{what}: read a whole float4 first, into a variable, and store a whole one."
    return ""


def _no_tail(report) -> str:
    """A sentence about a line that moves single floats of an array of whole float4s, which others move."""
    sizes = {a.name: a.array.size for a in report.raw.arguments if a.array is not None and a.array.itemsize == 4}
    wide = [use for use in report.lines if use.space == "global" and use.size == 16]
    whole = {use.name: use.line for use in wide[::-1]}  # the first line of each
    for use in report.lines:
        if use.space == "global" and use.size == 4 and use.name in whole and sizes[use.name] % 4 == 0:
            moved, count = f"Line {use.line} {use.access} 4 bytes at a time", f"{sizes[use.name]:,} numbers"
            if use.lanes >= sizes[use.name] and "if" not in surroundings(report.raw.code, use.line):
                return f"{moved}, all of its {count}: move whole float4s there, too, as in line {whole[use.name]}."
            return f"{moved}, although its {count} are whole float4s: which condition sends a thread there?"
    return ""


def _narrow(report) -> str:
    """A sentence if no access to global memory is as wide as a float4; else ""."""
    items = {each.name: each.array.itemsize for each in report.raw.arguments if each.array is not None}
    uses = [use for use in report.lines if use.space == "global"]
    width = max((use.size for use in uses), default=WIDE)
    if width >= WIDE:
        return ""
    widest = [use for use in uses if use.size == width]
    vector = "float4" if {items.get(use.name, 4) for use in widest} == {4} else "uint4"
    if width == 4 and widest == uses and vector == "float4":
        return "Each access moves one float of 4 bytes: a float4 moves four of them."
    lines = sorted({use.line for use in widest})
    where = f"Line{'s' * (len(lines) > 1)} {_and(map(str, lines))} move{'s' * (len(lines) == 1)}"
    return f"{where} {width} bytes at a time: 16 are possible, with a {vector}."


def _in_fours(report, uses) -> str:
    """A sentence if each thread takes some neighbouring floats one by one, and the next thread goes on from there."""
    if report.raw.trace is None or "slots" not in MODELS.get(report.raw.kernel, ""):  # ours has no float4
        return ""
    for use in uses:
        if use.space != "global" or use.size != 4 or use.sectors * GOOD <= use.ideal:
            continue
        argument = next(k for k, each in enumerate(report.raw.arguments) if each.name == use.name)
        first, second = (_taken(report, argument, use.write, thread) for thread in (0, 1))
        count = len(first)
        if (
            2 <= count <= 4
            and list(first) == list(range(first[0], first[0] + count))
            and list(second) == [place + count for place in first]
        ):
            listed = _and([f"{use.name}[{place}]" for place in first])
            whole = "as one float4" if count == 4 else "together, as a vector, and better four of them, as a float4"
            verb = "write" if use.write else "read"
            return (
                f"Line {use.line}: thread 0 {verb}s {listed} one by one, 4 bytes at a time. It can {verb} them {whole}."
            )
    return ""


def _taken(report, argument, write, thread):
    """Which elements of an array a thread of the first block reads, or writes, in ascending order."""
    trace = report.raw.trace
    mine = trace[(trace["argument"] == argument) & (trace["write"].astype(bool) == write)]
    mine = mine[(mine["block"] == 0) & (mine["thread"] == thread)]
    return sorted({int(offset) // 4 for offset in mine["offset"]})


def _and(words) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last


def _busiest_line(report, limit) -> str:
    """The line that asks shared memory most often, and what to do where some requests are allowed."""
    busiest = max((use for use in report.lines if use.space == "shared"), key=lambda use: use.requests)
    if limit and (repeated := _repeated(report, busiest, limit)):
        return f"Line {busiest.line} makes {busiest.requests:,} of them. {repeated}"
    advice = " What a thread needs more than once it can keep in a variable, which is a register." if limit else ""
    if limit and busiest.size == 4 and set(SHARED.findall(mask(report.raw.code))) == {"float4"}:
        advice = " It moves 4 bytes at a time, and the array holds float4s: one request can move a whole one."
    elif limit and busiest.size == 4:
        advice += " The line moves 4 bytes at a time, where a float4 would bring four numbers."
    return f"Line {busiest.line} makes {busiest.requests:,} of them.{advice}"


def _repeated(report, busiest, limit) -> str:
    """A sentence if the only block reads an array several times over, and the busiest line would do with one time."""
    arrays = {a.name: a.array for a in report.raw.arguments if a.array is not None}
    read = Counter()
    for use in report.lines:
        if use.space == "global" and not use.write and use.name in arrays:
            read[use.name] += use.lanes * use.size
    often = {name: moved // arrays[name].nbytes for name, moved in read.items()}
    name = max(often, key=often.get, default="")
    times = often.get(name, 0)
    once = components.shared_requests(report) - busiest.requests * (times - 1) / max(1, times)
    if math.prod(report.raw.grid) > 1 or times < 2 or once > limit:
        return ""
    return f"The one block of this launch reads {name} {times} times over: can one loop over its tiles do?"


def _apart(report, some) -> str:
    """A sentence about the line that wastes most, with what two neighbours ask for where that was recorded."""
    uses = [use for use in some if use.space == "global" and use.sectors * GOOD > use.ideal]
    if not uses:
        return ""
    wasted = Counter()  # {line: sectors}; a line may move several arrays
    for use in uses:
        wasted[use.line] += use.sectors - use.ideal
    worst = max(uses, key=lambda use: (wasted[use.line], use.sectors - use.ideal))
    first, second = _neighbours(report, worst)
    if first:
        verb = "writes" if worst.write else "reads"
        rule = _detour(report, worst) or "Neighbouring threads should take neighbouring numbers, which share a sector."
        return f"In line {worst.line}, thread 0 {verb} {first} and thread 1 {second}. {rule}"
    each, enough = (round(count / worst.requests, 1) for count in (worst.sectors, worst.ideal))
    return f"In line {worst.line}, a warp's numbers lie in {each:g} sectors, where {enough:g} would hold them."


def _detour(report, worst) -> str:
    """What a kernel lacks that turns a matrix without shared memory: one of its two accesses lies apart, whichever."""
    uses = [use for use in report.lines if use.space == "global"]
    arrays = {each.name: each.array for each in report.raw.arguments if each.array is not None}
    if len(report.lines) != 2 or len(uses) != 2 or SHARED.search(mask(report.raw.code)):
        return ""
    shapes = [np.shape(arrays.get(use.name)) for use in uses]
    if uses[0].write == uses[1].write or len(shapes[0]) != 2 or shapes[0] != shapes[1][::-1]:
        return ""
    (other,) = (use for use in uses if use is not worst)
    if other.sectors * GOOD > other.ideal:
        return ""
    verb = "written" if other.write else "read"
    return (
        f"Neighbouring threads should take neighbouring numbers; with rows and columns exchanged, {other.name} would "
        f"be {verb} apart instead. Let a tile pass through shared memory: each thread puts a number of a row "
        "there, waits for the others, and takes one of a column."
    )


def _neighbours(report, use) -> tuple[str, str]:
    """What the first two threads of the launch touch first in that array; "" if that is not known, or side by side."""
    trace, arguments = report.raw.trace, report.raw.arguments
    argument = next((k for k, each in enumerate(arguments) if each.name == use.name and each.array is not None), None)
    if trace is None or argument is None:
        return "", ""
    mine = trace[(trace["argument"] == argument) & (trace["write"].astype(bool) == use.write) & (trace["block"] == 0)]
    mine = mine[np.isin(mine["pc"], [pc for pc in np.unique(mine["pc"]) if report.line_of(int(pc)) == use.line])]
    firsts = [mine[mine["thread"] == thread] for thread in (0, 1)]
    if not all(len(each) for each in firsts):
        return "", ""
    offsets, size = [int(each["offset"][0]) for each in firsts], int(firsts[0]["size"][0])
    if abs(offsets[1] - offsets[0]) <= size:
        return "", ""
    array = arguments[argument].array
    return tuple(element(use.name, array, offset, size) for offset in offsets)


def _often(report) -> str:
    """A sentence about the line that alone writes an array, and several times over; else ""."""
    sizes = {a.name: a.array.nbytes for a in report.raw.arguments if a.array is not None}
    writes = [use for use in report.lines if use.space == "global" and use.write and not use.atomic]
    for use in writes:
        times = use.lanes * use.size / sizes.get(use.name, np.inf)
        if times >= 2 and sum(other.name == use.name for other in writes) == 1:
            return f"Line {use.line} writes {times:g} times as many numbers as {use.name} has: each is needed once."
    return ""


def _again(report, some) -> str:
    """A sentence about an array that passes through global memory in more than one line; else ""."""
    lines, names = {}, {use.name for use in some}
    for use in report.lines:
        if use.space == "global" and use.name in names:
            lines.setdefault(use.name, {}).setdefault(use.line, use.sectors)
    name = max(lines, key=lambda name: sum(lines[name].values()) - max(lines[name].values()), default=None)
    if name is None or len(lines[name]) < 2:
        return ""
    *some, last = sorted(lines[name])
    where = f"{', '.join(map(str, some))} and {last}"
    kept = "can fewer of them do, one loop in place of two, or with what is needed again kept on the chip"
    return f"{name} passes through global memory in lines {where}: {kept}?"
