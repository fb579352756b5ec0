"""Lesson 12: what its kernels should give, what each well-known mistake gives instead, and where to look.

References return float32 from float64 arithmetic. Mistakes are {sentence after "out equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.checks.explain import WrongAnswer, describe

# where to look; a test holds these titles against the headings of notebooks/12_first_kernels.ipynb
WHO = 'lesson 12, section "1.2 · Who am I?"'
AXES = 'lesson 12, section "1.3 · Warps, and blocks with two axes"'
GELU = 'lesson 12, section "2 · GELU, one thread for one number"'
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
FLAT = 'lesson 12, section "5 · The encoder, and one flat index"'
SECTORS = 'lesson 12, section "6.1 · What a warp asks for"'
FOUR = 'lesson 12, section "7 · Four numbers at a time"'
LOOP = 'lesson 12, section "8 · A loop over the grid"'

WHERE = {
    "out-of-bounds": EDGE,
    "race": WHO,
    "never-written": WHO,
    "uninitialised": WHO,
    "misaligned": FOUR,
    "rewrites": WHO,
    "requests": FOUR,
    "efficiency": SECTORS,
}
WHERE_FLAT = WHERE | dict.fromkeys(
    ("race", "never-written", "out-of-bounds"), FLAT
)  # for kernels whose index is the difficulty
WHERE_FOUR = WHERE | dict.fromkeys(("out-of-bounds", "never-written"), FOUR)
WHERE_LOOP = WHERE | dict.fromkeys(("race", "never-written"), LOOP)


# ----------------------------------------------------------------------------------------- exercise 1: the grid


def compare_grid(got, rows, cols, block):
    """WrongAnswer unless got is the smallest grid (x, y) whose blocks (x, y) cover cols in x and rows in y."""
    if not isinstance(got, tuple) or len(got) != 2:
        raise WrongAnswer(f"the grid should be a tuple of two, (blocks in x, blocks in y), but is {describe(got)}.")
    if not all(isinstance(n, (int, np.integer)) for n in got):
        raise WrongAnswer(f"a grid is made of whole numbers, and this one is {got}: `/` gives a float, `//` does not.")
    wanted = -(-cols // block[0]), -(-rows // block[1])
    if got == wanted:
        return
    case = f"{rows} rows and {cols} columns, in blocks of {block}: expected the grid {wanted}, got {got}."
    if got == (-(-rows // block[0]), -(-cols // block[1])):
        sentence = "the axes are swapped: x runs along the columns, y along the rows"
    elif got == wanted[::-1]:
        sentence = "the grid's axes are in the wrong order: x first, then y"
    else:
        sentence = _first_wrong_axis(got, wanted, (cols, rows), block)
    raise WrongAnswer(f"{sentence[0].upper()}{sentence[1:]}.\n→ Where to look: {AXES}.\n\n{case}")


def _first_wrong_axis(got, wanted, sizes, block):
    """The sentence for a grid that is too small or too large along x or y."""
    axis = 0 if got[0] != wanted[0] else 1
    name, what, size, each = "xy"[axis], ("columns", "rows")[axis], sizes[axis], block[axis]
    if got[axis] < wanted[axis]:
        return f"too few blocks in {name}: {got[axis]} · {each} threads for {size} {what}"
    spare = got[axis] - wanted[axis]
    return f"too many blocks in {name}: {spare} of them ha{'ve' if spare > 1 else 's'} nothing to do"


# --------------------------------------------------------------------------------------- exercise 2: leaky ReLU


def leaky_relu(x, slope):
    """x where x > 0, else slope · x; any shape."""
    x64 = np.asarray(x, np.float64)
    return np.where(x64 > 0, x64, slope * x64).astype(x.dtype)


def leaky_relu_mistakes(x, slope) -> dict:
    """Known wrong results; with a slope above 1 the two branches, swapped, are a maximum."""
    x64 = np.asarray(x, np.float64)
    swapped = "the reference with the two branches swapped"
    if slope > 1:
        swapped = "max(x, slope · x): the same only while slope is below 1"
    return {
        "ReLU, 0 for every x below 0: slope is not used": (np.maximum(x64, 0), GELU),
        "slope · x everywhere: what about x above 0?": (slope * x64, GELU),
        "slope where x is below 0: it is not multiplied by x": (np.where(x64 > 0, x64, slope), GELU),
        swapped: (np.where(x64 > 0, slope * x64, x64), GELU),
        "x itself": (x64, GELU),
    }


# ---------------------------------------------------------------------------------------- exercise 3: swap axes


def swap_axes(x):
    """(B, T, C) -> (B, C, T), contiguous."""
    return np.ascontiguousarray(x.swapaxes(1, 2))


def swap_axes_mistakes(x) -> dict:
    """Known wrong arrays, all (B, C, T)."""
    B, T, C = x.shape
    shape = B, C, T
    back = np.ascontiguousarray(x.reshape(B, C, T).swapaxes(1, 2)).reshape(shape)  # t and c taken with T and C swapped
    return {
        "x in its old order: nothing moved": (x.reshape(shape), FLAT),
        "the reference with T and C exchanged, where the index is taken apart or put together": (back, FLAT),
        "x with all three axes reversed, (C, T, B)": (x.transpose(2, 1, 0).reshape(shape), FLAT),
        "x as (C, B, T): b and c changed places too": (x.transpose(2, 0, 1).reshape(shape), FLAT),
        "x as (T, B, C): b and t were swapped": (x.swapaxes(0, 1).reshape(shape), FLAT),
    }


# -------------------------------------------------------------------------------- exercises 4 and 5: four, and loop


def residual_mistakes(x1, x2) -> dict:
    """Known wrong sums (n,) of float4 kernels; the tail is whatever is behind the last whole four."""
    n = x1.size
    whole = n // 4 * 4
    right = x1.astype(np.float64) + x2  # (n,)
    fours = right[:whole].reshape(-1, 4)  # (n // 4, 4)

    def with_fours(changed):
        return np.concatenate([changed.reshape(-1), right[whole:]])  # (n,)

    found = {
        f"the reference with .{'xyzw'[a]} in place of .{'xyzw'[k]}": (
            with_fours(np.where(np.arange(4) == k, fours[:, [a]], fours)),
            FOUR,
        )
        for k in range(4)
        for a in range(4)
        if a != k
    }
    return found | {
        "x1 alone": (x1, FOUR),
        "x2 alone": (x2, FOUR),
        "x1 - x2": (x1.astype(np.float64) - x2, FOUR),
        "2 · x1": (2.0 * x1, FOUR),
        "the reference with the first number of four in all four places": (
            with_fours(np.repeat(fours[:, :1], 4, 1)),
            FOUR,
        ),
    }


def axpy_mistakes(a, x, threads) -> dict:
    """Known wrong things to add to y (n,), for a grid of that many threads."""
    x64 = np.asarray(x, np.float64)
    first = np.arange(x.size) < threads  # (n,)
    return {
        "the reference for the first numbers alone, one for each thread: the loop is missing": (
            np.where(first, a * x64, 0.0),
            LOOP,
        ),
        "x: it is not multiplied by a": (x64, LOOP),
        "a: it is not multiplied by x": (np.full_like(x64, a), LOOP),
        "a + x": (a + x64, LOOP),
    }


# ----------------------------------------------------------------------------------------- exercise 6: split qkv


def split_heads(qkv, NH):
    """(B, T, 3C) -> q, k, v, each (B, NH, T, hs), stacked to (3, B, NH, T, hs)."""
    B, T, width = qkv.shape
    parts = qkv.reshape(B, T, 3, NH, width // (3 * NH))  # (B, T, 3, NH, hs)
    return np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))


def split_heads_mistakes(qkv, NH) -> dict:
    """Known wrong arrays, all (3, B, NH, T, hs)."""
    right = split_heads(qkv, NH)
    B, T, width = qkv.shape
    hs = width // (3 * NH)
    per_head = qkv.reshape(B, T, NH, 3, hs).transpose(3, 0, 2, 1, 4)  # q, k, v of a head side by side
    slow_heads = qkv.reshape(B, T, 3, hs, NH).transpose(2, 0, 4, 1, 3)  # heads fastest
    return {
        "qkv split, but its heads were not moved: still (B, T, C)": (
            qkv.reshape(B, T, 3, NH * hs).transpose(2, 0, 1, 3).reshape(right.shape),
            FLAT,
        ),
        "qkv in its old order: nothing moved": (qkv.reshape(right.shape), FLAT),
        "the reference with each head's q, k and v side by side: a row of qkv is [Q; K; V], heads inside": (
            per_head,
            FLAT,
        ),
        "the reference with channel c in head c % NH: heads are hs channels side by side": (slow_heads, FLAT),
        "the reference with k and v swapped": (right[[0, 2, 1]], FLAT),
        "the reference with q and k swapped": (right[[1, 0, 2]], FLAT),
        "the reference with batch and head swapped, (NH, B, T, hs)": (
            right.swapaxes(1, 2).reshape(right.shape),
            FLAT,
        ),
        "q in all three": (right[[0, 0, 0]], FLAT),
    }
