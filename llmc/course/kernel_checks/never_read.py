"""Numbers of an input that no thread reads, although others of it are read: one for each row, say."""

import numpy as np

from llmc.course.kernel_checks import shares

UNEXPLAINED = " has wrong values."  # in the message of a check that has found no mistake


def never_read(report) -> list[str]:
    """A sentence if a stretch of arrays of one axis, such as mean and rstd, is read by nobody."""
    touched, found = shares.accessed(report, written=False), []
    for k, argument in enumerate(report.raw.arguments):
        array = argument.array
        if array is None or array.ndim != 1 or array.dtype.kind != "f":
            continue
        missing = np.setdiff1d(np.arange(array.size), touched[touched[:, 0] == k, 1])
        if 0 < len(missing) < array.size and missing[-1] - missing[0] + 1 == len(missing):
            first, last = (f"{argument.name}[{missing[at]}]" for at in (0, -1))
            found.append(first if first == last else f"{first} to {last}")
    return [f"No thread reads {' or '.join(found)}."] if found and len(touched) else []
