"""Lesson 15: what the emulator counts in a product, and how fast its versions are."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from llmc import cuda
from llmc.bench.kernels.checks import inspected
from llmc.bench.kernels.times import by_library, limits
from llmc.course.lessons.matmul_kernels import measured
from llmc.kernels import matmul
from llmc.kernels.tiling import TILES

# ------------------------------------------------------------------------------------------------- the counts


class Counts(NamedTuple):
    """What a product costs for every 1,000 multiply-adds; and barriers of a block for every 8 k."""

    sectors: float  # of global memory
    passes: float  # through the banks of shared memory
    conflicts: float  # of these, extra ones
    barriers: float

    @property
    def intensity(self) -> float:
        """Operations, two for a multiply-add, for each byte that the warps ask of global memory."""
        return 2000 / (32 * self.sectors)

    def __str__(self):
        extra = f" ({self.conflicts:.1f} of them for conflicts)" if self.conflicts else ""
        return (
            f"for 1,000 multiply-adds {self.sectors:.3g} sectors, so {self.intensity:.2g} operations a byte, and "
            f"{self.passes:.3g} passes through shared memory{extra}; {self.barriers:g} barriers for every 8 k"
        )


def count(reports, M, N, K) -> Counts:
    """Counts of one product's launches, on the emulator."""
    thousands = M * N * K / 1000
    passes = sum(use.passes for report in reports for use in report.lines if use.space == "shared")
    sectors, conflicts = (sum(getattr(report, what) for report in reports) for what in ("sectors", "bank_conflicts"))
    barriers = max(report.barriers / max(1, report.raw.blocks_run) for report in reports) / (K / 8)
    return Counts(sectors / thousands, passes / thousands, conflicts / thousands, barriers)


@contextmanager
def on_the_emulator():
    """Inside the block, kernels run on the emulator, which counts, whatever this machine has."""
    before = cuda.device()
    cuda.device("emulator")
    try:
        yield
    finally:
        cuda.device(before)


def count_version(name, version, M, N, K) -> Counts:
    """Counts of a version of llmc for one of cublas.PRODUCTS, on the emulator; v9 with TILES[0]."""
    with on_the_emulator(), inspected(matmul) as reports:
        result, a, b = measured.arrays(name, M, N, K, 0)
        if version == 9:
            matmul.in_warp_tiles(name, result, a, b, M, N, K, tile=TILES[0])
        else:
            matmul._product(name, result, a, b, N, K, version)
    return count(reports, M, N, K)


def intensity(name, version, K, side=128) -> float:
    """Operations for each byte that a version asks for, of a product with that K, for tiles of a large result.

    Sectors grow by the same number with every slice, so two counts with few k are enough.
    """
    few, more = (k * count_version(name, version, side, side, k).sectors for k in (32, 64))
    return 2000 * K / (32 * (few + (more - few) * (K - 32) / 32))


def count_table(counted) -> str:
    """{name: Counts} as text, a line each."""
    head = f"{'':<6}{'sectors':>10}{'operations':>12}{'passes':>9}{'conflicts':>11}{'barriers':>10}"
    rows = [head, f"{'':<6}{'':>10}{'a byte':>12}{'':>9}{'':>11}{'per 8 k':>10}"]
    for name, c in counted.items():
        row = f"{name:<6}{c.sectors:>10.1f}{c.intensity:>12.2f}{c.passes:>9.1f}{c.conflicts:>11.1f}{c.barriers:>10.2f}"
        rows.append(row)
    return "\n".join(rows)


# -------------------------------------------------------------------------------------------------- the times


class Times(NamedTuple):
    """TFLOP/s of each version of a product, of cuBLAS, and of the two limits of the GPU; where it was measured."""

    product: str  # of cublas.PRODUCTS
    K: int  # how many numbers it sums over
    tflop_s: dict  # {"v1": TFLOP/s, …}
    library: float  # cuBLAS, float32, TF32 off
    peak: float  # TFLOP/s of cuBLAS for 8192 x 8192 x 8192
    copy: float  # GB/s
    place: str

    def share(self, version) -> float:
        """Of cuBLAS."""
        return self.tflop_s[version] / self.library


def times(product, sizes) -> Times | None:
    """Of all versions of a product (M, N, K): measured on this GPU, or else stored; None where there is nothing."""
    if cuda.device() == "gpu":
        with by_library():
            return _times(measured.ladder(product, sizes), limits(), f"measured here: {cuda.name_of_gpu()}")
    forward = measured.FORWARD, measured.sizes(measured.FORWARD, *measured.FC)
    return stored_times(product, sizes) or stored_times(*forward)


def stored_times(product, sizes, path=measured.TABLE) -> Times | None:
    """From a table in the lessons' folder; None if it is not there, or has not this product at these sizes."""
    rows = [row for row in _stored(path) if row["product"] == product and "tile" not in row]
    rows = [row for row in rows if (row["M"], row["N"], row["K"]) == sizes]
    shape = " · ".join(map(str, sizes))
    return _times(rows, rows[0], f"stored: {rows[0]['device']}, M · N · K = {shape}") if rows else None


def _stored(path) -> list[dict]:
    path = Path(path)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _times(rows, bounds, place) -> Times:
    speed = {row["version"]: row["tflop_s"] for row in rows}
    library, versions = speed.pop("library"), dict(sorted(speed.items()))
    return Times(
        rows[0]["product"], rows[0]["K"], versions, library, bounds["sgemm_tflop_s"], bounds["copy_gb_s"], place
    )


def stored_parts(path=measured.TABLE) -> dict:
    """{parts: µs} of one tile on a product with a small result and a long K, from the stored table; {} without one."""
    rows = [row for row in _stored(path) if "tile" in row and (row["M"], row["N"], row["K"]) == measured.THIN]
    return {row["parts"]: row["us"] for row in rows}
