"""Lesson 15: what the emulator counts in a product, and how fast its versions and cuBLAS are on a GPU.

The lesson keeps what an H200 measured (llmc/course/authoring/tables.py), and shows it where there is no GPU.
"""

import json
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.bench.kernels import tuning
from llmc.bench.kernels.checks import inspected
from llmc.bench.kernels.times import limits, microseconds
from llmc.kernels import cublas, matmul
from llmc.kernels.tiling import TILES, Tile

TABLE = Path("reference/h200_matmul_kernels.json")  # in the lessons' folder
FORWARD, INPUT, WEIGHT = cublas.PRODUCTS
BIG, FC = (4096, 4096, 4096), (8192, 3072, 768)  # (B·T, C_out, C_in): a square, and GPT-2's first linear layer at B=8
THIN = (768, 768, 8192)  # (M, N, K) of the gradient of an attention projection
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
SOME = (  # besides TILES: too small, and that of v5 to v8
    Tile(BM=64, BN=64, BK=8, WM=32, WN=32, TM=8, TN=4, STAGES=3, BLOCKS=4),
    Tile(BM=128, BN=128, BK=8, WM=32, WN=64, TM=8, TN=8, STAGES=3, BLOCKS=2),
)
arrays = tuning._arrays  # (name, M, N, K, seed) -> result (M, N), a and b of a product, where kernels run


def sizes(name, BT, C_out, C_in) -> tuple[int, int, int]:
    """(M, N, K) of one of the three products of a linear layer."""
    return {FORWARD: (BT, C_out, C_in), INPUT: (BT, C_in, C_out), WEIGHT: (C_out, C_in, BT)}[name]


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
        said = f"for 1,000 multiply-adds {self.sectors:.3g} sectors, so {self.intensity:.2g} operations a byte, and "
        return f"{said}{self.passes:.3g} passes through shared memory{extra}; {self.barriers:g} barriers for every 8 k"


def count(reports, M, N, K) -> Counts:
    """Counts of one product's launches, on the emulator."""
    passes = sum(use.passes for report in reports for use in report.lines if use.space == "shared")
    sectors, conflicts = (sum(getattr(report, what) for report in reports) for what in ("sectors", "bank_conflicts"))
    barriers = max(report.barriers / max(1, report.raw.blocks_run) for report in reports) / (K / 8)
    return Counts(*(1000 * each / (M * N * K) for each in (sectors, passes, conflicts)), barriers)


@contextmanager
def on_the_emulator():
    """Inside the block, kernels run on the emulator, which counts, whatever this machine has."""
    before = cuda.device()
    try:
        yield cuda.device("emulator")
    finally:
        cuda.device(before)


def count_version(name, version, M, N, K) -> Counts:
    """Counts of a version of llmc for one of cublas.PRODUCTS, on the emulator; v9 with TILES[0]."""
    with on_the_emulator(), inspected(matmul) as reports:
        if version == 9:
            matmul.in_warp_tiles(name, *arrays(name, M, N, K, 0), M, N, K, tile=TILES[0])
        else:
            matmul._product(name, *arrays(name, M, N, K, 0), N, K, version)
    return count(reports, M, N, K)


def intensity(name, version, K, side=128) -> float:
    """Operations for each byte that a version asks for, of a product with that K, for tiles of a large result.

    Sectors grow by the same number with every slice, so two counts with few k are enough.
    """
    few, more = (k * count_version(name, version, side, side, k).sectors for k in (32, 64))
    return 2000 * K / (32 * (few + (more - few) * (K - 32) / 32))


def count_table(counted) -> str:
    """{name: Counts} as text, a line each."""
    rows = [(name, *map("{:.2f}".format, (c.sectors, c.intensity, *c[1:]))) for name, c in counted.items()]
    return columns(("sectors", "operations a byte", "passes", "conflicts", "barriers for 8 k"), rows)


