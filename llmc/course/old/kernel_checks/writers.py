"""Who wrote an array of which elements are missing: threads that meet in one place, blocks that write nothing."""

import math

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.cuda.emulator.findings.places import element, plural, thread, triple


def seen_of_writers(report) -> str:
    """A sentence about the array of the first "never-written"; "" where nothing shows, or nothing was recorded."""
    missing = next(p for p in report.raw.problems if p.kind == "never-written")
    argument = report.raw.arguments[missing.argument]
    if report.raw.trace is None or missing.argument < 0 or argument.array is None:
        return ""
    written = shares.accessed(report, written=True)
    written = written[written[:, 0] == missing.argument, 1:]  # (n, 2): element, thread
    return _met(report, written, argument) or _idle_block(report, written, argument)


def _met(report, written, argument) -> str:
    """Two threads that write one element."""
    elements, writers = np.unique(written[:, 0], return_counts=True)
    if not (writers > 1).any() or (writers > 1).all():  # if all have, each number is meant to have several
        return ""
    place = int(elements[writers > 1][0])
    first, second = (named(report, number) for number in written[written[:, 0] == place, 1][:2])
    size = argument.array.itemsize
    what = element(argument.name, argument.array, place * size, size)
    return f"Others have two writers: {first} and {second} both write {what}. Work out the index of these two."


def _idle_block(report, written, argument) -> str:
    """A block that writes nothing of the array, if enough is missing for it: the last one may have nothing to write."""
    threads, blocks, name = math.prod(report.raw.block), math.prod(report.raw.grid), argument.name
    busy, shares = np.unique(written[:, 1] // threads, return_counts=True)
    idle = np.setdiff1d(np.arange(blocks), busy)
    missing = argument.array.size - len(np.unique(written[:, 0]))
    if not len(idle) or not len(busy) or 2 * missing < len(idle) * shares.min():
        return ""
    first = triple(_coordinates(int(idle[0]), report.raw.grid))
    more = f", nor of {plural(len(idle) - 1, 'other block')}," * (len(idle) > 1)
    return f"No thread of block {first}{more} writes anything to {name}: which elements should that block write?"


def named(report, number) -> str:
    """ "thread (3, 0, 0) of block (1, 0, 0)" of its number in the launch."""
    block, lane = divmod(int(number), math.prod(report.raw.block))
    return thread(_coordinates(lane, report.raw.block), _coordinates(block, report.raw.grid))


def _coordinates(number, size) -> tuple:
    """(x, y, z) of a thread or a block, counted with x first."""
    return number % size[0], number // size[0] % size[1], number // (size[0] * size[1])
