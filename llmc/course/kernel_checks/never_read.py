"""Numbers of an input that no thread reads, although others of it are read: one for each row, say."""

import numpy as np

from llmc.course.kernel_checks import shares

UNEXPLAINED = " has wrong values."  # in the message of a check that has found no mistake


def never_read(report) -> list[str]:
    """A sentence if a stretch of arrays of one axis, such as mean and rstd, or rows of a matrix, are read by nobody."""
    touched, found = shares.accessed(report, written=False), []
    for k, argument in enumerate(report.raw.arguments):
        array = argument.array
        if array is None or array.ndim not in (1, 2) or array.dtype.kind != "f":
            continue
        row = array[0].size  # of a matrix; 1 for a number
        missing = np.setdiff1d(np.arange(array.size), touched[touched[:, 0] == k, 1])
        rows = np.unique(missing // row)
        stretch = len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(missing) == len(rows) * row
        if stretch and len(missing) < array.size:
            first, last = (f"{argument.name}[{rows[at]}]" for at in (0, -1))
            found.append(first if first == last else f"{first} to {last}")
    return [f"No thread reads {' or '.join(found)}."] if found and len(touched) else []
