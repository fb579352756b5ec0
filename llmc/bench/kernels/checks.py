"""Is a kernel right? And, on the emulator, how much does it move?"""

from contextlib import contextmanager

import numpy as np

from llmc import cuda
from llmc.backends import Backend, reference
from llmc.bench.kernels.cases import Numbers
from llmc.kernels import ladder

SECTOR = 32  # bytes


def check(group, sizes) -> list[dict]:
    """A row for each version of a function: {"kernel", "error", "right", …} and, on the emulator, how much it moved."""
    case = group[0].make(sizes, Numbers(cuda.xp))
    host = {name: cuda.asnumpy(a).copy() if hasattr(a, "shape") else a for name, a in case.arguments.items()}
    doubles = {name: in_double(a) for name, a in host.items()}
    expected = results(case.expected or getattr(Backend(reference), group[0].function), case, doubles)
    rows = []
    for version in group:
        arguments = {name: cuda.asarray(a.copy()) if hasattr(a, "shape") else a for name, a in host.items()}
        with inspected(version.launches_by) as reports:
            got = results(version.launch, case, arguments)
        error = max(difference(cuda.asnumpy(mine), theirs) for mine, theirs in zip(got, expected))
        row = {"kernel": version.name, "layer": version.layer, "device": "emulator", "shape": case.shape}
        row |= {"bytes": case.nbytes, "flops": case.flops, "error": error, "right": error <= version.agree}
        rows.append(row | (moved(reports, case) if reports else {}))
        if problems := set().union(*(report.kinds for report in reports)):
            rows[-1] |= {"right": False, "problems": sorted(problems)}
    return rows


def results(function, case, arguments) -> list:
    """The arrays that a call wrote, or what it returned."""
    returned = function(**arguments)
    return [arguments[name] for name in case.written] or [
        returned if hasattr(returned, "shape") else np.array([returned])
    ]


def difference(got, expected) -> float:
    """The largest |difference| divided by the largest |expected|; infinite if anything is NaN or infinite."""
    got, expected = _exact(got), _exact(expected)
    worst, largest = float(abs(got - expected).max()), float(abs(expected).max())
    return worst / (largest or 1.0) if worst < np.inf else np.inf  # NaN < inf is false


def _exact(a):
    """A 16-bit array in float32; any other array unchanged."""
    return a.astype(np.float32) if a.dtype.itemsize == 2 else a


def in_double(a):
    """An array of floats in float64; whole numbers, and anything else, unchanged."""
    return a.astype(np.float64) if hasattr(a, "shape") and a.dtype.kind not in "iu" else a


# ------------------------------------------------------------------------------------------------ what a kernel moves


class Inspected:
    """An emulated kernel that appends the report of each launch to a list."""

    def __init__(self, kernel, seen):
        self.__dict__.update(kernel=kernel, seen=seen)

    def __call__(self, grid, block, args, shared_mem=0):
        self.seen.append(cuda.inspect(self.kernel, grid, block, args, shared_mem))

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def __setattr__(self, name, value):
        setattr(self.kernel, name, value)


@contextmanager
def inspected(module):
    """Inspect what this module of llmc.kernels launches inside the block. Yields the reports; none on a GPU."""
    seen, theirs = [], {place: place.kernel for place in {module, ladder}}  # where steps are launched
    if cuda.device() == "emulator":
        for place, kernel in theirs.items():
            place.kernel = lambda *which, kernel=kernel: Inspected(kernel(*which), seen)
    try:
        yield seen
    finally:
        for place, kernel in theirs.items():
            place.kernel = kernel


def moved(reports, case) -> dict:
    """Sectors, in total and relative to the ideal and to the bytes needed; bank conflicts; most barriers in a block."""
    sectors, ideal = (sum(getattr(report, name) for report in reports) for name in ("sectors", "ideal_sectors"))
    return {
        "launches": len(reports),
        "sectors": sectors,
        "over_ideal": sectors / ideal,
        "over_needed": SECTOR * sectors / case.nbytes,
        "bank_conflicts": sum(report.bank_conflicts for report in reports),
        "barriers": max(report.barriers / max(1, report.raw.blocks_run) for report in reports),
    }
