"""Lesson 12: what its kernels should give, and where to look. References return float32 from float64 arithmetic."""

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
    "busiest": WHO,
    "requests": FOUR,
    "efficiency": SECTORS,
}
WHERE_FLAT = WHERE | dict.fromkeys(
    ("race", "never-written", "out-of-bounds"), FLAT
)  # for kernels whose index is the difficulty
WHERE_FOUR = WHERE | dict.fromkeys(("out-of-bounds", "rewrites", "busiest"), FOUR)
WHERE_FOUR |= dict.fromkeys(
    ("race", "never-written"), f"four i has the numbers 4 * i to 4 * i + 3, and the tail begins at n / 4 * 4; {FOUR}"
)
WHERE_LOOP = WHERE | dict.fromkeys(("race", "never-written", "busiest"), LOOP)


def compare_grid(got, rows, cols, block):
    """WrongAnswer unless got is the smallest grid (x, y) whose blocks (x, y) cover cols in x and rows in y."""
    if not isinstance(got, tuple) or len(got) != 2:
        raise WrongAnswer(f"the grid should be a tuple of two, (blocks in x, blocks in y), but is {describe(got)}.")
    wanted = -(-cols // block[0]), -(-rows // block[1])
    if not all(isinstance(n, (int, np.integer)) for n in got):
        right = "the numbers are right; make each an int" if got == wanted else "`/` gives a float, `//` does not"
        raise WrongAnswer(f"a grid is made of whole numbers, and this one is {got}: {right}.", explained=got == wanted)
    if got == wanted:
        return
    case = f"{rows} rows and {cols} columns, in blocks of {block}: expected the grid {wanted}, got {got}."
    if got == (-(-rows // block[0]), -(-cols // block[1])):
        sentence = "the axes are swapped: x runs along the columns, y along the rows"
    elif got == (-(-cols // block[1]), -(-rows // block[0])):
        sentence = "the two numbers of the block are swapped: it is (threads in x, threads in y)"
    elif got == wanted[::-1]:
        sentence = "the grid's axes are in the wrong order: x first, then y"
    else:
        sentence = _first_wrong_axis(got, wanted, (cols, rows), block)
    made = _made_by(got, (cols, rows), block)
    known = f".\n{made}" if made else ""
    raise WrongAnswer(f"{sentence[0].upper()}{sentence[1:]}{known}.\n→ Where to look: {AXES}.\n\n{case}")


def _made_by(got, sizes, block) -> str:
    """A sentence on the formula that gives both numbers of a wrong grid; "" if none of these does, or two do."""
    up, numbers = [-(-n // d) for n, d in zip(sizes, block)], sizes[0] * sizes[1]
    formulas = {
        "that is n // d for both axes, which rounds down: round up": [n // d for n, d in zip(sizes, block)],
        "that is n // d + 1 for both axes, which adds a block where n is a multiple of d": [
            n // d + 1 for n, d in zip(sizes, block)
        ],
        "that is n / d, rounded to the nearest, for both axes: round up": [round(n / d) for n, d in zip(sizes, block)],
        "these are the threads that are needed, not the blocks: divide by those of a block": [
            n * d for n, d in zip(up, block)
        ],
        "these are the numbers of the matrix, not blocks: divide by the threads of a block": [*sizes],
        "these blocks would do for all numbers in one row, but a grid has two axes: take each axis on its own": [
            -(-numbers // (block[0] * block[1])),
            1,
        ],
    }
    found = [words for words, grid in formulas.items() if list(got) == grid]
    return f"{found[0][0].upper()}{found[0][1:]}" if len(found) == 1 else ""


def _first_wrong_axis(got, wanted, sizes, block):
    """The sentence for a grid that is too small or too large along x or y."""
    axis = 0 if got[0] != wanted[0] else 1
    name, what, size, each = "xy"[axis], ("columns", "rows")[axis], sizes[axis], block[axis]
    if got[axis] < wanted[axis]:
        return f"too few blocks in {name}: {got[axis]} · {each} threads for {size} {what}"
    spare = got[axis] - wanted[axis]
    return f"too many blocks in {name}: {spare} of them ha{'ve' if spare > 1 else 's'} nothing to do"


def leaky_relu(x, slope):
    """x where x > 0, else slope · x; any shape."""
    x64 = np.asarray(x, np.float64)
    return np.where(x64 > 0, x64, slope * x64).astype(x.dtype)


def swap_axes(x):
    """(B, T, C) -> (B, C, T), contiguous."""
    return np.ascontiguousarray(x.swapaxes(1, 2))


def split_heads(qkv, NH):
    """(B, T, 3C) -> q, k, v, each (B, NH, T, hs), stacked to (3, B, NH, T, hs)."""
    B, T, width = qkv.shape
    parts = qkv.reshape(B, T, 3, NH, width // (3 * NH))  # (B, T, 3, NH, hs)
    return np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))
