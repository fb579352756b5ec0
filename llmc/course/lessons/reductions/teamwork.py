"""Lesson 13: do the threads of a block, the lanes of a warp, share the work? Told from what a report counts.

A kernel in which one thread does everything, or every thread does, may be right, move few sectors and have no conflict.
What gives it away is how often memory is asked: a request of a warp should be one for 32 numbers.
"""

from llmc.course.kernel_checks.words import Wasteful


def read_together(report, rows, most, where):
    """Wasteful when the warps read from global memory more than `most` times a row."""
    reads = [use for use in report.lines if use.space == "global" and not use.write]
    requests, lanes, sectors = (sum(getattr(use, what) for use in reads) for what in ("requests", "lanes", "sectors"))
    if requests <= most * rows:
        return
    if lanes < 2 * requests:
        why = "One thread at a time asks, for one number. Let the threads share the row: neighbours take neighbours."
    elif sectors < 2 * requests:
        why = "All threads of a warp ask for the same number, so all do the same work. Let each take its own share."
    else:
        why = "Several warps read the same numbers, or a loop reads them again. Let each thread take its own share."
    asked = f"the warps read from global memory {requests / rows:,.0f} times a row, where {most:,.0f} times are enough"
    raise _wasteful(report, asked, why, where)


def added_together(report, rows, most, where):
    """Wasteful when shared memory is asked more than `most` times a row: a thread adds alone what others left there."""
    requests = sum(use.requests for use in report.lines if use.space == "shared") / rows
    if requests > most:
        asked = f"the warps ask shared memory {requests:,.0f} times a row, where a tree asks some 50 times"
        why = "Does one thread add up what all have left? In each step of a tree half of the threads add, side by side."
        raise _wasteful(report, asked, why, where)


def written_once(report, numbers, where):
    """Wasteful when more than that many numbers are written to global memory."""
    writes = sum(use.lanes for use in report.lines if use.space == "global" and use.write)
    if writes > numbers:
        asked = f"each result is written {writes / numbers:,.0f} times"
        raise _wasteful(report, asked, "Many threads may have it; one of them is enough to write it.", where)


def _wasteful(report, sentence, advice, where):
    """Right, but; with the counts of every line."""
    return Wasteful("\n".join([f"right, but {sentence}.", advice, report.table(), f"→ Where to look: {where}."]))
