"""Lesson 13: do the threads of a block, or the lanes of a warp, share the work? The counts of a report show it.

A kernel in which one thread does everything, or every thread does, may be right, move few sectors and have no conflict.
What gives it away is the number of requests: each request of a warp should be for 32 numbers.
"""

from llmc.course.kernel_checks.demands import Wasteful


def read_together(report, rows, most, where):
    """Wasteful if the warps read from global memory more than `most` times a row."""
    reads = [use for use in report.lines if use.space == "global" and not use.write]
    requests, lanes, sectors = (sum(getattr(use, what) for use in reads) for what in ("requests", "lanes", "sectors"))
    if requests <= most * rows:
        return
    asked = f"the warps read from global memory {requests / rows:,.0f} times a row, where {most:,.0f} times are enough"
    each = f"On average {lanes / requests:.1f} of 32 threads ask, for numbers in {sectors / requests:.1f} sectors of 8"
    if lanes < 2 * requests:
        each = "One thread at a time asks for one number"
    elif sectors < 2 * requests:
        each = "All threads of a warp ask for the same number"
    raise _wasteful(report, f"{asked}.\n{each}", where)


def added_together(report, rows, most, where):
    """Wasteful if warps make more than `most` requests a row to shared memory: one thread adds what others left."""
    requests = sum(use.requests for use in report.lines if use.space == "shared") / rows
    if requests > most:
        asked = f"the warps make {requests:,.0f} requests a row to shared memory, where a tree makes about 50"
        raise _wasteful(report, f"{asked}.\nIn a tree, many threads add side by side in each step", where)


def written_once(report, numbers, where):
    """Wasteful if more than that many numbers are written to global memory."""
    writes = sum(use.lanes for use in report.lines if use.space == "global" and use.write)
    if writes > numbers:
        raise _wasteful(report, f"each result is written {writes / numbers:,.0f} times, where once is enough", where)


def _wasteful(report, sentence, where):
    """Right, but; with the counts of every line."""
    return Wasteful("\n".join([f"right, but {sentence}.", report.table(), f"→ Where to look: {where}."]))
