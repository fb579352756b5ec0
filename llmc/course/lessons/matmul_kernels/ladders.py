"""Lesson 15: what the emulator counts in a product, and how fast its versions, cuBLAS and some tiles are on a GPU.

    python3 -m llmc.course.lessons.matmul_kernels.ladders OUT.json

measures them; it needs CuPy alone. The lesson keeps what an H200 measured, and shows it where there is no GPU.
"""

import json
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.bench.kernels import tuning
from llmc.bench.kernels.checks import inspected
from llmc.bench.kernels.times import by_library, limits, microseconds
from llmc.errors import UserError
from llmc.kernels import cublas, matmul
from llmc.kernels.tiling import TILES, Tile

TABLE = Path("reference/h200_matmul_kernels.json")  # in the lessons' folder
FORWARD, INPUT, WEIGHT = cublas.PRODUCTS
BIG, FC = (4096, 4096, 4096), (8192, 3072, 768)  # (B·T, C_out, C_in): a square, and GPT-2's first linear layer at B=8
THIN = (768, 768, 8192)  # (M, N, K) of the gradient of an attention projection
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)
SOME = (  # besides TILES: too small, too high, too deep
    Tile(BM=64, BN=64, BK=8, WM=32, WN=32, TM=8, TN=4, STAGES=3, BLOCKS=4),
    Tile(BM=64, BN=128, BK=8, WM=32, WN=64, TM=8, TN=8, STAGES=3, BLOCKS=4),
    Tile(BM=128, BN=128, BK=8, WM=32, WN=64, TM=8, TN=8, STAGES=3, BLOCKS=2),
    Tile(BM=128, BN=256, BK=8, WM=64, WN=64, TM=16, TN=8, STAGES=3, BLOCKS=1),
)
arrays = tuning._arrays  # (name, M, N, K, seed) -> result (M, N), a and b of a product, where kernels run


def sets(name, MNK) -> list:
    """Arrays that take turns."""
    return [arrays(name, *MNK, 1 + seed) for seed in range(tuning.SETS)]


def sizes(name, BT, C_out, C_in) -> tuple[int, int, int]:
    """(M, N, K) of one of the three products of a linear layer."""
    return {FORWARD: (BT, C_out, C_in), INPUT: (BT, C_in, C_out), WEIGHT: (C_out, C_in, BT)}[name]


def launched(name, MNK, version, **tile):
    """launch(result, a, b) of a version, 1 to 9 or "library". tile: tile=, parts= of version 9; llmc's choice if {}."""
    if version == "library":
        library = cublas.on_gpu if cuda.device() == "gpu" else cublas.on_cpu
        return lambda *each: library(name, *each, *MNK, None)
    if tile:
        return lambda *each: matmul.in_warp_tiles(name, *each, *MNK, **tile)
    return lambda *each: matmul._product(name, *each, *MNK[1:], version)


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
        tile = {"tile": TILES[0]} if version == 9 else {}
        launched(name, (M, N, K), version, **tile)(*arrays(name, M, N, K, 0))
    return count(reports, M, N, K)


def intensity(name, version, K, side=128) -> float:
    """Operations for each byte that a version asks for, of a product with that K, for tiles of a large result.

    Sectors grow by the same number with every slice, so two counts with few k are enough.
    """
    few, more = (k * count_version(name, version, side, side, k).sectors for k in (32, 64))
    return 2000 * K / (32 * (few + (more - few) * (K - 32) / 32))


def count_table(counted) -> str:
    """{name: Counts} as text, a line each."""
    rows = [f"{'':<6}{'sectors':>10}{'operations':>12}{'passes':>9}{'conflicts':>11}{'barriers':>10}"]
    rows.append(f"{'':<6}{'':>10}{'a byte':>12}{'':>9}{'':>11}{'per 8 k':>10}")
    for name, c in counted.items():
        row = f"{name:<6}{c.sectors:>10.1f}{c.intensity:>12.2f}{c.passes:>9.1f}{c.conflicts:>11.1f}"
        rows.append(f"{row}{c.barriers:>10.2f}")
    return "\n".join(rows)


