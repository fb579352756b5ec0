"""What a wrong launch left behind, and whether the launch of a model leaves the same."""

import re

import numpy as np

from llmc.course.old.kernel_checks import shares

PLACE = re.compile(r"(?:reads|writes) (?:\d+ bytes of )?(\w+)(?:\[(\d+)\]|, elements (\d+))")  # in a report
ALIKE = re.compile(r"the first of (\d+) threads")
CLOSE = dict(rtol=1e-3, atol=1e-4)


class Seen:
    """names: of the kernel's parameters. before: its arguments, NaN in outputs; after: what they hold now.

    report: None for a launch that was right. exact: does it matter which thread writes what, as where threads race?
    roughly: only the arrays with problems matter, as where blocks come in any order, and not which thread was first.
    """

    def __init__(self, names, before, after, report=None, exact=False, roughly=False):
        self.names, problems = names, report.problems if report else []
        self._roughly = roughly
        self.before, self.after = before, after
        self.outside = {_first_outside(p) for p in problems if p.kind == "out-of-bounds"}
        self.raced = {p.where.split(" ")[0] for p in problems if p.kind == "race"}  # {"out[3]"}
        self.rewrites = shares.rewrites(report) if report else None
        self._writers = _writers(report) if self.raced or exact else None

    def like(self, launch, ours) -> bool:
        """Are unwritten elements, accesses outside, races and numbers those of a masked Launch? ours: its arguments."""
        again = launch.rewritten()  # [(name, element)]
        raced = {f"{name}[{element}]" for name, element in again}
        outside = {*launch.outside()}
        alike = self._exactly(launch, again, raced, outside)
        if self._roughly and not alike:
            theirs, mine = ({name for name, *_ in each} for each in (self.outside, outside))
            alike = theirs <= mine and self.raced <= raced  # a thread ends where it first goes outside
            alike = alike and (bool(theirs), bool(self.raced)) == (bool(mine), bool(raced))
        arrays = zip(self.names, self.before, self.after, ours, strict=True)
        return alike and all(
            self._same(launch.written(name, mine.size), again, name, before, after, mine)
            for name, before, after, mine in arrays
            if isinstance(mine, np.ndarray) and mine.dtype.kind == "f"
        )

    def _exactly(self, launch, again, raced, outside) -> bool:
        if self.rewrites not in (None, len(again)) or not self.raced <= raced or not self.outside <= outside:
            return False
        return not (outside and not self.outside) and self._writers in (None, launch.writers())

    def _same(self, written, again, name, before, after, mine) -> bool:
        """One array: where a race decides, or what was read outside, any number will do."""
        after, mine = after.reshape(-1), mine.reshape(-1)
        known, empty = written & ~np.isnan(mine), np.isnan(after)  # not known: what was read outside
        if np.isnan(before).all() and ((empty & known).any() or (~written & ~empty).any()):
            return False
        if not self.outside and np.isnan(before).all() and (written != ~empty).any():  # a NaN is not an empty place
            return False
        untouched = ~written & ~np.isnan(before.reshape(-1))
        if not self.outside and not np.array_equal(after[untouched], before.reshape(-1)[untouched]):
            return False
        if self.raced:
            known[[element for n, element in again if n == name]] = False
        return np.allclose(after[known], mine[known], **CLOSE)


def _writers(report) -> set | None:
    """{(array, element, thread)} of what was written; None for a launch that was not recorded."""
    if report.raw.trace is None:
        return None
    names = [argument.name for argument in report.raw.arguments]
    return {(names[k], int(element), int(thread)) for k, element, thread in shares.accessed(report, written=True)}


def _first_outside(problem):
    """(array, index, thread, block, how many threads), as `Launch.outside` has it; no array if it is none of them."""
    where, threads = PLACE.search(problem.text), ALIKE.search(problem.text)
    place = (where[1], int(where[2] or where[3])) if where else ("", 0)
    return (*place, problem.thread[0], problem.block[0], int(threads[1]) if threads else 1)
