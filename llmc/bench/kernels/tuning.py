"""Which tiles suit a product on this GPU? Every tile of a list is checked and timed; the table shows the fastest first.

    from llmc.bench.kernels.tuning import candidates, table, tune

    print(table(tune("matmul_forward", 4096, 768, 3072, candidates())))

The emulator gives no times, but shows what a tile moves. Results are not stored; the tiles that llmc uses are TILES in
llmc/kernels/tiling.py.
"""

from functools import partial
from itertools import product

import numpy as np

from llmc import cuda
from llmc.bench.kernels.cases import Numbers
from llmc.bench.kernels.checks import difference, inspected
from llmc.bench.kernels.times import microseconds
from llmc.bench.kernels.versions import AGREE
from llmc.errors import UserError
from llmc.kernels import cublas, matmul
from llmc.kernels.tiling import TILES, Tile

SETS = 3  # of arrays that take turns, so that a product does not find its own in the cache
COUNTS = ("sectors", "bank_conflicts", "barriers")  # of all launches, on the emulator
REGISTERS, SHARED = 65_536, 227 << 10  # of a multiprocessor: registers, bytes


def candidates() -> list[Tile]:
    """Some tiles that fit on a GPU of compute capability 8.0 or more, each with as many blocks as there is room for."""
    threads, lanes, warps = ((8, 8), (12, 8), (8, 12), (16, 8), (8, 16)), ((8, 4), (4, 8)), ((2, 2), (4, 2), (2, 4))
    found = []
    for (TM, TN), (down, across), (high, wide), BK, stages in product(threads, lanes, warps, (8, 16), (2, 3)):
        WM, WN = TM * down, TN * across
        tiles = [Tile(high * WM, wide * WN, BK, WM, WN, TM, TN, stages, blocks) for blocks in (4, 3, 2, 1)]
        found += [tile for tile in tiles if not problem(tile)][:1]
    return found


def problem(tile) -> str | None:
    """What is wrong with a tile, in one sentence, or None if it is fine."""
    t, threads = tile, tile.threads
    lanes = (t.WM // t.TM) * (t.WN // t.TN)
    needed = t.TM * t.TN + 2 * (t.TM + t.TN) + 32  # registers of a thread, roughly
    if t.BM % t.WM or t.BN % t.WN or t.WM % t.TM or t.WN % t.TN or lanes != 32:
        return f"threads must fill warps of 32, and warps must fill blocks; {lanes} threads fill {t.WM} x {t.WN}."
    if t.TM % 4 or t.TN % 4 or t.BK % 4 or t.STAGES < 2:
        return "TM, TN and BK must be multiples of 4, and STAGES at least 2."
    if t.BM * t.BK % (4 * threads) or t.BN * t.BK % (4 * threads):
        return f"{threads} threads cannot share the copies of a slice equally; try another BK."
    if threads > 1024 or needed > 255 or needed * threads * t.BLOCKS > REGISTERS:
        return f"{t.BLOCKS} blocks of {threads} threads with about {needed} registers each are too many."
    if t.shared * t.BLOCKS > SHARED:
        return f"{t.BLOCKS} blocks with {t.shared:,} bytes of shared memory each are too many."
    return None


def tune(name, M, N, K, tiles=TILES, parts=(1,)) -> list[dict]:
    """A row for each tile and each number of parts, the fastest first, and, on a GPU, a row for the library.

    name: "matmul_forward", "matmul_backward_input" or "matmul_backward_weight", with a result of (M, N) and sums over K
    numbers. Raises UserError for a tile that cannot work.
    """
    for tile in tiles:
        if wrong := problem(tile):
            raise UserError(f"{tile}: {wrong}")
    known, sets = _arrays(name, M, N, K, 0), [_arrays(name, M, N, K, 1 + seed) for seed in range(SETS)]
    expected = _expected(name, *known, M, N, K)
    rows = [_row(name, known, expected, sets, (M, N, K), tile, n) for tile in tiles for n in parts]
    if cuda.device() == "gpu":
        library = [partial(cublas.on_gpu, name, *arrays, M, N, K) for arrays in sets]
        rows.append({"tile": None, "parts": 1, "right": True, "us": microseconds(library, graph=False)})
    for row in rows:
        if "us" in row:
            row |= {"tflop_s": 2 * M * N * K / row["us"] / 1e6, "share": rows[-1]["us"] / row["us"]}
    return sorted(rows, key=lambda row: row.get("us", row.get("sectors")))


def table(rows) -> str:
    """The rows of `tune` as text."""
    measured = ("us", "tflop_s", "share") if "us" in rows[0] else COUNTS
    lines = [" ".join(f"{word:>6}" for word in (*Tile._fields, "parts")) + "".join(f"{word:>15}" for word in measured)]
    for row in rows:
        sizes = [f"{n:6}" for n in row["tile"]] if row["tile"] else [f"{'the library':>{7 * len(Tile._fields) - 1}}"]
        numbers = "".join(f"{row[word]:15,.2f}" if "us" in row else f"{row[word]:15,}" for word in measured)
        lines.append(" ".join([*sizes, f"{row['parts']:6}"]) + numbers + ("" if row["right"] else "  WRONG"))
    return "\n".join(lines)


def _arrays(name, M, N, K, seed):
    """result, a, b of a product."""
    numbers, adds = Numbers(cuda.xp, seed), cublas.PRODUCTS[name][2]
    result = numbers.normal(M, N) if adds else numbers.nans(M, N)  # (M, N)
    return result, numbers.normal(M * K), numbers.normal(N * K)


def _expected(name, result, a, b, M, N, K):
    """The product in float64 (M, N), in the memory where kernels run."""
    xp, (a_runs, b_runs, adds) = cuda.xp, cublas.PRODUCTS[name]
    a = a.astype(np.float64).reshape((M, K) if a_runs else (K, M))  # as it lies
    b = b.astype(np.float64).reshape((N, K) if b_runs else (K, N))  # as it lies
    total = xp.matmul(a if a_runs else a.T, b.T if b_runs else b)  # (M, N)
    return total + result if adds else total  # (M, N)


def _row(name, known, expected, sets, sizes, tile, parts) -> dict:
    """Check the tile with the arrays whose product is known, then time it with the others."""

    def launch(result, a, b):
        matmul.in_warp_tiles(name, result, a, b, *sizes, tile=tile, parts=parts)

    result, a, b = known
    mine = result.copy()  # (M, N)
    with inspected(matmul) as reports:
        launch(mine, a, b)
    row = {"tile": tile, "parts": parts, "right": difference(mine, expected) <= AGREE}
    if cuda.device() == "gpu":
        return row | {"us": microseconds([partial(launch, *arrays) for arrays in sets])}
    counts = {word: sum(getattr(report, word) for report in reports) for word in COUNTS}
    return row | counts | {"right": row["right"] and all(report.ok for report in reports)}
