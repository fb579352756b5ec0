"""Which thread handled which numbers: how a launch shared its work, from the accesses that the emulator recorded."""

import numpy as np


def rewrites(report) -> int:
    """Writers beyond the first, summed over all elements; a thread may write its own element again.

    A launch that is too large to be recorded has only counts: then it is the writes beyond the first.
    """
    if report.raw.trace is None:
        return _written_again(report)
    touched = accessed(report, written=True)
    return len(touched) - len(np.unique(touched[:, :2], axis=0))


def busiest(report) -> int:
    """The most elements of one array that a single thread reads or writes; 0 for a launch that is not recorded."""
    touched = accessed(report, written=False)
    return int(np.unique(touched[:, [0, 2]], axis=0, return_counts=True)[1].max(initial=0))


def accessed(report, written):
    """Each (argument, element, thread) once, of all accesses to the launch's arrays or of the writes; (n, 3) ints."""
    trace, arguments = report.raw.trace, report.raw.arguments
    if trace is None:
        return np.empty((0, 3), np.int64)
    trace = trace[(trace["argument"] >= 0) & (trace["write"].astype(bool) | (not written))]
    thread = trace["block"].astype(np.int64) * int(np.prod(report.raw.block)) + trace["thread"]
    itemsize = np.array([a.array.itemsize if a.array is not None else 1 for a in arguments], np.int64)
    first, each = trace["offset"] // itemsize[trace["argument"]], trace["size"] // itemsize[trace["argument"]]
    found = []
    for k in range(int(each.max(initial=0))):  # a float4 is four elements
        there = each > k
        found.append(np.stack([trace["argument"][there], first[there] + k, thread[there]], axis=1))
    return np.unique(np.concatenate(found), axis=0) if found else np.empty((0, 3), np.int64)


def _written_again(report) -> int:
    """Writes beyond the first to each element of the arrays that the launch wrote, whoever made them."""
    arrays, written = report.raw.arguments, {}
    for use in report.raw.accesses:
        if use.write and use.space == "global" and use.argument >= 0:
            each = use.size // arrays[use.argument].array.itemsize  # 4 for a float4
            written[use.argument] = written.get(use.argument, 0) + use.lanes * each
    return sum(max(0, count - arrays[k].array.size) for k, count in written.items())


def line_that_reads(report, argument, element, target=None) -> int:
    """The line that reads this element of the array, alone; 0 where nothing was recorded, and for a float4.

    target: (argument, element) of what is written then; it is the line where its thread, or else its block, reads it.
    """
    trace = report.raw.trace
    if trace is None:
        return 0
    trace = np.sort(trace, order="step")
    rows = touches(report, trace, argument, element, write=False)
    rows = rows[rows["size"] == report.raw.arguments[argument].array.itemsize]  # which line takes it out of a float4?
    if target is not None:
        written = touches(report, trace, *target, write=True)[-1:]
        rows = rows[np.isin(rows["block"], written["block"]) & (rows["step"] < written["step"].max(initial=0))][::-1]
        own = rows[np.isin(rows["thread"], written["thread"])]
        rows = own if len(own) else rows
    return report.line_of(int(rows["pc"][0])) if len(rows) else 0


def read_by_its_warp(report, source, target) -> bool:
    """Does a thread of a warp that writes `target` read `source`? Both are (argument, element)."""
    trace = report.raw.trace
    if trace is None:
        return False
    warps = [
        {(int(block), int(thread) // 32) for block, thread in zip(rows["block"], rows["thread"])}
        for rows in (touches(report, trace, *source, write=False), touches(report, trace, *target, write=True))
    ]
    return bool(warps[0] & warps[1])


def touches(report, trace, argument, element, write):
    """Those of the accesses that read, or write, one element of an array."""
    size = report.raw.arguments[argument].array.itemsize
    first, end = trace["offset"] // size, (trace["offset"] + trace["size"]) // size
    kind = (trace["argument"] == argument) & (trace["write"].astype(bool) == write)
    return trace[kind & (first <= element) & (element < end)]
