"""Numbers of an input that no thread reads, although others of it are read: one for each row, say.

The compiler leaves out a read whose number nothing is made of, so a sentence speaks of results, not of reads.
"""

import re

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.cuda.emulator.compiling.text import line_at, statements
from llmc.cuda.emulator.findings.vectors import VECTORS

COUNTS_FOURS = "counts float4s"  # in the sentence on an index
UNEXPLAINED = " has wrong values."  # in the message of a check that has found no mistake


def never_read(report) -> list[str]:
    """A sentence if a stretch of arrays of one axis, such as mean and rstd, or rows of a matrix, are read by nobody."""
    touched, found, fours = shares.accessed(report, written=False), [], []
    for k, argument in enumerate(report.raw.arguments):
        array = argument.array
        if array is None or array.ndim not in (1, 2) or array.dtype.kind != "f":
            continue
        row = array[0].size  # of a matrix; 1 for a number
        missing = np.setdiff1d(np.arange(array.size), touched[touched[:, 0] == k, 1])
        rows = np.unique(missing // row)
        stretch = len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(missing) == len(rows) * row
        if stretch and len(missing) < array.size:
            found.append(_named(argument.name, int(rows[0]), int(rows[-1]), row > 1))
            fours += _as_float4s(report.raw.code, argument.name) if 4 * len(missing) == 3 * array.size else []
    return [f"No result uses {' or '.join(found)}.", *fours[:1]] if found and len(touched) else []


def _named(name, first, last, of_rows) -> str:
    """ "mean[1] to mean[4]", "rows 9 to 10 of dout"."""
    if of_rows:
        return f"row {first} of {name}" if first == last else f"rows {first} to {last} of {name}"
    return f"{name}[{first}]" if first == last else f"{name}[{first}] to {name}[{last}]"


def _as_float4s(code, name) -> list[str]:
    """A sentence if single floats are read by an index that counts float4s, so only the first quarter of them is."""
    text = statements(code)
    vectors = {*VECTORS.findall(text)} - {name}
    for match in re.finditer(rf"(?<![\w.>)]){name}\s*\[\s*(\w+)\s*\]", text):
        counted = [m for v in vectors for m in re.finditer(rf"\b{v}\s*\[\s*{match[1]}\s*\]", text)]
        if counted:
            nearest = min(counted, key=lambda other: abs(other.start() - match.start()))
            mine, its = ("".join(each[0].split()) for each in (match, nearest))
            return [
                f"Line {line_at(text, match.start())}: `{mine}` is a single float, but `{match[1]}` {COUNTS_FOURS}, as "
                f"in `{its}`. Four of {name} belong to it, from `{name}[4 * {match[1]}]` on."
            ]
    return []
