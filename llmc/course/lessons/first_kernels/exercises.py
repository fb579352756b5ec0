"""Lesson 12's exercises: what is right, what is tried, and which mistakes have a name."""

from math import prod

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import describe

WHO, GELU = "1.2 · Who am I?", "2 · GELU, one thread for one number"
FLAT, FOUR = "5 · The encoder, and one flat index", "7 · Four numbers at a time"
SECTIONS = {
    "out-of-bounds": "3 · Make it break: one too many",
    "race": WHO,
    "never-written": WHO,
    "uninitialised": WHO,
    "misaligned": FOUR,
    "rewrites": WHO,
    "busiest": WHO,
    "requests": FOUR,
    "efficiency": "6.1 · What a warp asks for",
}
OF_FOURS = 'lesson 12, section "7 · Four numbers at a time": four q has the numbers 4 * q to 4 * q + 3, '
OF_FOURS += "and the tail begins at n / 4 * 4"

# ------------------------------------------------------------------------------------------------------- inputs


def matrices(c):
    """rows, cols, block (x, y): first those that tell mistakes apart, with remainders in neither, one or both axes."""
    yield from ((5, 9, (4, 2)), (64, 128, (32, 4)), (3, 129, (8, 32)), (60, 90, (32, 4)), (130, 75, (64, 2)))
    yield from ((65, 96, (32, 4)), (64, 97, (32, 4)), (64, 96, (32, 4)), (5, 7, (4, 2)), (75, 130, (2, 64)))
    yield from ((66, 80, (32, 4)), (67, 127, (32, 4)), (68, 128, (32, 4)), (65, 97, (32, 4)), (3, 129, (32, 8)))
    yield from ((300, 3, (2, 128)), (1, 1, (16, 16)))


