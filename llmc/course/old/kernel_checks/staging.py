"""Where in shared memory a number was put, and where it was looked for: from the accesses in their order."""

import re

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.cuda.emulator.compiling.text import mask


def through_shared(experiment, report, target, differ) -> list[str]:
    """A sentence if the number of `target`, (argument, element), was read from another place than the right one's.

    differ: one (argument, the element that was taken, the element that is right), each in a tuple.
    """
    trace = report.raw.trace
    if trace is None or len(differ) != 1:
        return []
    (source, _, (right,)), (k, element) = differ[0], target
    trace = np.sort(trace, order="step")
    written = shares.touches(report, trace, k, element, write=True)
    read = shares.touches(report, trace, source, right, write=False)
    if not len(written) or not len(read):
        return []
    looked = _nearest(trace, written[0], before=True)
    put = _nearest(trace, read[read["block"] == written[0]["block"]][:1], before=False)
    if looked is None or put is None or looked["offset"] == put["offset"]:
        return []
    places = [_place(report, each) for each in (put, looked)]
    lines = [report.line_of(int(each["pc"])) for each in (put, looked)]
    if not all(places) or not all(lines):
        return []
    was, taken = experiment.place(source, right), experiment.place(k, element)
    return [f"Line {lines[0]} puts {was} into {places[0]}; line {lines[1]} reads {places[1]} for {taken}."]


def _nearest(trace, access, before):
    """The last reading from shared memory before an access of the same thread, or the first writing after it."""
    access = access.reshape(-1)
    if not len(access):
        return None
    access = access[0]
    mine = trace[(trace["block"] == access["block"]) & (trace["thread"] == access["thread"])]
    mine = mine[mine["step"] < access["step"]][::-1] if before else mine[mine["step"] > access["step"]]
    if not len(mine) or mine[0]["argument"] >= 0 or bool(mine[0]["write"]) == before or mine[0]["size"] != 4:
        return None
    return mine[0]


def _place(report, access) -> str:
    """ "tile[1][4]" of an access to a static array of floats; "" if it is not known which."""
    offset = int(access["offset"])
    for array in report.raw.shared_arrays:
        if array.offset <= offset < array.offset + array.size:
            index = (offset - array.offset) // 4
            declared = re.search(rf"\b{array.name}((?:\[\d+\])+)", mask(report.raw.code))
            shape = [int(n) for n in re.findall(r"\d+", declared[1])] if declared else []
            if int(np.prod(shape)) * 4 != array.size:
                return f"{array.name}[{index}]" if not shape else ""
            return array.name + "".join(f"[{int(i)}]" for i in np.unravel_index(index, shape))
    return ""
