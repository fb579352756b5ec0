"""Lesson 13: what its kernels should give, what each well-known mistake gives instead, and where to look.

References return float32 from float64 arithmetic. Mistakes are {sentence after "out equals ": (array, where to look)}.
Several of them come from lanes.py, which does what a warp does.
"""

import numpy as np

from llmc.course.checks.explain import WrongAnswer
from llmc.course.lessons import layernorm, softmax_crossentropy
from llmc.course.lessons.fast_on_cpu.fused import relocated, residual_layernorm, residual_layernorm_mistakes
from llmc.course.lessons.reductions.lanes import (
    GAPS,
    LANES,
    LOWEST,
    back,
    by_lane,
    merged,
    never_rescaled,
    share_of_b,
    shuffled_down,
    shuffled_xor,
    softmax_with,
)

# where to look; a test holds these titles against the headings of the lessons
EDGE = 'lesson 12, section "3 · Make it break: one too many"'
PICTURE = 'lesson 13, section "1 · Many numbers in, one out"'
TREE = 'lesson 13, section "3.2 · v2: one block per row"'
BANKS = 'lesson 13, section "3.3 · Shared memory has 32 doors"'
SHUFFLE = 'lesson 13, section "3.4 · v3: the tree by warp shuffles"'
WARP = 'lesson 13, section "3.5 · v4: one warp per row"'
ONLINE = 'lesson 13, section "3.6 · v5: online"'
CACHED = 'lesson 13, section "3.7 · v6: 128-bit loads"'
TRAP = 'lesson 13, section "4.1 · Two sums, and a trap"'
MERGE = 'lesson 13, section "4.2 · Merging moments"'
RACE = 'lesson 13, section "6.1 · A race"'
LOCKSTEP = 'lesson 13, section "6.2 · Inside a warp"'
FUSED = 'lesson 13, section "7 · Into the package"'

WHERE = {
    "race": RACE,
    "missing-syncwarp": LOCKSTEP,
    "barrier-divergence": PICTURE,
    "deadlock": PICTURE,
    "uninitialised": TREE,
    "never-written": WARP,
    "inactive-lane": SHUFFLE,
    "out-of-bounds": EDGE,
    "misaligned": CACHED,
    "bank_conflicts": BANKS,
    "efficiency": TREE,
    "barriers": WARP,
    "shared_requests": WARP,
    "sectors": CACHED,
    "requests": CACHED,
}

OWN_PLACE = WHERE | {  # exercise 5
    "race": f"do two warps use one place? Give each `kept + threadIdx.x / 32 * (C / 4)`, not a barrier; {CACHED}",
}

CANCELS = (
    "rows with a large mean: E[x²] - E[x]² subtracts two large numbers that agree in nearly all their digits. Merge "
    f"means and squares around the means; {TRAP}"
)
NO_MAXIMUM = (
    "exp overflows above 88.7 and vanishes below -103.9: subtract the row's maximum (start it below every number, not "
    f"at 0), and never take exp of anything above 0; {ONLINE}"
)
NO_NUMBER = f"with C below 32 some lanes see no number, and two of those together still have none: 0 / 0; {MERGE}"


def finite(name, got, why):
    """WrongAnswer with that reason where got holds a NaN or an infinity."""
    if not np.isfinite(got).all():
        raise WrongAnswer(f"{name} has NaN or infinite entries: {why}.")


def all_arrive(report):
    """WrongAnswer where threads had left before a barrier: a GPU lets them, but here they are needed after it."""
    for note in report.notes:
        if note.kind == "early-return":
            raise WrongAnswer(
                f"barrier not reached by all, line {note.line}.\n{note.text.split(': ', 2)[-1]}\n"
                f"Put it where every thread of the block passes: after the `if`, not inside it.\n"
                f"→ Where to look: {PICTURE}."
            )


# ------------------------------------------------------------------------------------------- exercise 1: tree_sum


def row_sums(x):
    """(N, C) -> (N,)."""
    return x.astype(np.float64).sum(axis=1).astype(x.dtype)


