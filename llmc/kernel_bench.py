"""`llmc bench --kernels [NAME]`: every version of every kernel in llmc/kernels: is it right, and how near to the limit?

On a GPU: µs of a launch at the sizes of GPT-2 124M, and the share of the limit: a large copy or the library's float32
product, whichever bounds the kernel, both measured in the same run. On the emulator: what it moves, at small sizes.
Right means: as the "numpy" backend in float64 to 1e-5 of the largest element, and at the timed size as version 1.
"""

import json
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.backends import reference
from llmc.errors import UserError
from llmc.kernel_cases import GPT2, MAKERS, ONE_ROW, SMALL, Numbers
from llmc.kernel_times import limits, microseconds, name_of_gpu
from llmc.kernels import LAYERS

AGREE = 1e-5  # of the largest element
ROTATE = 256 << 20  # bytes: sets of arrays take turns until they are this many, so that no cache holds them
SECTOR = 32  # bytes


class Version(NamedTuple):
    """One version of a contract function; number None: by the library, as llmc multiplies."""

    layer: str
    function: str
    number: int | None

    @property
    def name(self) -> str:
        """ "layernorm_forward_v3", "matmul_forward_library"."""
        return f"{self.function}_v{self.number}" if self.number else f"{self.function}_library"

    def launch(self, *arguments):
        """Call it; what it returns."""
        return getattr(self.module, self.function)(*arguments, version=self.number)

    @property
    def module(self):
        """llmc.kernels.<layer>."""
        return import_module(f"llmc.kernels.{self.layer}")


def versions(name="all") -> list[Version]:
    """All, or those of a layer ("layernorm"), a function ("layernorm_forward"), or one ("layernorm_forward_v3").

    The library's products are among them on a GPU alone. Raises UserError for a name that there is not.
    """
    found = []
    for layer in LAYERS:
        for function, last in import_module(f"llmc.kernels.{layer}").VERSIONS.items():
            numbers = [*range(1, last + 1)] + [None] * (layer == "matmul" and cuda.device() == "gpu")
            found += [Version(layer, function, number) for number in numbers]
    wanted = [v for v in found if name in ("all", v.layer, v.function, v.name)]
    if not wanted:
        functions = ", ".join(dict.fromkeys(v.function for v in found))
        raise UserError(
            f"there is no kernel {name!r}; choose one of {functions}, or one version of it, as in gelu_forward_v1."
        )
    return wanted


def run(name: str, as_json: bool) -> int:
    """Measure and print; 1 when a kernel is wrong, else 0."""
    chosen = versions(name)
    rows = []
    for row in measure(chosen):
        rows.append(_rounded(row))
        if not as_json:
            print(*([head(row)] if len(rows) == 1 else []), line(row), sep="\n", flush=True)
    if as_json:
        print(json.dumps(rows, indent=1))
    return 0 if all(row["right"] for row in rows) else 1


def measure(chosen):
    """Yield a dict for each version, those of one function side by side; `head` and `line` say what is in it."""
    on_gpu = cuda.device() == "gpu"
    bounds = limits() if on_gpu else {}
    for function in dict.fromkeys(version.function for version in chosen):
        group = [version for version in chosen if version.function == function]
        rows = check(group, ONE_ROW if on_gpu else SMALL)
        if on_gpu:
            add_times(group, rows, bounds)
        yield from rows


# ---------------------------------------------------------------------------------------------------- is it right


def check(group, sizes) -> list[dict]:
    """Rows of the versions of one function: {"kernel", "error", "right", …}; on the emulator what each moved, too."""
    case = MAKERS[group[0].function](sizes, Numbers(cuda.xp))
    host = [cuda.asnumpy(a).copy() if hasattr(a, "shape") else a for a in case.arguments]
    expected = results(case.expected or getattr(reference, group[0].function), case, [_double(a) for a in host])
    rows = []
    for version in group:
        arguments = [cuda.asarray(a.copy()) if hasattr(a, "shape") else a for a in host]
        with inspected(version.module) as reports:
            got = results(version.launch, case, arguments)
        error = max(difference(cuda.asnumpy(mine), theirs) for mine, theirs in zip(got, expected))
        row = {"kernel": version.name, "layer": version.layer, "device": "emulator", "shape": case.shape}
        row |= {"bytes": case.nbytes, "flops": case.flops, "error": error, "right": error <= AGREE}
        rows.append(row | (moved(reports, case) if reports else {}))
        if problems := set().union(*(report.kinds for report in reports)):
            rows[-1] |= {"right": False, "problems": sorted(problems)}
    return rows


def results(function, case, arguments) -> list:
    """What a call wrote, or what it returned."""
    returned = function(*arguments)
    return [arguments[i] for i in case.written] or [returned if hasattr(returned, "shape") else np.array([returned])]


