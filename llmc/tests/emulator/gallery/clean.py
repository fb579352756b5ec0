"""How each clean kernel is launched and what must come out: {file: {kernel: Launch}}.

make() gives the arguments and {index of an argument: the values it must hold afterwards}, from NumPy.
"""

import ml_dtypes
import numpy as np

from llmc.cuda import tensor_map
from llmc.tests.emulator.gallery import draw, integers, launch, zeros
from llmc.tests.emulator.gallery.language import LANGUAGE
from llmc.tests.emulator.gallery.maps import maps, maps_ints

I32, U32, U8 = np.int32, np.uint32, np.uint8


def matmul(n):
    def make():
        a, b = draw(n, n), draw(n, n, seed=1)
        return [zeros(n, n), a, b, n], {0: a @ b}

    return make


def transpose():
    x = draw(37, 50)
    return [zeros(50, 37), x, 37, 50], {0: x.T}


def global_memory():
    x = draw(64)
    return [x, zeros(64)], {0: x[::-1].copy()}


def nobody_changes():
    x = np.array([5] * 20 + [3] * 10 + [4] * 34, I32)
    return [x, zeros(64, dtype=I32)], {0: np.minimum.accumulate(x), 1: np.full(64, 35)}


def barrier_object(x):
    for _ in range(3):
        x = x + x[::-1]
    return x


BARRIERS = {
    "early_return": launch(1, 64, maps(50, lambda x: x[::-1], 50)),
    "whole_block_leaves": launch(5, 32, maps(96, lambda x: np.repeat(x[::32], 32), 3)),
    "leaves_between_barriers": launch(1, 64, maps(64, lambda x: (x[:32] + x[:31:-1])[::-1])),
    "stores_and_leaves": launch(1, 64, maps(64, lambda x: np.concatenate([x[32:], x[31::-1]]))),
    "barrier_in_a_uniform_branch": launch(2, 64, maps(128, lambda x: np.concatenate([x[63::-1], x[64:]]))),
    "shared_memory_used_twice": launch(
        1, 48, lambda: [[zeros(48, dtype=I32), draw(48)], {0: np.argsort(np.argsort(draw(48)))[::-1]}], shared_mem=192
    ),
    "global_memory_between_barriers": launch(1, 64, global_memory),
    "until_nobody_changes": launch(1, 64, nobody_changes),
    "counts_and_agrees": launch(1, 64, maps_ints(64, lambda x: np.full(64, (x > 0).sum()), low=-99)),
    "barrier_object": launch(1, 64, maps(64, barrier_object, 3)),
    "warps_with_different_tasks": launch(1, 64, maps(160, lambda x: x.reshape(5, 32)[:, ::-1].sum(0), 5)),
}

TILES = {
    "matmul_in_tiles": launch((3, 3), (8, 8), matmul(19)),
    "matmul_with_two_buffers": launch((3, 3), (8, 8), matmul(24)),
    "transpose_padded": launch((4, 3), (16, 16), transpose),
}


def histogram():
    x = integers(16, 3000, dtype=U8)
    return [zeros(16, dtype=I32), x, x.size], {0: np.bincount(x, minlength=16)}


def last_block():
    x = draw(5000)
    args = [zeros(128), zeros(8), zeros(1, dtype=U32), x, x.size]
    return args, {0: np.full(128, x.sum(dtype=np.float64)), 2: [0]}


def chained():
    x = integers(100, 8 * 32)
    return [zeros(256, dtype=I32), x, zeros(8, dtype=I32), zeros(8, dtype=I32)], {0: np.cumsum(x)}


def lock():
    x = integers(100, 16)
    return [*(zeros(1, dtype=I32) for _ in range(3)), x], {0: [x.sum()], 1: [x.max()], 2: [0]}


def lock_in_a_warp():
    x = integers(100, 64)
    return [*(zeros(1, dtype=I32) for _ in range(2)), x], {0: [x.sum()]}