def columns(heads, rows) -> str:
    """A table as text. rows: tuples of texts, the first of which is a name."""
    lines = [("", *heads), *rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join([name.ljust(widths[0]), *map(str.rjust, each, widths[1:])]) for name, *each in lines)


class Times(NamedTuple):
    """TFLOP/s of each version of a product, of cuBLAS, and of the two limits of the GPU; where it was"""

    tflop_s: dict  # {"v1": TFLOP/s, …}
    library: float  # cuBLAS, float32, TF32 off
    peak: float  # TFLOP/s of cuBLAS for 8192 x 8192 x 8192
    copy: float  # GB/s
    place: str

    def share(self, version) -> float:
        """Of cuBLAS."""
        return self.tflop_s[version] / self.library


def times(product, sizes, measured=True) -> Times:
    """Of all versions of a product (M, N, K): measured where there is a GPU that may be used; else stored."""
    if measured and cuda.device() == "gpu":
        rows, bounds, place = ladder(product, sizes), limits(), f"measured here: {cuda.name_of_gpu()}"
    else:
        rows = [row for row in stored(sizes) if row["product"] == product and "tile" not in row]
        bounds, place = rows[0], f"stored: {rows[0]['device']}, M · N · K = {' · '.join(map(str, sizes))}"
    speed = {row["version"]: row["tflop_s"] for row in rows}
    return Times(speed, speed.pop("library"), bounds["sgemm_tflop_s"], bounds["copy_gb_s"], place)


def stored_parts() -> dict:
    """{parts: µs} of one tile on a product with a small result and a long K, from the stored table."""
    return dict(sorted((row["parts"], row["us"]) for row in stored(THIN) if "tile" in row))


def stored(sizes) -> list[dict]:
    """The rows of the table in the lessons' folder for these sizes (M, N, K)."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    return [row for row in rows if (row["M"], row["N"], row["K"]) == tuple(sizes)]


def ladder(name, MNK) -> list[dict]:
    """A row for each of versions 1 to 9 and for the library: a launch is checked, and on a GPU timed."""
    known, *others = (arrays(name, *MNK, seed) for seed in range(1 + tuning.SETS))
    expected, found = tuning._expected(name, *known, *MNK), []
    for version in (*range(1, 10), None):
        how = dict(N=MNK[1], K=MNK[2], version=version, tf32=False, by="cublas")
        mine, launch = known[0].copy(), partial(matmul._product, name, **how)  # (M, N)
        launch(mine, *known[1:])
        error = tuning.difference(mine, expected)
        row = {"product": name, **dict(zip("MNK", MNK)), "version": f"v{version}" if version else "library"}
        row |= {"error": float(f"{error:.3g}"), "right": bool(error <= tuning.AGREE)}
        if cuda.device() == "gpu":
            us = microseconds([partial(launch, *each) for each in others], graph=version is not None)
            row |= {"us": float(f"{us:.4g}"), "tflop_s": float(f"{2 * np.prod(MNK) / us / 1e6:.4g}")}
        found.append(row)
    return found


def clock(name, M, N, K):
    """measure(tile, parts) -> µs on this GPU, for one of llmc.kernels.cublas.PRODUCTS."""
    return lambda tile, parts: next(row["us"] for row in tuning.tune(name, M, N, K, (tile,), (parts,)) if row["tile"])


def rows(big, fc, thin, parts) -> list[dict]:
    """All rows; sizes are arguments so that a test can make them small."""
    tuned = tuning.tune(WEIGHT, *thin, TILES[:1], parts)
    found = [row | {"product": WEIGHT, **dict(zip("MNK", thin)), "version": "v9"} for row in tuned if row["tile"]]
    ladders = [(INPUT, sizes(INPUT, *big)), *((name, sizes(name, *fc)) for name in cublas.PRODUCTS)]
    return [row for each in ladders for row in ladder(*each)] + found


def measure() -> list[dict]:
    """The whole table, on this GPU."""
    bounds = {"device": cuda.name_of_gpu(), **limits()}
    return [row | bounds for row in rows(BIG, FC, THIN, PARTS)]
