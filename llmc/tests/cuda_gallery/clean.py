"""How each clean kernel is launched and what must come out: {file: {kernel: Launch}}.

make() gives the arguments and {index of an argument: the values it must hold afterwards}, from NumPy.
"""

import numpy as np

from llmc.tests.cuda_gallery import draw, integers, launch, zeros

I32, U32, U8, F16 = np.int32, np.uint32, np.uint8, np.float16


def maps(n, function, *more, values=None):
    """A kernel (out, x, ...) of floats: out = function(x)."""

    def make():
        x = draw(n) if values is None else np.asarray(values, np.float32)
        expected = np.asarray(function(x), np.float32)  # its shape is the output's
        return [np.full(expected.shape, np.nan, np.float32), x, *more], {0: expected}

    return make


def maps_ints(n, function, *more, high=100, low=0):
    """The same for int32."""

    def make():
        x = integers(high, n, low=low)
        expected = np.asarray(function(x), I32)
        return [np.full(expected.shape, -7, I32), x, *more], {0: expected}

    return make


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
    "barrier_in_a_uniform_branch": launch(2, 64, maps(128, lambda x: np.concatenate([x[63::-1], x[64:]]))),
    "matmul_in_tiles": launch((3, 3), (8, 8), matmul(19)),
    "matmul_with_two_buffers": launch((3, 3), (8, 8), matmul(24)),
    "transpose_padded": launch((4, 3), (16, 16), transpose),
    "shared_memory_used_twice": launch(
        1, 48, lambda: [[zeros(48, dtype=I32), draw(48)], {0: np.argsort(np.argsort(draw(48)))[::-1]}], shared_mem=192
    ),
    "global_memory_between_barriers": launch(1, 64, global_memory),
    "until_nobody_changes": launch(1, 64, nobody_changes),
    "counts_and_agrees": launch(1, 64, maps_ints(64, lambda x: np.full(64, (x > 0).sum()), low=-99)),
    "barrier_object": launch(1, 64, maps(64, barrier_object, 3)),
    "warps_with_different_tasks": launch(1, 64, maps(160, lambda x: x.reshape(5, 32)[:, ::-1].sum(0), 5)),
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


def warp_sums(x):
    return [x[i : i + 32].sum() for i in range(0, x.size, 32)]


WARPS = {
    "block_sum_by_warps": launch(1, 96, maps(1000, lambda x: [x.sum(dtype=np.float64)], 1000)),
    "tree_with_syncwarp": launch(1, 32, maps(64, lambda x: [x.sum(dtype=np.float64)])),
    "warps_of_their_own": launch(1, 128, maps(320, lambda x: x.reshape(10, 32)[:, ::-1].ravel())),
    "partial_warps": launch(1, 97, maps(97, warp_sums)),
    "shuffle_in_eights": launch(1, 64, maps(64, lambda x: np.repeat(x.reshape(8, 8).sum(1), 8))),
    "scan_by_shuffle": launch(1, 64, maps_ints(64, lambda x: np.cumsum(x.reshape(2, 32), axis=1).ravel())),
    "ballot_before_a_branch": launch(1, 32, maps_ints(32, ballot, high=9)),
    "both_sides_of_a_branch": launch(1, 32, maps(32, branches)),
    "half_returns_half_goes_on": launch(1, 32, maps(20, lambda x: x + x[::-1], 20)),
    "match_groups": launch(1, 32, match_groups),
    "tiles_of_eight": launch(1, 64, maps(64, lambda x: x.reshape(8, 8).sum(1))),
    "reduce_of_the_groups": launch(1, 128, maps(500, lambda x: np.full(128, x.max()), 500)),
}


def in_place():
    x = draw(100)
    return [x, x, 100], {0: x + 1}


def overlapping_views():
    x = draw(101)
    return [zeros(100), x[:100], x[1:], 100], {0: x[:100] + x[1:]}


def halves():
    x = draw(96)
    return [zeros(96, dtype=F16), x], {0: x.astype(F16)}


def bfloat16(x):
    """The upper 16 bits of float32, rounded to the nearest, ties to even."""
    bits = x.view(U32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def bfloats():
    x = draw(96)
    return [zeros(96, dtype=np.uint16), x], {0: bfloat16(x)[::-1]}


def some_bytes():
    x = integers(256, 128, dtype=U8)
    return [zeros(128, dtype=U8), x], {0: (x.reshape(2, 64)[:, ::-1] ^ 0xFF).ravel()}


def smooth(x):
    return 2.0 * (0.5 * x + 0.25 * np.pad(x, (1, 0))[:-1] + 0.25 * np.pad(x, (0, 1))[1:])


def line():
    steps = np.array((1.5, 3), [("slope", np.float32), ("steps", I32)])[()]
    return [zeros(8), steps, np.float32(2)], {0: (2.0 + np.arange(8)) * 1.5**3}


def three_dimensions():
    z, y, x = np.indices((6, 6, 4))
    return [zeros(6, 6, 4, dtype=I32)], {0: 10000 * z + 100 * y + x}


def fibonacci():
    numbers = [0, 1]
    while len(numbers) < 16:
        numbers.append(numbers[-1] + numbers[-2])
    return [zeros(16, dtype=I32)], {0: numbers}


def hashes():
    x = integers(2**31, 32).astype(U32)
    h = x.copy()
    for _ in range(5):
        h = (h ^ (h >> U32(15))) * U32(2654435769) + U32(1)
    return [zeros(32, dtype=U32), x], {0: h + U32(16)}


def tensor_cores():
    a, b = draw(32, 32).astype(F16), draw(32, 32, seed=1).astype(F16)
    return [zeros(32, 32), a, b, 32], {0: a.astype(np.float32) @ b.astype(np.float32)}


LANGUAGE = {
    "grid_stride": launch(2, 33, maps(500, lambda x: 2 * x, 500)),
    "in_place": launch(2, 64, in_place),
    "add": launch(100, 1, overlapping_views),
    "half_neighbours": launch(3, 32, halves),
    "bfloat16_neighbours": launch(3, 32, bfloats),
    "bytes": launch(2, 64, some_bytes),
    "members_of_a_vector": launch(1, 64, maps(64, lambda x: x)),
    "vectors_and_a_tail": launch(1, 64, maps(103, lambda x: -x, 103)),
    "powers": launch(2, 64, maps(100, lambda x: x**3, 100), name="powers<float, 3>"),
    "constant_memory": launch(2, 64, maps(100, smooth, 100)),
    "struct_by_value": launch(1, 8, line),
    "three_dimensions": launch((2, 2, 2), (2, 3, 3), three_dimensions),
    "recursion": launch(1, 16, fibonacci),
    "local_array": launch(1, 10, maps_ints(130, lambda x: np.sort(x.reshape(10, 13), axis=1).ravel(), 13)),
    "function_pointers": launch(1, 32, maps(32, lambda x: np.where(np.arange(32) % 2, x * x, 2 * x))),
    "prints": launch(2, 32, lambda: [[3], {}]),
    "dynamic_shared_in_three_parts": launch(1, 40, maps(40, lambda x: x + x[::-1], 40), shared_mem=640),
    "unsigned_numbers_wrap": launch(1, 32, hashes),
    "pointer_from_one": launch(1, 33, maps(33, lambda x: x[::-1])),
    "matmul_by_tensor_cores": launch((2, 2), 32, tensor_cores),
}

CLEAN = {"barriers": BARRIERS, "atomics": ATOMICS, "warps": WARPS, "language": LANGUAGE}
