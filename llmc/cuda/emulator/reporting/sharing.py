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
