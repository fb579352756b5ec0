"""Lesson 19: llmc's kernels for tensor cores, run on the emulator and counted, also with mistakes; softmax and orders.

Counts are for a round of a tile: 128 x 128 results, 64 numbers of k, 2^20 multiply-adds.
"""

import re
from typing import NamedTuple

import ml_dtypes
import numpy as np

from llmc import cuda
from llmc.bench.kernels.checks import Inspected, difference, inspected
from llmc.course.lessons.attention_kernels import references
from llmc.course.lessons.matmul_kernels.ladders import columns, on_the_emulator
from llmc.kernels import FOLDER, mixed, source
from llmc.kernels.mixed import matmul_hopper, matmul_own
from llmc.kernels.mixed.attention import attention_forward

ROUND = 128 * 128 * 64  # multiply-adds
BF16 = np.dtype(ml_dtypes.bfloat16)
AGREE = 2.0**-7  # relative to the largest element: from 1 to the next bfloat16
TILES = {**dict.fromkeys(range(2, 7), (128, 128)), 7: (64, 128), 8: (128, 256), 9: (128, 128)}  # rows, columns
NEWS = {2: "wmma", 3: "mma.sync", 4: "ldmatrix", 5: "swizzled", 6: "cp.async, stages", 7: "TMA, wgmma"}
NEWS |= {8: "roles", 9: "blocks that stay"}


class Counts(NamedTuple):
    """What a round of a tile costs."""

    kilobytes: float  # of both factors that come from global memory
    requests: float  # of warps to shared memory
    passes: float  # through its banks
    conflicts: float  # of these, extra ones
    barriers: float  # that a block passes, for each 64 k

    def __str__(self):
        extra = f" ({self.conflicts:,.0f} of them extra)" if self.conflicts else ""
        return (
            f"a round of a tile: {self.kilobytes:g} KB come, {self.requests:,.0f} requests to shared memory, "
            f"{self.passes:,.0f} passes{extra}; barriers of a block for 64 k: {self.barriers:.2g}"
        )


def header(*names) -> str:
    """The text of these .cuh files."""
    return "".join((FOLDER / "include" / f"{name}.cuh").read_text(encoding="utf-8") for name in names)


def brought(version) -> float:
    """KB of both factors for a round of a tile: larger tiles use what they bring more times."""
    rows, columns = TILES[version]
    return (rows + columns) * 64 * 2 / 1024 * ROUND / (rows * columns * 64)


def product(M, N, K, rng, **more) -> matmul_own.Product:
    """result (M, N), empty, = a (M, K) bᵀ, b (N, K), of random numbers, bfloat16."""
    a, b = rng.normal(0, 1, (M, K)).astype(BF16), rng.normal(0, 1, (N, K)).astype(BF16)  # (M, K), (N, K)
    return matmul_own.Product("matmul_forward", np.zeros((M, N), BF16), a, b, M, N, K, **more)


def launch(of, version, **how):
    """One of versions 2 to 9, where kernels run."""
    if version <= 6:
        matmul_own.multiply(of, version, **how)
    elif version <= 8:
        matmul_hopper.multiply_one(of, version, **how)
    else:
        matmul_hopper.multiply(of, **how)


def run(version, M, N, K, rng, **how):
    """(Report, Product) of a version on the emulator; its result is compared with float64's."""
    of = product(M, N, K, rng)
    with on_the_emulator(), inspected(mixed) as reports:
        launch(of, version, **how)
    (report,) = reports
    assert report.ok, report
    exact = of.a.astype(np.float64) @ of.b.astype(np.float64).T  # (M, N)
    assert difference(of.result, exact) <= AGREE, (version, M, N, K)
    return report, of


def count(version, report, of) -> Counts:
    """The Counts of a launch."""
    rounds = of.M * of.N * of.K / ROUND
    shared = [use for use in report.lines if use.space == "shared"]
    passes, requests = sum(use.passes for use in shared), sum(use.requests for use in shared)
    barriers = report.barriers / max(1, report.raw.blocks_run) / (of.K / 64)
    return Counts(brought(version), requests / rounds, passes / rounds, report.bank_conflicts / rounds, barriers)


def table(counted) -> str:
    """{version: Counts} as text, a line each."""
    rows = [(f"v{v}  {NEWS[v]}", *(f"{n:,.0f}" for n in c[:4]), f"{c.barriers:.2f}") for v, c in counted.items()]
    return columns(("KB brought", "requests", "passes", "extra", "barriers"), rows)


