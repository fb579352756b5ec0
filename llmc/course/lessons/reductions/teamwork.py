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
    if lanes < 2 * requests:
        why = "One thread at a time asks for one number. Let the threads share the row: neighbours take neighbours."
    elif sectors < 2 * requests:
        why = "All threads of a warp ask for the same number, so all do the same work. Let each take its own share."
    else:
        why = "Several warps read the same numbers, or a loop reads them again. Let each thread take its own share."
    asked = f"the warps read from global memory {requests / rows:,.0f} times a row, where {most:,.0f} times are enough"
    raise _wasteful(report, asked, why, where)


def added_together(report, rows, most, where):
    """Wasteful if warps make more than `most` requests a row to shared memory: one thread adds what others left."""
    requests = sum(use.requests for use in report.lines if use.space == "shared") / rows
    if requests > most:
        asked = f"the warps make {requests:,.0f} requests a row to shared memory, where a tree makes about 50"
        why = (
            "Does one thread add up what all threads have left? In a tree, many threads add side by side in each step."
        )
        raise _wasteful(report, asked, why, where)


def written_once(report, numbers, where):
    """Wasteful if more than that many numbers are written to global memory."""
    writes = sum(use.lanes for use in report.lines if use.space == "global" and use.write)
    if writes > numbers:
        asked = f"each result is written {writes / numbers:,.0f} times"
        raise _wasteful(report, asked, "Many threads may have it, but only one of them should write it.", where)


def _wasteful(report, sentence, advice, where):
    """Right, but; with the counts of every line."""
    return Wasteful("\n".join([f"right, but {sentence}.", advice, report.table(), f"→ Where to look: {where}."]))
