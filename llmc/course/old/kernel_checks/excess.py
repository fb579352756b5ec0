"""What a launch moves more than our solution's of the same arguments, array by array: the excess that a demand counts.

Our solution has accesses of its own whose sectors are not all used; to change those in a kernel would not help it.
"""

from collections import Counter

MORE = 1.02  # times as many: less may be how a tail is done
FEW = 2  # arrays that a sentence names


def of_sectors(report, ours) -> dict:
    """{(array, is it written?): (sectors here, in our solution's report)} of arrays with more of them."""
    mine, theirs = _sectors(report), _sectors(ours)
    more = {key: count for key, count in mine.items() if count > MORE * theirs[key]}
    return {(report.raw.arguments[k].name, write): (count, theirs[k, write]) for (k, write), count in more.items()}


def named(more) -> str:
    """ "480 sectors of k are read, and 256 in our solution." of what `of_sectors` has found, the most first."""
    most = sorted(more.items(), key=lambda each: each[1][1] - each[1][0])[:FEW]
    told = []
    for (name, write), (mine, theirs) in most:
        verb, other = "written" if write else "read", f"{theirs:,}" if theirs else "none"
        told.append(f"{mine:,} sectors of {name} are {verb}, and {other} in our solution")
    return f"{'; '.join(told)}." if told else ""


def shared(report, ours) -> str:
    """A sentence if the shared memory is written by far more requests than in our solution; else ""."""
    mine, theirs = (sum(use.requests for use in r.lines if use.space == "shared" and use.write) for r in (report, ours))
    if not theirs or mine < 2 * theirs:
        return ""
    return f"Shared memory is written with {mine:,} requests of a warp, and with {theirs:,} in our solution."


def _sectors(report) -> Counter:
    """{(argument, is it written?): sectors}"""
    found = Counter()
    for access in report.raw.accesses:
        if access.space == "global" and access.argument >= 0:
            found[access.argument, access.write] += access.sectors
    return found
