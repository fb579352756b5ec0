"""Elements that nothing has written although a thread came for them: a condition decides, not the index."""

import numpy as np

from llmc.course.old.kernel_checks import shares
from llmc.course.old.kernel_checks.writers import named

FEW = 4  # elements; the signs of fewer may agree with a pattern by chance
SIGNS = (("above 0", np.greater), ("0 or above", np.greater_equal), ("0 or below", np.less_equal), ("below 0", np.less))


def skipped(report) -> str:
    """A sentence if threads read the numbers that belong to unwritten elements, and then write nothing; else ""."""
    missing = next(p for p in report.raw.problems if p.kind == "never-written")
    arguments, trace = report.raw.arguments, report.raw.trace
    if trace is None or missing.argument < 0:
        return ""
    out, written = arguments[missing.argument].array, shares.accessed(report, written=True)
    empty = np.ones(out.size, bool)
    empty[written[written[:, 0] == missing.argument, 1]] = False
    for k, argument in enumerate(arguments):
        if k != missing.argument and argument.array is not None and argument.array.size == out.size:
            readers = _idle_readers(report, k, empty, written)
            if readers is not None:
                sign = _sign(argument.array.reshape(-1), empty)
                return _by_sign(sign, argument.name) if sign else _by_thread(report, readers, argument.name)
    return ""


def _idle_readers(report, argument, empty, written):
    """(element, thread) rows: who reads each element of an array that is empty in the output, and writes nothing.

    None unless every one of them has such a reader.
    """
    read = shares.accessed(report, written=False)
    idle = (read[:, 0] == argument) & ~np.isin(read[:, 2], written[:, 2])
    idle = read[idle][:, 1:]
    idle = idle[empty[idle[:, 0]]]
    return idle if len(np.unique(idle[:, 0])) == empty.sum() else None


def _sign(values, empty) -> str:
    """ "above 0", if exactly those elements are unwritten where the input is; else ""."""
    if min(empty.sum(), (~empty).sum()) < FEW:
        return ""
    return next((words for words, test in SIGNS if np.array_equal(test(values, 0), empty)), "")


def _by_sign(sign, name) -> str:
    return f"A thread comes to each of them, but writes nothing where {name} is {sign}: what should it do there?"


def _by_thread(report, readers, name) -> str:
    """What the thread of the first unwritten element does."""
    element, number = (int(n) for n in readers[0])
    return (
        f"The threads are there: {named(report, number)} reads {name}[{element}], but writes nothing. "
        "Which condition keeps it from writing?"
    )