def row_sums_mistakes(x, threads) -> dict:
    """Known wrong sums (N,) of blocks of that many threads."""
    x64 = np.asarray(x, np.float64)
    N, C = x64.shape
    each = np.stack([x64[:, t::threads].sum(axis=1) for t in range(threads)], axis=1)  # (N, threads)
    found = {
        "the mean of the row": (x64.mean(axis=1), TREE),
        "the maximum of the row": (x64.max(axis=1), TREE),
        "the sum over everything: each row has a block of its own": (np.full(N, x64.sum()), TREE),
        "the sum of row 0 in every row: blockIdx.x says which row it is": (np.full(N, x64[0].sum()), TREE),
    }
    if C > threads:
        first = "the sum of the first blockDim.x numbers: a thread takes t, t + blockDim.x, … as long as there are any"
        found[first] = (x64[:, :threads].sum(axis=1), TREE)
        found["what thread 0 has added up by itself: the tree's result is partial[0]"] = (each[:, 0], PICTURE)
    missing = "the reference without the {} step of the tree"
    if C > threads // 2:
        found[missing.format("first")] = (each[:, : threads // 2].sum(axis=1), PICTURE)
    if C > 1:
        found[missing.format("last")] = (each[:, ::2].sum(axis=1), PICTURE)
    return found


# ------------------------------------------------------------------------------- exercises 2 and 3: softmax by warps


def softmax(x):
    """(N, C) -> (N, C)."""
    return softmax_crossentropy.softmax(x)


def softmax_mistakes(x) -> dict:
    """Known wrong probabilities (N, C) of moderate x; of lanes only where they have more than a number each."""
    x64 = np.asarray(x, np.float64)
    known = relocated(softmax_crossentropy.softmax_mistakes(x64), WARP)
    return known | _warp_mistakes(x64) if x64.shape[1] > LANES else known


def _warp_mistakes(x64) -> dict:
    """The results of lanes that are not combined as they should be."""
    C, row_top = x64.shape[1], x64.max(axis=1, keepdims=True)  # (N, 1)
    e = np.exp(x64 - row_top)  # (N, C)
    total = e.sum(axis=1, keepdims=True)  # (N, 1)
    of_lane = by_lane(e, 0).sum(axis=1)  # (N, 32)   what each lane has added up
    top = by_lane(x64, LOWEST).max(axis=1)  # (N, 32)
    own = np.exp(by_lane(x64, -np.inf) - top[:, None]).sum(axis=1)  # (N, 32)   relative to the lane's own maximum
    stale = never_rescaled(x64)  # (N, 32)
    own_top = np.exp(x64 - back(top, C))  # (N, C)
    of_row = "exp(x - max) divided by"
    return {
        f"{of_row} the lane's own sum: the lanes have not been added up": (e / back(of_lane, C), SHUFFLE),
        f"{of_row} the sum over 16 of the 32 lanes: the first gap is 16": (
            e / back(shuffled_xor(of_lane, np.add, GAPS[1:]), C),
            SHUFFLE,
        ),
        f"{of_row} the sum over every second lane: the last gap is 1, so go on while gap > 0": (
            e / back(shuffled_xor(of_lane, np.add, GAPS[:-1]), C),
            SHUFFLE,
        ),
        f"{of_row} what __shfl_down_sync leaves in each lane: only lane 0 has the whole sum": (
            e / back(shuffled_down(of_lane, np.add), C),
            SHUFFLE,
        ),
        f"{of_row} sums of the lanes that are relative to each lane's own maximum: rescale, then add": (
            e / own.sum(axis=1, keepdims=True),
            ONLINE,
        ),
        f"{of_row} a sum that was never rescaled, neither in the loop nor between the lanes": (
            e / stale.sum(axis=1, keepdims=True),
            ONLINE,
        ),
        "the reference with a sum that is not rescaled when the maximum grows": (
            e / (stale * np.exp(top - row_top)).sum(axis=1, keepdims=True),
            ONLINE,
        ),
        "exp(x - the lane's maximum) divided by the sum: the maximum must be that of the row": (
            own_top / own.sum(axis=1, keepdims=True),
            SHUFFLE,
        ),
        "exp(x - the lane's maximum) divided by the right sum: top must become that of the row": (
            own_top / total,
            ONLINE,
        ),
    } | _shuffled_tops(x64, top)


def _shuffled_tops(x64, top):
    """The results of maxima that reach only some lanes; top (N, 32) is what each lane has found."""
    down, halved = shuffled_down(top, np.maximum), shuffled_xor(top, np.maximum, GAPS[:-1])  # (N, 32) each
    left = "softmax with the maximum that __shfl_down_sync leaves in each lane: only lane 0 has that of the row"
    every_second = "softmax with the maximum of every second lane: the last gap is 1, so go on while gap > 0"

    def added(of_lane):
        return shuffled_xor(of_lane, np.add)  # (N, 32)

    def left_over(of_lane):
        return shuffled_down(of_lane, np.add)  # (N, 32)

    return {
        left: (softmax_with(x64, down, added), SHUFFLE),
        f"{left}, and the same is true of the sum": (softmax_with(x64, down, left_over), SHUFFLE),
        every_second: (softmax_with(x64, halved, added), SHUFFLE),
    }


# ------------------------------------------------------------------------------------- exercises 4 and 5: layernorm


def normed(x, w, b):
    """out (N, C), mean and rstd (N,) of rows x (N, C)."""
    return layernorm.forward(x, w, b)


def normed_mistakes(x, w, b) -> dict:
    """Known wrong out, mean and rstd of x (N, C): a dict of mistakes for each."""
    known = {name: _placed(wrong, MERGE) for name, wrong in layernorm.forward_mistakes(x, w, b).items()}
    averaged, _ = merged(x, mean=lambda a, b: (a[1] + b[1]) / 2)  # (N,)
    turned, _ = merged(x, mean=lambda a, b: a[1] + (b[1] - a[1]) * (1 - share_of_b(a, b)))  # (N,)
    _, undivided = merged(x, squares=lambda a, b: a[2] + b[2] + (b[1] - a[1]) ** 2 * a[0] * b[0])  # (N,)
    lost, _ = merged(x, count=lambda a, b: a[0])  # (N,)
    known["mean"] |= {
        "the last number that lane 0 has seen: the count of both parts is n_a + n_b": (lost, MERGE),
        "the result of averaging the two means: the part with more numbers counts for more": (averaged, MERGE),
        "the result of moving the mean by a's share: towards b it moves by b's share": (turned, MERGE),
    }
    known["rstd"] |= {
        "the result of squares with gap² · n_a · n_b, which must be divided by n": (_rstd(undivided, x), MERGE),
        "1 / √eps: the squares stay 0. gap² · n_a · n_b / n is what two parts add when they merge": (
            _rstd(np.zeros(len(x)), x),
            MERGE,
        ),
    }
    return known


def _placed(mistakes, where) -> dict:
    """Known mistakes of an earlier lesson, with a place to look in this one; eps has its place there."""
    moved = relocated(mistakes, where)
    return {
        s: (array, layernorm.EPSILON if "the reference with" in s and "eps" in s else place)
        for s, (array, place) in moved.items()
    }


def _rstd(squares, x):
    """(N,) from sums of (x - mean)² (N,)."""
    return 1 / np.sqrt(squares / x.shape[1] + layernorm.EPS)


def fused(x1, x2, w, b):
    """residual, out (N, C), mean, rstd (N,)."""
    return residual_layernorm(x1, x2, w, b)


def fused_mistakes(x1, x2, w, b) -> dict:
    """Known wrong residual, out, mean and rstd: a dict of mistakes for each."""
    known = {name: _placed(wrong, FUSED) for name, wrong in residual_layernorm_mistakes(x1, x2, w, b).items()}
    one_of_four = np.arange(x1.shape[1]) % 4 == 0  # (C,)
    total, few = x1 + x2, x1 + one_of_four * x2  # (N, C) each
    squares = (one_of_four * (total - total.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)  # (N,)
    fourth = "a quarter of the numbers: a float4 has x, y, z and w, and all four count"
    known["residual"][f"x1 with x2 added to {fourth}"] = few, CACHED
    known["mean"][f"1 / C times the sum of {fourth}"] = (one_of_four * total).sum(axis=1) / x1.shape[1], CACHED
    known["rstd"][f"the result with the squares of {fourth}"] = _rstd(squares, x1), CACHED
    return known