class Times(NamedTuple):
    """TFLOP/s of each version of a product, of cuBLAS, and of the two limits of the GPU; where it was"""

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
    if cuda.device() != "gpu":
        return stored_times(product, sizes)
    with by_library():
        return _times(ladder(product, sizes), limits(), f"measured here: {cuda.name_of_gpu()}")


def stored_times(product, sizes, path=TABLE) -> Times | None:
    """From a table in the lessons' folder; None if it is not there, or has not this product at these sizes."""
    rows = [row for row in _stored(path, sizes) if row["product"] == product and "tile" not in row]
    shape = " · ".join(map(str, sizes))
    return _times(rows, rows[0], f"stored: {rows[0]['device']}, M · N · K = {shape}") if rows else None


def stored_parts(path=TABLE) -> dict:
    """{parts: µs} of one tile on a product with a small result and a long K, from the stored table; {} without one."""
    return {row["parts"]: row["us"] for row in _stored(path, THIN) if "tile" in row}


def _stored(path, sizes) -> list[dict]:
    rows = json.loads(Path(path).read_text(encoding="utf-8")) if Path(path).is_file() else []
    return [row for row in rows if (row["M"], row["N"], row["K"]) == tuple(sizes)]


def _times(rows, bounds, place) -> Times:
    speed = dict(sorted((row["version"], row["tflop_s"]) for row in rows))
    library, peak, copy = speed.pop("library"), bounds["sgemm_tflop_s"], bounds["copy_gb_s"]
    return Times(rows[0]["product"], rows[0]["K"], speed, library, peak, copy, place)


def timed(name, MNK, version, **tile) -> dict:
    """A row: a launch is checked, and on a GPU timed."""
    result, a, b = arrays(name, *MNK, 0)
    mine, launch = result.copy(), launched(name, MNK, version, **tile)  # (M, N)
    launch(mine, a, b)
    error = tuning.difference(mine, tuning._expected(name, result, a, b, *MNK))
    row = {"product": name, **dict(zip("MNK", MNK)), "version": version if version == "library" else f"v{version}"}
    row |= tile | {"error": float(f"{error:.3g}"), "right": bool(error <= tuning.AGREE)}
    if cuda.device() == "gpu":
        us = microseconds([partial(launch, *each) for each in sets(name, MNK)], graph=version != "library")
        row |= {"us": float(f"{us:.4g}"), "tflop_s": float(f"{2 * np.prod(MNK) / us / 1e6:.4g}")}
    return row


def ladder(name, MNK) -> list[dict]:
    """Versions 1 to 9, then the library."""
    return [timed(name, MNK, version) for version in (*range(1, 10), "library")]


def clock(name, *MNK):
    """measure(tile, parts) -> µs on this GPU, for one of llmc.kernels.cublas.PRODUCTS; infinity where it fails."""
    each_set = sets(name, MNK)

    def measure(tile, parts):
        launch = launched(name, MNK, 9, tile=tile, parts=parts)
        try:
            return microseconds([partial(launch, *each) for each in each_set])
        except cuda.xp.cuda.driver.CUDADriverError:
            return np.inf

    return measure


def rows(big, fc, thin, parts, tiles) -> list[dict]:
    """All rows; sizes are arguments so that a test can make them small."""
    square = INPUT, sizes(INPUT, *big)
    found = [ladder(*square), *(ladder(name, sizes(name, *fc)) for name in cublas.PRODUCTS)]
    found.append([timed(WEIGHT, thin, 9, tile=TILES[0], parts=n) for n in parts])
    return sum(found, []) + [timed(*square, 9, tile=tile, parts=1) for tile in tiles]


def main(path):
    """Measure, and write the file. Raises UserError where there is no GPU."""
    if cuda.device() != "gpu":
        raise UserError("only a GPU can be measured, and this machine has none that CuPy can use.")
    with by_library():
        bounds = {"device": cuda.name_of_gpu(), **limits()}
        found = rows(BIG, FC, THIN, PARTS, (*TILES, *SOME))
    Path(path).write_text(json.dumps([row | bounds for row in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