def attend(version, B, T, NH, hs, rng):
    """(Report, out, expected) of flash attention's forward pass on the emulator, causal."""
    qkv = rng.normal(0, 1, (B, T, 3 * NH * hs)).astype(BF16)  # (B, T, 3C)
    out, stats = np.zeros((B, T, NH * hs), BF16), np.zeros((B, NH, T), np.float32)  # (B, T, C), (B, NH, T)
    with on_the_emulator(), inspected(mixed) as reports:
        attention_forward(out, stats, qkv, NH, version=version)
    (report,) = reports
    assert report.ok, report
    right, _ = references.forward(*qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4))  # (B, NH, T, hs)
    expected = right.transpose(0, 2, 1, 3).reshape(out.shape)  # (B, T, C)
    assert difference(out, expected) <= 2 * AGREE, version  # weights are rounded too
    return report, out, expected


# ------------------------------------------------------------------------------------------------- with a mistake


def broken(version, *pairs, sizes, rng, **how):
    """The Report of a version with texts replaced, pairs (old, new), for a product of these sizes (M, N, K)."""
    layer = matmul_own.FILES.get(version) or matmul_hopper.FILES[version]
    code, reports, theirs = source(f"mixed/{layer}"), [], mixed.kernel
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        if old not in code:
            raise ValueError(f"{old!r} does not occur in {layer}.cu")
        code = code.replace(old, new)

    def kernel(layer, name, defines="", arch=""):
        options = ("-std=c++17", *(f"-D{define}" for define in defines.split()))
        return Inspected(cuda.RawKernel(code, name, options), reports)

    mixed.kernel = kernel
    try:
        with on_the_emulator():
            launch(product(*sizes, rng), version, **how)
    finally:
        mixed.kernel = theirs
    return reports[0]


def said(report, kind) -> str:
    """What the report says about its problem of this kind."""
    text = next(problem.text for problem in report.problems if problem.kind == kind)
    return re.sub(r", called at line \d+", "", text)


# ------------------------------------------------------------------------------------------- in NumPy: the softmax


def online_softmax(scores, values, meet=(1, 2)):
    """softmax(scores) values tile by tile, as lanes do it, weights rounded to float16: (B, 16, T), (B, T, 8).

    meet: each lane takes the larger maximum of its own and that of the lane so far away (xor); 1 and 2 share a row.
    """
    B, _, T = scores.shape
    tiles = scores.astype(np.float32).reshape(B, 2, 8, T // 16, 2, 4, 2)  # n, row, tile, i, lane, number
    top, total = np.full((B, 2, 8, 4), -np.inf, np.float32), np.zeros((B, 2, 8, 4))  # n, row, lane
    sums = np.zeros((B, 2, 8, 4, 2))  # n, row, lane, number: columns 2 lane + number
    for k in range(T // 16):
        tile = tiles[:, :, :, k]  # (B, 2, 8, 2, 4, 2)
        higher = np.maximum(top, tile.max(axis=(3, 5)))  # (B, 2, 8, 4)
        for distance in meet:
            higher = np.maximum(higher, higher[..., np.arange(4) ^ distance])  # (B, 2, 8, 4)
        weights = np.exp(tile - higher[:, :, :, None, :, None])  # (B, 2, 8, 2, 4, 2)
        shrink = np.exp(top - higher)  # (B, 2, 8, 4)
        total = total * shrink + weights.sum(axis=(3, 5))  # (B, 2, 8, 4)
        more = weights.astype(np.float16).reshape(B, 16, 16) @ values[:, 16 * k : 16 * k + 16].astype(np.float64)
        sums = sums * shrink[..., None] + more.reshape(sums.shape)  # (B, 2, 8, 4, 2)
        top = higher
    return (sums / total.sum(axis=-1)[..., None, None]).reshape(B, 16, 8)


# ------------------------------------------------------------------------------------- in NumPy: the order of tiles


def in_bands(number, down, across, height=8):
    """(row, column) of tile `number` if bands of `height` rows follow each other, each column by column."""
    band, place = divmod(number, height * across)
    height, first = min(height, down - band * height), band * height
    return first + place % height, place // height


def numbered(down, across, order) -> np.ndarray:
    """(down, across): when each tile has its turn, by order(number, down, across)."""
    when = np.full((down, across), -1)
    for number in range(down * across):
        when[order(number, down, across)] = number
    return when


def bands_read(turns) -> int:
    """How many bands of a and b the turns, lists of tiles (row, column), read in all: each counts once per turn.

    What a turn reads twice comes from the L2: rows times columns are its tiles, rows plus columns what it reads.
    """
    return sum(len({row for row, _ in turn}) + len({column for _, column in turn}) for turn in turns)


def turns_of(order, blocks, down, across) -> list:
    """The tiles of each turn, by order(number, down, across): as many as there are blocks."""
    tiles = [order(number, down, across) for number in range(down * across)]
    return [tiles[k : k + blocks] for k in range(0, len(tiles), blocks)]