def compact():
    x = integers(1000, 97)
    kept = np.sort(x[x % 3 == 0])
    return [np.full(kept.size, -1, I32), zeros(1, dtype=I32), x, 97], {1: [kept.size]}  # the order is free


def visits():
    x = integers(100, 128)
    return [zeros(100, dtype=I32), zeros(1, dtype=I32), x], {0: np.isin(np.arange(100), x), 1: [np.unique(x).size]}


def total():
    x = draw(256)
    return [zeros(1), zeros(1), zeros(1, dtype=U32), x], {0: [x.sum(dtype=np.float64)], 1: [0], 2: [0]}


def histograms():
    x = integers(32, 64)
    return [zeros(64, dtype=I32), x], {
        0: np.concatenate([np.bincount(half, minlength=32) for half in x.reshape(2, 32)])
    }


def rows():
    x = draw(128)
    return [zeros(128), x], {0: np.pad(2 * x.reshape(2, 32, 2).sum(2), ((0, 0), (0, 32))).ravel()}


def bits():
    x = draw(256)
    return [zeros(8, dtype=U32), x], {0: np.packbits(x > 0, bitorder="little").view(U32)}


ATOMICS = {
    "shared_histogram": launch(4, 64, histogram),
    "sum_in_the_last_block": launch(8, 128, last_block),
    "chained_scan": launch(8, 32, chained),
    "volatile_flag": launch(1, 64, maps(1, lambda x: x)),
    "spin_lock": launch(16, 32, lock),
    "spin_lock_in_a_warp": launch(1, 64, lock_in_a_warp),
    "same_value_by_all": launch(4, 32, lambda: [[zeros(1, dtype=I32), integers(5, 128), 3], {0: [1]}]),
    "same_value_in_shared_memory": launch(1, 64, maps_ints(64, lambda x: np.ones(64))),
    "float_maximum_by_cas": launch(4, 32, lambda: [[np.full(1, -9, np.float32), draw(128)], {0: [draw(128).max()]}]),
    "float_maximum_at_a_glance": launch(
        4, 32, lambda: [[np.full(1, -9, np.float32), draw(128)], {0: [draw(128).max()]}]
    ),
    "maximum_at_a_glance": launch(
        1, 64, lambda: [[zeros(1, dtype=I32), integers(99, 64)], {0: [integers(99, 64).max()]}]
    ),
    "first_visit": launch(2, 64, visits),
    "total_by_the_last_thread": launch(4, 64, total),
    "mean_and_variance_by_atomics": launch(1, 64, maps(64, lambda x: [x.mean(), x.var()])),
    "histogram_of_each_warp": launch(1, 64, histograms),
    "queue_of_rows": launch(
        3, 32, lambda: [[zeros(160, dtype=I32), zeros(1, dtype=I32), 5], {0: np.arange(160) // 32}]
    ),
    "row_of_a_block": launch(2, 64, rows),
    "volatile_flag_set_by_an_atomic": launch(
        1, 64, lambda: [[zeros(1), zeros(1), zeros(1, dtype=I32), draw(1)], {0: draw(1), 1: draw(1), 2: [1]}]
    ),
    "compact": launch(2, 64, compact),
    "bits_by_atomic_or": launch(4, 64, bits),
}


def match_groups():
    x = integers(5, 32)
    same = x[:, None] == x  # (32, 32)
    return [zeros(32, dtype=I32), x], {0: same.sum(1) * 100 + same.argmax(1)}


def branches(x):
    lane = np.arange(32)
    return np.where(lane < 16, x + x[lane ^ 1], x * x[lane ^ 2])


def ballot(x):
    odd = x[x % 2 == 1]
    return np.where(x % 2, 100 * odd[0] + (odd > 3).sum(), x) if odd.size else x


def first_of_the_warp_added(x):
    rows = x.reshape(2, 32).copy()
    rows[:, 1:] += rows[:, :1]
    return rows.ravel()


def warp_sums(x):
    return [x[i : i + 32].sum() for i in range(0, x.size, 32)]


WARPS = {
    "block_sum_by_warps": launch(1, 96, maps(1000, lambda x: [x.sum(dtype=np.float64)], 1000)),
    "tree_with_syncwarp": launch(1, 32, maps(64, lambda x: [x.sum(dtype=np.float64)])),
    "warps_of_their_own": launch(1, 128, maps(320, lambda x: x.reshape(10, 32)[:, ::-1].ravel())),
    "partial_warps": launch(1, 97, maps(97, warp_sums)),
    "shuffle_in_eights": launch(1, 64, maps(64, lambda x: np.repeat(x.reshape(8, 8).sum(1), 8))),
    "added_in_place": launch(1, 64, maps(64, first_of_the_warp_added)),
    "scan_by_shuffle": launch(1, 64, maps_ints(64, lambda x: np.cumsum(x.reshape(2, 32), axis=1).ravel())),
    "ballot_before_a_branch": launch(1, 32, maps_ints(32, ballot, high=9)),
    "both_sides_of_a_branch": launch(1, 32, maps(32, branches)),
    "half_returns_half_goes_on": launch(1, 32, maps(20, lambda x: x + x[::-1], 20)),
    "match_groups": launch(1, 32, match_groups),
    "tiles_of_eight": launch(1, 64, maps(64, lambda x: x.reshape(8, 8).sum(1))),
    "reduce_of_the_groups": launch(1, 128, maps(500, lambda x: np.full(128, x.max()), 500)),
}


def copies_and_mma():
    a, b = integers(9, 64, 48, low=-8).astype(np.float16), integers(9, 32, 48, low=-8, seed=1).astype(np.float16)
    return [zeros(64, 32), a, b, 32, 48], {0: a.astype(np.float32) @ b.astype(np.float32).T}


def tf32():
    a, b = draw(16, 24), draw(24, 8, seed=1)
    rounded = [((x.view(U32) + U32(0x1000)) & U32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    return [zeros(16, 8), a, b, 24], {0: rounded[0].astype(np.float64) @ rounded[1]}


PTX = {
    "matmul_with_copies_and_mma": launch((2, 2), 128, copies_and_mma),
    "matmul_tf32": launch(1, 32, tf32),
    "sum_by_shuffles": launch(4, 64, lambda: [[zeros(1), draw(250), 250], {0: [draw(250).sum(dtype=np.float64)]}]),
    "buffers_passed_by_numbered_barriers": launch(1, 64, maps(160, lambda x: x.reshape(5, 32)[:, ::-1].ravel(), 5)),
}

BF16 = ml_dtypes.bfloat16


def tiles(rows, k):
    """out (rows, 8), the maps of a (rows, k) and of b (8, k), and k: out = a @ b^T."""

    def make():
        a, b = draw(rows, k).astype(BF16), draw(8, k, seed=1).astype(BF16)
        product = a.astype(np.float32) @ b.astype(np.float32).T
        return [zeros(rows, 8), tensor_map(a, (64, 64), 128), tensor_map(b, (8, 64), 128), k], {0: product}

    return make


def tile_stored():
    a, b, out = draw(64, 64).astype(BF16), draw(8, 64, seed=1).astype(BF16), zeros(64, 8)
    return [tensor_map(out, (64, 8)), a, b], {0: a.astype(np.float32) @ b.astype(np.float32).T}


RING = 4 * 10 * 1024 + 1024  # bytes
HOPPER = {
    "matmul_with_one_stage": launch(1, 128, tiles(64, 192)),
    "matmul_with_a_ring": launch(1, 288, tiles(128, 448), shared_mem=RING),
    "product_stored_as_a_tile": launch(1, 128, tile_stored),
    "bytes_there_and_back": launch(1, 128, maps(640, lambda x: x + 1, 5)),
    "to_and_fro": launch(1, 64, lambda: [[zeros(1), 5], {0: [15]}]),
}

CLEAN = {"barriers": BARRIERS, "tiles": TILES, "atomics": ATOMICS, "warps": WARPS, "language": LANGUAGE, "ptx": PTX}
CLEAN["hopper"] = HOPPER
