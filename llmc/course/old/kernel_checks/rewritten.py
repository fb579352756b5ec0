"""Elements that several threads write: which ones, in which line, and by how many threads."""

import math
import re

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.cuda.emulator.compiling.text import line_at, mask
from llmc.cuda.emulator.findings.loops import end_after

LOOP = re.compile(
    r"\bfor\s*\(\s*(?:(?:\w+\s+)*\w+\s*=(?P<start>[^;]*))?;\s*(?P<i>\w+)\s*<(?P<end>[^;]*);\s*(?P=i)\s*\+=\s*blockDim\.x\s*\)"
)
DECLARED = re.compile(r"\b(\w+)\s*=\s*([^;,=]*blockIdx[^;,=]*)[;,]")
WHOLE_NUMBER = re.compile(
    r"(?:blockIdx\.x\*blockDim\.x|blockDim\.x\*blockIdx\.x)\+threadIdx\.x"
    r"|threadIdx\.x\+(?:blockIdx\.x\*blockDim\.x|blockDim\.x\*blockIdx\.x)"
)
GENERAL = "Each number belongs to one thread."


def by_several(report) -> str:
    """A sentence about them; general advice where the launch is too large to be recorded."""
    if told := _loop_of_one_block(report):
        return told
    found = shares.accessed(report, written=True)  # (n, 3): argument, element, thread
    if not len(found):
        return GENERAL
    places, writers = np.unique(found[:, :2], axis=0, return_counts=True)
    several = places[writers > 1]
    if told := _step_too_small(report, several[0, 0]):
        return told
    first = several[several[:, 0] == several[0, 0]]
    argument, elements = report.raw.arguments[first[0, 0]], first[:, 1]
    size = argument.array.size
    most = int(writers[writers > 1].max())
    whole = len(np.unique(places[places[:, 0] == first[0, 0], 1]))
    if len(elements) == whole:
        what = f"All {size:,} numbers of {argument.name} are" if whole == size else f"{argument.name} is"
        told = f"{what} written by {_up_to(most, writers[writers > 1])} threads each"
        return f"{told}{_lines(report, first)}. {GENERAL}"
    last = int(elements[-1])
    run = len(elements) == last - int(elements[0]) + 1
    what = f"{argument.name}[{elements[0]}]" + (f" to {argument.name}[{last}]" if run and len(elements) > 1 else "")
    more = f" and {len(elements) - 1:,} others" if not run else ""
    verb = "is" if len(elements) == 1 else "are"
    told = f"{what}{more} {verb} written by {_up_to(most, writers[writers > 1])} threads{_lines(report, first)}"
    if run and last == size - 1 and len(elements) == size % 4:
        return (
            f"{told}, the others by one: the last numbers, behind the whole vectors, need one thread, too, or one each."
        )
    return f"{told}, the others by one."


def _loop_of_one_block(report) -> str:
    """A sentence about a loop around what is written that begins at the thread's number in the grid and goes on in
    steps of one block.
    """
    text = mask(report.raw.code)
    begins = {name for name, value in DECLARED.findall(text) if WHOLE_NUMBER.fullmatch("".join(value.split()))}
    written = [use.line for use in report.lines if use.write and use.space == "global"]
    for match in LOOP.finditer(text):
        start, line = "".join((match["start"] or match["i"]).split()), line_at(text, match.start())
        last = line_at(text, end_after(text, match.start()) - 1)
        own = any(
            re.search(rf"\b{name}\s*=(?!=)", text) for name in re.findall(r"\w+", match["end"])
        )  # it may end before
        whole = start in begins or WHOLE_NUMBER.fullmatch(start)
        if whole and not own and any(line <= use <= last for use in written):
            return (
                f"The loop on line {line} begins at the thread's number in the grid and goes on in steps of one block, "
                "so each block also does the numbers of the blocks behind it. If a thread has one number, there is "
                "nothing to repeat; if it has several, the step is the whole grid, gridDim.x * blockDim.x."
            )
    return ""


def _step_too_small(report, argument) -> str:
    """A sentence if a thread that writes several numbers at once goes on by as many as there are threads; else ""."""
    trace, size = report.raw.trace, report.raw.arguments[argument].array.itemsize
    rows = np.sort(trace[(trace["argument"] == argument) & trace["write"].astype(bool)], order="step")
    rows = rows[(rows["block"] == 0) & (rows["thread"] == 0)]
    threads = math.prod(report.raw.grid) * math.prod(report.raw.block)
    each, steps = rows["size"] // size, np.diff(rows["offset"].astype(np.int64)) // size
    if not len(steps) or (each != each[0]).any() or each[0] < 2 or (steps != threads).any():
        return ""
    line = report.line_of(int(rows["pc"][0]))
    at = f" (line {line})" if line else ""
    return (
        f"A thread writes {each[0]} numbers at a time{at} and then goes on by {threads:,}, "
        f"the number of all threads, to what another thread writes, too. All threads together write {each[0]} times as "
        f"many in a turn: that is the step, {each[0]} * gridDim.x * blockDim.x."
    )


def _up_to(most, writers) -> str:
    return f"{most:,}" if (writers == most).all() else f"up to {most:,}"


def _lines(report, places) -> str:
    """ " (line 13)" where all of these writings are in one line."""
    here = shares.touches(report, report.raw.trace, *places[0], write=True)
    lines = {report.line_of(int(pc)) for pc in np.unique(here["pc"])} - {0}
    return f" (line {lines.pop()})" if len(lines) == 1 else ""