def numbers_of_both_signs(c):
    """x (n,), slope, threads: a 0, a small number, one between slope and 1; a slope above 1."""
    for n, blocks in ((20, (8,)), *((n, (256, 128, 96)) for n in (1000, 129, 127, 1, 256))):
        x, slope = c.random(n, 3)[:, 0], np.float32(c.rng.uniform(0.1, 0.5))  # (n,), both signs
        slope = slope if n != 129 else np.float32(1.7)  # nothing says that it is small
        x[n // 3], x[0], x[n // 2] = 0.0, 0.1, 0.9
        c.new("slope is above 1" if n == 129 else "")
        yield from ((x, slope, threads) for threads in blocks)


def three_axes(c):
    """x (B, T, C), threads: T larger and smaller than C, one sequence, one position."""
    large = (3, 5, 7), (2, 9, 4), (1, 3, 129), (4, 1, 6), (2, 16, 32)
    for shape, blocks in (((2, 3, 4), (8,)), *((shape, (128, 96, 32)) for shape in large)):
        x = c.random(*shape)  # (B, T, C)
        yield from ((x, threads) for threads in blocks)


def pairs(c):
    """x1, x2 (n,), threads: every remainder of n / 4, and fewer than four numbers."""
    for n, blocks in ((19, (2,)), *((n, (128, 96, 32)) for n in (1000, 127, 129, 130, 1024, 3, 1))):
        x1, x2 = c.random(n), c.random(n)  # (n,) each
        yield from ((x1, x2, threads) for threads in blocks)


def grids(c):
    """a, x (n,), blocks, threads: fewer threads than numbers, as many, more."""
    for n in (20, 1000, 127, 1):
        a = np.float32(c.rng.uniform(2, 3))
        of_1000 = (3, 128), (8, 128), (1, 96), (2, 32), (9, 256), (2, 1)
        for blocks, threads in of_1000 if n != 20 else ((2, 4), (2, 4), (1, 8)):
            yield a, c.random(n), blocks, threads


def rows_of_heads(c):
    """qkv (B, T, 3C), NH, hs, blocks, threads: just enough threads, then far more; finally GPT-2's head of 64."""
    for B, T, NH, hs in [(5, 7, 6, 8), (2, 5, 7, 4), (3, 5, 2, 12), (1, 7, 3, 20)]:
        qkv = c.random(B, T, 3 * NH * hs)  # (B, T, 3C)
        n = qkv.size
        for blocks, threads in ((-(-n // 512), 128), (-(-n // 32), 32)) if n != 840 else ((18, 12),):
            yield qkv, NH, hs, blocks, threads
    yield c.random(2, 16, 768), 4, 64, 24, 256


# --------------------------------------------------------------------------------------------------------- rules


def whole_blocks(tried):
    """A sentence unless the grid is a tuple of two whole numbers."""
    grid, right = tried.got["grid"], tried.expected["grid"]
    if not isinstance(grid, tuple) or len(grid) != 2:
        return f"the grid should be a tuple of two, (blocks in x, blocks in y), but is {describe(grid)}"
    if not all(isinstance(n, int | np.integer) for n in grid):
        wanted = "the numbers are right; make each an int" if grid == right else f"expected {right}"
        return f"a grid is made of whole numbers, and this one is {grid}: {wanted}"
    return None


def a_turn_each(tried):
    """A sentence if only the first numbers were added to, as many as the grid has threads."""
    raw, right = tried.check.report.raw, tried.expected["y"]
    threads, added = prod(raw.grid) * prod(raw.block), tried.got["y"] - tried.given["y"]  # (n,)
    if threads >= len(right) or added[threads:].any() or not np.allclose(added[:threads], right[:threads], atol=1e-3):
        return None
    return (
        f"a * x was added to the first {threads} numbers alone, as many as the grid has threads, and y has {len(right)}"
    )


def split(qkv, B, T, NH, hs):
    """(B, T, 3C) -> q, k, v, each (B, NH, T, hs), stacked into (3, B, NH, T, hs)."""
    return np.ascontiguousarray(qkv.reshape(B, T, 3, NH, hs).transpose(2, 0, 3, 1, 4))


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "grid_for",
    "12",
    returns="grid",
    cases=matrices,
    rules=(whole_blocks,),
    look="1.3 · Warps, and blocks with two axes",
    mistakes=r"""
        with the axes swapped: x runs along the columns, y along the rows
            | return -(-rows // block[0]), -(-cols // block[1])
        with the two numbers of the block swapped: it is (threads in x, threads in y)
            | return -(-cols // block[1]), -(-rows // block[0])
        with y first: a grid is (blocks in x, blocks in y) | return blocks_x, blocks_y => return blocks_y, blocks_x
        = round(cols / block[0]) and round(rows / block[1]), which may be too few
            | return round(cols / block[0]), round(rows / block[1])
        = cols // block[0] and rows // block[1], which round down | return cols // block[0], rows // block[1]
        = cols // block[0] + 1 and rows // block[1] + 1: a block too many where the block divides the size
            | return cols // block[0] + 1, rows // block[1] + 1
        = the numbers of the matrix, not blocks | return cols, rows
        = the threads that are needed, not the blocks
            | return blocks_x, blocks_y => return blocks_x * block[0], blocks_y * block[1]
        with rows and cols divided by all threads of a block, not by those along the same axis
            | n = block[0] * block[1]\nreturn -(-cols // n), -(-rows // n)
        = the blocks that all numbers would need in one row, but a grid has two axes
            | return -(-rows * cols // (block[0] * block[1])), 1
        with a block added in y where the columns leave a remainder, not where the rows do
            | blocks_y = … => blocks_y = rows // block[1] + (cols % block[0] > 0)
        with the rows divided by block[0], the threads along x | blocks_y = … => blocks_y = -(-rows // block[0])
    """,
)

Exercise(
    "leaky_relu",
    "12",
    reference=lambda out, x, slope, n: np.where(x > 0, x, slope * x),
    writes="out",
    cases=numbers_of_both_signs,
    look=SECTIONS | {"": GELU},
    mistakes=r"""
        = max(x, slope · x): the same only while slope is below 1
            | x[i] > 0.0f ? x[i] : slope * x[i] => fmaxf(x[i], slope * x[i])
        = ReLU, 0 for every x below 0 | : slope * x[i] => : 0.0f
        = slope · x everywhere: it is x where x is above 0 | x[i] > 0.0f ? x[i] : slope * x[i] => slope * x[i]
        with the two branches swapped | x[i] > 0.0f => x[i] < 0.0f
        with slope where x is below 0: it is not multiplied by x | : slope * x[i] => : slope
        = x itself, also where x is below 0 | : slope * x[i] => : x[i]
        with x + slope · x where x is below 0: there it is slope · x alone | : slope * x[i] => : x[i] + slope * x[i]
        with x + slope · x where x is above 0: there it is x alone | ? x[i] : => ? x[i] + slope * x[i] :
        with slope · x also where x is between 0 and 1 | x[i] > 0.0f => x[i] >= 1.0f
        with slope · x also where x is between 0 and slope | x[i] > 0.0f => x[i] > slope
        of x cut to whole numbers, as an int holds them
            | x[i] > 0.0f ? x[i] : slope * x[i] => (int)x[i] > 0 ? (int)x[i] : slope * (int)x[i]
    """,
)

Exercise(
    "swap_axes",
    "12",
    reference=lambda out, x, B, T, C: np.ascontiguousarray(x.swapaxes(1, 2)),
    writes="out",
    cases=three_axes,
    look=SECTIONS | {"": FLAT, "race": FLAT, "never-written": FLAT, "out-of-bounds": FLAT},
    mistakes=r"""
        = x in its old order: nothing moved | out[(b * C + c) * T + t] => out[i]
        with T and C exchanged in an index; `out[i] = x[j]` in place of `out[j] = x[i]` gives the same numbers
            | out[(b * C + c) * T + t] = x[i] => out[i] = x[(b * C + c) * T + t]
        = x with all three axes reversed, (C, T, B) | (b * C + c) * T + t => (c * T + t) * B + b
        = x as (C, B, T): b and c changed places, too | (b * C + c) * T + t => (c * B + b) * T + t
        = x as (T, B, C): b and t were swapped | (b * C + c) * T + t => (t * B + b) * C + c
        with the numbers of b = 0 for every b | = x[i] => = x[i % (T * C)]
        with x[i / C] in place of x[i] | = x[i] => = x[i / C]
        with x read as if it were (T, B, C): it is (B, T, C) | = x[i] => = x[(t * B + b) * C + c]
        of x cut to whole numbers, as an int holds them | = x[i] => = (int)x[i]
    """,
)

Exercise(
    "residual_vec4",
    "12",
    reference=lambda out, x1, x2, n: x1 + x2,
    writes="out",
    cases=pairs,
    look=SECTIONS
    | dict.fromkeys(("", "out-of-bounds", "rewrites", "busiest"), FOUR)
    | dict.fromkeys(("race", "never-written"), OF_FOURS),
    mistakes=r"""
        with x1 alone behind the last whole four | x1[k] + x2[k] => x1[k]
        with x2 alone behind the last whole four | x1[k] + x2[k] => x2[k]
        = x1 alone | a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w => a.x, a.y, a.z, a.w ;; x1[k] + x2[k] => x1[k]
        = x2 alone | a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w => b.x, b.y, b.z, b.w ;; x1[k] + x2[k] => x2[k]
        with the first number of four in all four places
            | a.y + b.y, a.z + b.z, a.w + b.w => a.x + b.x, a.x + b.x, a.x + b.x
        with .x of each four in place of .w | a.w + b.w) => a.x + b.x)
        with .z and .w of each four exchanged | a.z + b.z, a.w + b.w => a.w + b.w, a.z + b.z
        with the first numbers of x1 and x2 behind the last whole four | x1[k] + x2[k] => x1[k - i] + x2[k - i]
    """,
)

Exercise(
    "axpy",
    "12",
    reference=lambda y, x, a, n: a * x,
    adds="y",
    cases=grids,
    rules=(a_turn_each,),
    look=SECTIONS | dict.fromkeys(("", "race", "never-written", "busiest"), "8 · A loop over the grid"),
    mistakes=r"""
        = a · y + x - y, so y became a · y + x: y was multiplied by a, and x was not
            | y[i] += a * x[i] => y[i] = a * y[i] + x[i]
        = x: it is not multiplied by a | a * x[i] => x[i]
        = a: it is not multiplied by x | a * x[i] => a
        = a · y, not a · x | a * x[i] => a * y[i]
        = a · x from every thread for every number | int i = thread; => int i = 0; ;; i += threads => i++
            ;; y[i] += a * x[i] => atomicAdd(&y[i], a * x[i])
        = a · x from every block for every number | int i = thread; => int i = threadIdx.x;
            ;; i += threads => i += blockDim.x ;; y[i] += a * x[i] => atomicAdd(&y[i], a * x[i])
        = a · x plus what the thread's turns before have added
            | for (int i => float sum = 0; for (int i ;; y[i] += a * x[i] => y[i] += sum += a * x[i]
        = a · x with x cut to whole numbers, as an int holds them | a * x[i] => a * (int)x[i]
    """,
)

Exercise(
    "split_heads",
    "12",
    reference=lambda out, qkv, B, T, NH, hs: split(qkv, B, T, NH, hs),
    writes="out",
    cases=rows_of_heads,
    look=SECTIONS | dict.fromkeys(("", "race", "never-written", "out-of-bounds"), FLAT),
    mistakes=r"""
        = qkv in its old order: nothing moved | four = … => four = qkv + i;
        = qkv split, but its heads not moved: still (3, B, T, NH, hs)
            | t = i / hs % T => h = i / hs % NH ;; h = i / (hs * T) % NH => t = i / (hs * NH) % T
        with each head's q, k and v side by side: a row of qkv is [Q; K; V], heads inside
            | four = … => four = qkv + (((b * T + t) * NH + h) * 3 + s) * hs + j;
        with channel c in head c % NH: heads are hs channels side by side | const float* four = …
            => for (int k = 0; k < 4; k++) out[i + k] = qkv[((b * T + t) * 3 + s) * NH * hs + (j + k) * NH + h];
            ;; *reinterpret_cast<float4*>(out + i) = *reinterpret_cast<const float4*>(four); =>
        with k and v swapped | * 3 + s) => * 3 + (3 - s) % 3)
        with batch and head swapped, (3, NH, B, T, hs)
            | h = i / (hs * T) % NH => b = i / (hs * T) % B ;; b = i / (hs * T * NH) % B => h = i / (hs * T * B) % NH
        laid out as (B, 3, NH, T, hs): out is (3, B, NH, T, hs)
            | b = i / (hs * T * NH) % B => s = i / (hs * T * NH) % 3
            ;; s = i / (hs * T * NH * B) => b = i / (hs * T * NH * 3)
        with qkv read as if it were (3, B, T, NH, hs): it is (B, T, 3, NH, hs)
            | (b * T + t) * 3 + s => (s * B + b) * T + t
        with qkv read as if it were (T, B, 3, NH, hs): it is (B, T, 3, NH, hs) | (b * T + t) * 3 => (t * B + b) * 3
        with t = i / hs % NH and h = i / (hs * NH) % T: T and NH are exchanged
            | t = i / hs % T => t = i / hs % NH ;; h = i / (hs * T) % NH => h = i / (hs * NH) % T
        with the first of four numbers in all four
            | *reinterpret_cast<const float4*>(four) => make_float4(*four, *four, *four, *four)
    """,
)
