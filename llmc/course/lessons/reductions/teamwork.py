"""Lesson 13: do the threads of a block, or the lanes of a warp, share the work? The counts of a report show it.

A kernel in which one thread does everything, or every thread does, may be right, move few sectors and have no conflict.
What gives it away is the number of requests: each request of a warp should be for 32 numbers.
"""

from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer


def shared_work(c, rows, reads, sums=None):
    """WrongAnswer if warps read more than `reads` times a row, make more than `sums` requests to shared memory, or
    write a result more than once. c: the check, whose last launch is examined.
    """
    report = c.report
    asks = [use for use in report.lines if use.space == "global" and not use.write]
    requests, lanes, sectors = (sum(getattr(use, what) for use in asks) for what in ("requests", "lanes", "sectors"))
    if requests > reads * rows:
        told = f"the warps read from global memory {requests / rows:,.0f} times a row, where {reads:,.0f} are enough"
        each = f"On average {lanes / requests:.1f} of 32 threads ask, for numbers in {sectors / requests:.1f} sectors."
        each = "All threads of a warp ask for the same number." if sectors < 2 * requests else each
        _refuse(c, told, "One thread at a time asks for one number." if lanes < 2 * requests else each)
    shared = sum(use.requests for use in report.lines if use.space == "shared") / rows
    if sums is not None and shared > sums:
        told = f"the warps make {shared:,.0f} requests a row to shared memory, where a tree makes about 50"
        _refuse(c, told, "In a tree, many threads add side by side in each step.")
    written = sum(use.lanes for use in report.lines if use.space == "global" and use.write)
    if sums is not None and written > rows:
        _refuse(c, f"each result is written {written / rows:,.0f} times, where once is enough", "")


def _refuse(c, told, more):
    """ "Right, but …", with the counts of every line."""
    how = {"look": c.exercise.look_for("efficiency"), "table": c.report.table().splitlines()}
    raise WrongAnswer(f"right, but {told}", Kind.DEMAND, more=[more] * bool(more), **how)
