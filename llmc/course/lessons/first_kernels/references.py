"""Lesson 12: what its kernels should give, and where to look. References return float32 from float64 arithmetic."""

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import WrongAnswer, describe

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
    ("race", "never-written"), f"four q has the numbers 4 * q to 4 * q + 3, and the tail begins at n / 4 * 4; {FOUR}"
)
WHERE_LOOP = WHERE | dict.fromkeys(("race", "never-written", "busiest"), LOOP)


def compare_grid(got, rows, cols, block):
    """WrongAnswer unless got is the smallest grid (x, y) whose blocks (x, y) cover cols in x and rows in y."""
    if not isinstance(got, tuple) or len(got) != 2:
        raise WrongAnswer(f"the grid should be a tuple of two, (blocks in x, blocks in y), but is {describe(got)}.")
    wanted = _smallest((cols, rows), block)
    if not all(isinstance(n, (int, np.integer)) for n in got):
        right = "the numbers are right; make each an int" if got == wanted else f"expected {wanted}"
        raise WrongAnswer(f"a grid is made of whole numbers, and this one is {got}: {right}.", explained=got == wanted)
    if got == wanted:
        return
    case = f"{rows} rows and {cols} columns, in blocks of {block}: expected the grid {wanted}, got {got}."
    sentence = _made_by(EXCHANGED, got, (cols, rows), block)
    if not sentence:
        axis = 0 if got[0] != wanted[0] else 1
        more = _along(axis, got, (cols, rows), block)
        more = more or _made_by(FORMULAS, got, (cols, rows), block) or _of_the_other_axis()
        sentence = _wrong_along(axis, got, wanted, (cols, rows), block) + (f".\n{more}" if more else "")
    raise WrongAnswer(f"{sentence[0].upper()}{sentence[1:]}.\n→ Where to look: {AXES}.\n\n{case}")


def _smallest(sizes, block):
    """The right grid (x, y) for sizes (columns, rows)."""
    return tuple(-(-n // d) for n, d in zip(sizes, block))


EXCHANGED = {  # mistakes, and the grid (x, y) that each gives for sizes (columns, rows) and a block (x, y)
    "the axes are swapped: x runs along the columns, y along the rows": lambda n, d: _smallest(n[::-1], d),
    "the two numbers of the block are swapped: it is (threads in x, threads in y)": lambda n, d: _smallest(n, d[::-1]),
    "the grid's axes are in the wrong order: x first, then y": lambda n, d: _smallest(n, d)[::-1],
}
ALONG = {  # mistakes of one axis or of both, and the blocks that each gives for n numbers and d threads
    "n // d{}, which rounds down": lambda n, d: n // d,
    "n // d + 1{}, which adds a block where n is a multiple of d": lambda n, d: n // d + 1,
    "n / d, rounded to the nearest,{}": lambda n, d: round(n / d),
    "round(n / d + 0.5){}: of a half, round goes to the even neighbour, so 16.5 becomes 16, but 3.5 becomes 4": (
        lambda n, d: round(n / d + 0.5)
    ),
    "n / d + 0.5{}, rounded down, which is n / d to the nearest": lambda n, d: int(n / d + 0.5),
    "(n - 1) // d{}": lambda n, d: (n - 1) // d,
    "n / d, rounded up, and 1 more{}": lambda n, d: -(-n // d) + 1,
}
FORMULAS = {
    "These are the threads that are needed, not the blocks": (
        lambda n, d: tuple(blocks * threads for blocks, threads in zip(_smallest(n, d), d))
    ),
    "These are the numbers of the matrix, not blocks": lambda n, d: n,
    "Both are divided by all threads of a block, not by those along the same axis": (
        lambda n, d: tuple(-(-numbers // (d[0] * d[1])) for numbers in n)
    ),
    "The rows are divided by the block's threads along x, too": (lambda n, d: (-(-n[0] // d[0]), -(-n[1] // d[0]))),
    "The columns are divided by the block's threads along y, too": (lambda n, d: (-(-n[0] // d[1]), -(-n[1] // d[1]))),
    "These blocks would do for all numbers in one row, but a grid has two axes": (
        lambda n, d: (-(-n[0] * n[1] // (d[0] * d[1])), 1)
    ),
}
MORE = [((columns, rows), (32, 4)) for columns in (96, 97) for rows in (64, 65)]  # a remainder in none, one, both
MORE += [((128, 68), (32, 4)), ((80, 66), (32, 4)), ((127, 67), (32, 4))]  # other multiples, halves, a rest of most
MORE += [((75, 130), (2, 64)), ((130, 75), (64, 2))]  # blocks whose numbers differ the other way, and more


def _made_by(formulas, got, sizes, block) -> str:
    """The mistake that gives this wrong grid, and those of more calls, if there are any; "" if none does, or two do."""
    more = _grids()
    found = [
        words
        for words, grid in formulas.items()
        if grid(sizes, block) == got and all(grid(*case) == other for case, other in zip(MORE, more))
    ]
    return found[0] if len(found) == 1 else ""


def _along(axis, got, sizes, block) -> str:
    """The mistake that gives the blocks along this axis, in all calls; "" if none does, or two do."""
    cases, grids = [(sizes, block), *MORE], [got, *_grids()]

    def fits(blocks, k):
        return all(
            isinstance(grid, tuple) and len(grid) == 2 and grid[k] == blocks(n[k], d[k])
            for (n, d), grid in zip(cases, grids)
        )

    found = [(words, blocks) for words, blocks in ALONG.items() if fits(blocks, axis)]
    if len(found) != 1:
        return ""
    ((words, blocks),) = found
    where = "for both axes" if fits(blocks, 1 - axis) else f"in {'xy'[axis]}"
    return f"That is {words.format(f' {where}')}"


def _grids() -> list:
    """What the learner's function gives for MORE; [] outside of a check."""
    function = evidence.learners_function()
    return [outcome(function, rows, columns, block) for (columns, rows), block in MORE] if function else []


def _of_the_other_axis() -> str:
    """A sentence if the remainder of one axis decides whether the other gets its last block; else ""."""
    grids = _grids()
    for k, (name, own, other) in enumerate((("x", "columns", "rows"), ("y", "rows", "columns"))):
        as_other = [n[k] // d[k] + (n[1 - k] % d[1 - k] > 0) for n, d in MORE]
        if grids and all(isinstance(grid, tuple) and grid[k] == blocks for grid, blocks in zip(grids, as_other)):
            return f"In {name} a block is added where the {other} leave a remainder, not where the {own} do"
    return ""


def _wrong_along(axis, got, wanted, sizes, block):
    """The sentence for a grid that is too small or too large along x (0) or y (1)."""
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
