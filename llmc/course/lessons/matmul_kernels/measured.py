"""Lesson 15: times of every version of the three products on a GPU, of cuBLAS beside them, and of some tiles.

    python3 -m llmc.course.lessons.matmul_kernels.measured OUT.json

It needs CuPy alone. The lesson keeps what an H200 measured in notebooks/reference/h200_matmul_kernels.json and shows it
where there is no GPU.
"""

import json
import sys
from functools import partial
from pathlib import Path
from time import perf_counter

from llmc import cuda
from llmc.bench.kernels import tuning
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
SETS, MOST = 3, 75.0  # of arrays, which take turns; seconds after which no further tile is tried


def sizes(name, BT, C_out, C_in) -> tuple[int, int, int]:
    """(M, N, K) of one of the three products of a linear layer."""
    return {FORWARD: (BT, C_out, C_in), INPUT: (BT, C_in, C_out), WEIGHT: (C_out, C_in, BT)}[name]


def arrays(name, M, N, K, seed):
    """result (M, N), a and b of a product, where kernels run; numbers that must be added to, or else NaN, in result."""
    return tuning._arrays(name, M, N, K, seed)


def timed(name, MNK, launch, **said) -> dict:
    """A row: launch(result, a, b) is checked, and on a GPU timed. said: what else the row says."""
    M, N, K = MNK
    result, a, b = arrays(name, M, N, K, 0)
    mine = result.copy()  # (M, N)
    launch(mine, a, b)
    error = tuning.difference(mine, tuning._expected(name, result, a, b, M, N, K))
    row = {"product": name, "M": M, "N": N, "K": K, **said, "error": float(f"{error:.3g}")}
    row["right"] = bool(error <= tuning.AGREE)
    if cuda.device() == "gpu":
        sets = [arrays(name, M, N, K, 1 + seed) for seed in range(SETS)]
        us = microseconds([partial(launch, *arrays) for arrays in sets], graph=said["version"] != "library")
        row |= {"us": float(f"{us:.4g}"), "tflop_s": float(f"{2 * M * N * K / us / 1e6:.4g}")}
    return row


def ladder(name, MNK) -> list[dict]:
    """Versions 1 to 9, then the library."""
    M, N, K = MNK
    rows = []
    for version in range(1, 10):

        def launch(result, a, b, version=version):
            matmul._product(name, result, a, b, N, K, version)

        rows.append(timed(name, MNK, launch, version=f"v{version}"))
    library = cublas.on_gpu if cuda.device() == "gpu" else cublas.on_cpu
    return [*rows, timed(name, MNK, lambda result, a, b: library(name, result, a, b, M, N, K, None), version="library")]


def of_tile(name, MNK, tile, parts) -> dict:
    """Version 9 with one tile and one number of parts."""

    def launch(result, a, b):
        matmul.in_warp_tiles(name, result, a, b, *MNK, tile=tile, parts=parts)

    return timed(name, MNK, launch, version="v9", tile=list(tile), parts=parts)


def rows(big, fc, thin, parts, tiles, seconds=MOST) -> list[dict]:
    """All rows; sizes are arguments so that a test can make them small."""
    start = perf_counter()
    found = ladder(INPUT, sizes(INPUT, *big))
    for name in cublas.PRODUCTS:
        found += ladder(name, sizes(name, *fc))
    found += [of_tile(WEIGHT, thin, TILES[0], n) for n in parts]
    for tile in tiles:
        if perf_counter() - start < seconds:
            found.append(of_tile(INPUT, sizes(INPUT, *big), tile, 1))
    return found


def main(path):
    """Measure, print a line for each row, and write the file. Raises UserError where there is no GPU."""
    if cuda.device() != "gpu":
        raise UserError("only a GPU can be measured, and this machine has none that CuPy can use.")
    with by_library():
        bounds = {"device": cuda.name_of_gpu(), **limits()}
        found = rows(BIG, FC, THIN, PARTS, (*TILES, *SOME))
    for row in found:
        print(row)
    Path(path).write_text(json.dumps([row | bounds for row in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