def difference(got, expected) -> float:
    """The largest |difference| over the largest |expected|; infinite where something is no number."""
    worst, largest = float(abs(got - expected).max()), float(abs(expected).max())
    return worst / (largest or 1.0) if worst < np.inf else np.inf  # not true of NaN


def _double(a):
    return a.astype(np.float64) if hasattr(a, "shape") and a.dtype == np.float32 else a


# ------------------------------------------------------------------------------------------- what does it move


class Inspected:
    """A kernel of the emulator whose launches leave their reports in a list."""

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
    """What that module of llmc.kernels launches in the block is inspected: yields the reports; none on a GPU."""
    seen, theirs = [], module.kernel
    if cuda.device() == "emulator":
        module.kernel = lambda *which: Inspected(theirs(*which), seen)
    try:
        yield seen
    finally:
        module.kernel = theirs


def moved(reports, case) -> dict:
    """Sectors in all and against the ideal and the need, passes lost to bank conflicts, most barriers of a block."""
    sectors, ideal = (sum(getattr(report, name) for report in reports) for name in ("sectors", "ideal_sectors"))
    return {
        "launches": len(reports),
        "sectors": sectors,
        "over_ideal": sectors / ideal,
        "over_needed": SECTOR * sectors / case.nbytes,
        "bank_conflicts": sum(report.bank_conflicts for report in reports),
        "barriers": max(report.barriers / max(1, report.raw.blocks_run) for report in reports),
    }


# ---------------------------------------------------------------------------------------------- how fast is it


def add_times(group, rows, bounds):
    """Complete the rows of one function by its times at GPT-2's sizes, and by how far they are from version 1."""

    def make(seed):
        return MAKERS[group[0].function](GPT2, Numbers(cuda.xp, seed))

    first, others = None, []
    for version, row in zip(group, rows):
        case = make(seed=1)  # fresh, for some versions write over what they read
        got = [a.copy() for a in results(version.launch, case, case.arguments)]
        first = first or got
        row["apart"] = max(difference(mine, its) for mine, its in zip(got, first))
        row["right"] &= row["apart"] <= AGREE
        others = others or [make(seed) for seed in range(2, 1 + -(-ROTATE // case.nbytes))]
        launches = [partial(version.launch, *each.arguments) for each in (case, *others)]
        us = microseconds(launches, graph=version.number is not None)
        row |= {"device": name_of_gpu(), "shape": case.shape, **rates(case, us, bounds)}


def rates(case, us, bounds) -> dict:
    """Speed at `us` microseconds, which of the two limits is the nearer one, and the share of it that is reached."""
    moving, computing = case.nbytes / bounds["copy_gb_s"] / 1e3, case.flops / bounds["sgemm_tflop_s"] / 1e6  # µs
    return {
        "bytes": case.nbytes,
        "flops": case.flops,
        "us": us,
        "gb_s": case.nbytes / us / 1e3,
        "tflop_s": case.flops / us / 1e6,
        "limit": "memory" if moving > computing else "compute",
        "share": max(moving, computing) / us,
        **bounds,
    }


def _rounded(row) -> dict:
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}


# ---------------------------------------------------------------------------------------------------- for people


def head(row) -> str:
    """The lines above a table that begins with this row."""
    if "us" not in row:
        columns = f"{'sectors':>10} {'of ideal':>9} {'of needed':>10} {'conflicts':>10} {'barriers':>9} {'error':>9}"
        return f"on the emulator; barriers are those of one block\n{'kernel':<31} {columns}  shape"
    about = f"{row['device']}: a copy moves {row['copy_gb_s']:,.0f} GB/s, the library's float32 product reaches"
    columns = f"{'µs':>10} {'GB/s':>7} {'TFLOP/s':>8} {'limit':>8} {'share':>6} {'error':>9}"
    return f"{about} {row['sgemm_tflop_s']:.1f} TFLOP/s\n{'kernel':<31} {columns}  shape"


def line(row) -> str:
    """A row of the table."""
    about = f"{row['error']:9.1e}  {row['shape']}" + "  WRONG" * (not row["right"])
    about += f" ({', '.join(row['problems'])})" if "problems" in row else ""
    if "us" in row:
        rate = f"{row['us']:10.1f} {row['gb_s']:7.0f} {row['tflop_s']:8.2f} {row['limit']:>8} {row['share']:6.0%}"
        return f"{row['kernel']:<31} {rate} {about}"
    factors = f"{row['over_ideal']:8.3g}× {row['over_needed']:9.3g}×"
    counts = f"{row['sectors']:10,} {factors} {row['bank_conflicts']:10,} {row['barriers']:9.3g}"
    return f"{row['kernel']:<31} {counts} {about}"
