"""Lesson 13's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.layernorm.rows import forward
from llmc.course.lessons.reductions.teamwork import shared_work  # noqa: F401, for the check cells

FAR = 700  # rows around it: a difference of two large numbers loses its digits
CANCELS = "rows around {}, where E[x²] - E[x]² subtracts two numbers that agree in nearly all their digits"
SECTIONS = {
    **dict.fromkeys(("barrier-divergence", "deadlock", "shared_atomics"), "1 · Many numbers in, one out"),
    **dict.fromkeys(("uninitialised", "efficiency"), "3.2 · v2: one block per row"),
    "bank_conflicts": "3.3 · Shared memory has 32 doors",
    "inactive-lane": "3.4 · v3: the tree by warp shuffles",
    **dict.fromkeys(("race in global memory", "never-written"), "3.5 · v4: one warp per row"),
    **dict.fromkeys(("misaligned", "sectors", "requests"), "3.7 · v6: 128-bit loads"),
    "race": "6.1 · A race",
    "missing-syncwarp": "6.2 · Inside a warp",
    "out-of-bounds": 'lesson 12, section "3 · Make it break: one too many"',
}

# ------------------------------------------------------------------------------------------------------- inputs


def sizes_of_rows(c):
    """N, C, threads: rows longer and shorter than the block, and a row of one number."""
    for N, C in ((6, 300), (4, 1100), (5, 127), (4, 7), (1, 1)):
        yield from ((N, C, threads) for threads in (256, 128, 32, 256))


def logits(c, blocks=(256, 96, 32), sizes=((5, 129), (9, 33), (4, 7), (2, 1100))):
    """x (N, C), threads: rows around ±300, then rows with one number far above the others."""
    for (N, C), offset, far in [
        *((size, 0, 0) for size in sizes),
        ((6, 127), 300, 0),
        ((6, 127), -300, 0),
        ((9, 129), 0, 2000),
    ]:
        c.new(f"rows around {offset}" if offset else "one number of each row is far above the others" if far else "")
        for threads in blocks:
            x = c.random(N, C) + np.float32(offset)  # (N, C)
            x[np.arange(N), (15 * np.arange(N) + 5) % C] += far * np.arange(1, N + 1)
            yield x, threads


def rows_to_norm(c):
    """x (N, C), w, b (C,), threads: scaled to 0.01, so that eps shows; finally rows around FAR."""
    for N, C, scale, offset in [(5, 129, 1, 0), (2, 1100, 1, 0), (4, 7, 0.01, 0), (3, 33, 0.01, 0), (6, 127, 1, FAR)]:
        c.new(CANCELS.format(offset) if offset else "")
        for threads in (256, 32):
            yield np.float32(scale) * c.random(N, C) + np.float32(offset), c.random(C), c.random(C), threads


def rows_to_add(c):
    """x1, x2 (N, C), w, b (C,), C a multiple of 4: scaled to 0.01, so that eps shows; rows around FAR."""
    sizes = (5, 132, 1), (3, 4, 1), (9, 60, 0.01), (2, 1024, 1)
    for N, C, scale, offset in [*((*size, 0) for size in sizes), (2, 1024, 1, FAR), (16, 768, 1, 0)]:
        c.new(CANCELS.format(2 * offset) if offset else "")
        yield *(np.float32(scale) * c.random(2, N, C) + np.float32(offset)), c.random(C), c.random(C)


# --------------------------------------------------------------------------------------------------------- rules


def all_arrive(c):
    """WrongAnswer where threads had left before a barrier: a GPU lets them, but here they are needed after it."""
    for note in c.report.notes:
        if note.kind == "early-return":
            told = f"barrier not reached by all, line {note.line}: here all threads are needed after it"
            raise WrongAnswer(told, look=c.exercise.place("1 · Many numbers in, one out"))


def finite(tried):
    """A sentence about quotients by sums that are 0 everywhere, or about overflow."""
    out = tried.got["out"]
    if np.isfinite(out).all() and (out.any() or not tried.expected["out"].any()):
        return None
    what = "NaN or infinite numbers" if not np.isfinite(out).all() else "zeros alone, and each row should add up to 1"
    row = int(np.isfinite(out).all(axis=1).argmin())
    top = tried.given["x"][row].max()
    limits = "exp overflows above 88.7 and vanishes below -103.9, and x - the row's maximum is never above 0"
    below = f". The maximum of row {row} is {top:.0f}, which no search finds that begins at 0" * bool(top < -100)
    return f"out has {what}: {limits}{below}"


def empty_parts(tried):
    """A sentence if mean is not a number."""
    if not np.isfinite(tried.got["mean"]).all():
        return "mean is no number: `merge` must also work if one part is empty, with a count of 0, or both are"


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "tree_sum",
    "13",
    reference=lambda out, x, N, C: x.astype(np.float64).sum(axis=1).astype(x.dtype),
    writes="out",
    cases=sizes_of_rows,
    atol=1e-3,
    look=SECTIONS | {"": "3.2 · v2: one block per row", "never-written": "3.2 · v2: one block per row"},
    mistakes=r"""
        = what thread 0 has added up by itself: what the others have is missing | partial[t] += partial[t + half]; => ;
        = the sum of what half of the threads have: what the others have is missing | blockDim.x / 2 => blockDim.x / 4
        = the sum of the first blockDim.x numbers of the row | c += blockDim.x => c += C
        = the sum of what the first 32 threads have: what the others have is missing | blockDim.x / 2 => 16
        = what threads 0, 2, 4, … have: what the others have is missing | half > 0 => half > 1
        = the sum without the first number of the row | int c = t; => int c = t + 1;
        = the sum without the last number of the row | c < C => c < C - 1
        = the sum of each thread's last number: an earlier one is lost | sum += x[c] => sum = x[c]
        = the sum of threads that all begin at 0: thread t begins at t | int c = t; => int c = 0;
        = the mean of the row | = partial[0] => = partial[0] / C
        = the maximum of the row | sum += x[c] => sum = fmaxf(sum, x[c]) ;; partial[t] += partial[t + half]
            => partial[t] = fmaxf(partial[t], partial[t + half]) ;; float sum = 0.0f => float sum = -3.4e38f
    """,
)

SOFTMAX = r"""
    = exp(x - max), not divided by its sum | / total => / 1.0f
    = exp(x - max) divided by C | / total => / C
    = x divided by the sum: the exp is missing | out[c] = expf(x[c] - top) => out[c] = x[c]
"""

Exercise(
    "warp_softmax",
    "13",
    reference=lambda out, x, N, C: softmax_crossentropy.softmax(x),
    writes="out",
    cases=logits,
    rules=(finite,),
    look=SECTIONS | {"": "3.5 · v4: one warp per row"},
    mistakes=SOFTMAX
    + r"""
        = exp(x - max) divided by the lane's own sum, not that of all lanes
            | total += __shfl_xor_sync(0xffffffff, total, gap) =>
        = exp(x - max) divided by the sum over every second lane
            | gap = 16; gap > 0; gap /= 2) total => gap = 16; gap > 1; gap /= 2) total
        = the softmax with what __shfl_down_sync leaves as the sum: only lane 0 has the whole sum
            | total += __shfl_xor_sync => total += __shfl_down_sync
        = the softmax with the maximum that __shfl_down_sync leaves in each lane
            | __shfl_xor_sync(0xffffffff, top => __shfl_down_sync(0xffffffff, top
        = the softmax with what __shfl_down_sync leaves in each lane, as the maximum and as the sum
            | total += __shfl_xor_sync => total += __shfl_down_sync
            ;; __shfl_xor_sync(0xffffffff, top => __shfl_down_sync(0xffffffff, top
        = exp(x - max) divided by the sum that __shfl_sync leaves: its last argument is a lane, not a distance
            | total += __shfl_xor_sync => total += __shfl_sync
        = exp(x - the lane's maximum) divided by the total of the lanes' sums
            | top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap)) =>
        = exp(x - max) divided by the sum over the first 32 numbers of the row | c += 32) total => c += C) total
        = exp(x - max) divided by its sum plus the maxima of the lanes: the sum begins at 0 in each lane
            | total = 0.0f => total = top
        = the softmax with each maximum overwritten by what the shuffle brings
            | top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, gap)) => top = __shfl_xor_sync(0xffffffff, top, gap)
    """,
)

Exercise(
    "online_softmax",
    "13",
    reference=lambda out, x, N, C: softmax_crossentropy.softmax(x),
    writes="out",
    cases=lambda c: logits(c, (256, 32), ((5, 129), (2, 1100), (4, 7))),
    rules=(finite,),
    look=SECTIONS | {"": "3.6 · v5: online", "sectors": "3.6 · v5: online"},
    mistakes=r"""
        with a sum that is rescaled after the new number was added
            | total = total… => total = (total + expf(x[c] - higher)) * expf(top - higher);
        with the last number of each lane alone: the old sum is lost | total * expf(top - higher) + =>
        with a sum that is not rescaled when the maximum grows | total * expf(top - higher) => total
        with 1 added for every number: it is exp(x[c] - the maximum so far), 1 only for a new maximum
            | + expf(x[c] - higher) => + 1.0f
        with a sum that begins again at each new maximum | total * expf(top - higher) => (top < higher ? 0.0f : total)
        = exp(x - max) divided by sums of the lanes that are relative to each lane's own maximum
            | warp_sum(total * expf(top - of_row)) => warp_sum(total)
        = exp(x - max) divided by a sum that was never rescaled, neither in the loop nor between the lanes
            | total * expf(top - higher) => total ;; warp_sum(total * expf(top - of_row)) => warp_sum(total)
        = exp(x - max) divided by the lane's own sum, not that of all lanes
            | warp_sum(total * expf(top - of_row)) => total * expf(top - of_row)
        with lanes' sums rescaled by exp(the row's maximum - the lane's): the exponent is never above 0
            | expf(top - of_row) => expf(of_row - top)
    """,
)

MERGE = r"""
    averaging the two means: the part with more numbers counts for more | a.mean + gap * share => a.mean + gap / 2
    moving the mean by a's share: towards b it moves by b's share | a.mean + gap * share => a.mean + gap * (1 - share)
    moving the mean by gap / n, as for a single number: b has n_b of them | a.mean + gap * share => a.mean + gap / count
    without gap² · n_a · n_b / n: the parts' squares are around two means | + gap * gap * a.count * share =>
    with n_b / n cut off to a whole number | share = b.count / count => share = (int)(b.count / count)
    with n_a · mean_a + n_b · mean_b, which must be divided by n
        | a.mean + gap * share => a.count * a.mean + b.count * b.mean
    with parts that count n_a + 1 together: they have n_a + n_b numbers | return {count => return {a.count + 1
    with parts that count n_a together: they have n_a + n_b numbers | return {count => return {a.count
    with squares of gap² · n_b / n: n_a is missing | gap * gap * a.count * share => gap * gap * share
    with squares of gap² · n_a · n_b, which must be divided by n
        | gap * gap * a.count * share => gap * gap * a.count * b.count
    with squares of gap² · n_b in place of gap² · n_a · n_b / n | gap * gap * a.count * share => gap * gap * b.count
    with squares of gap² · n_a: n_b / n is missing | gap * gap * a.count * share => gap * gap * a.count
    with squares of gap² alone: it must be multiplied by n_a · n_b / n | gap * gap * a.count * share => gap * gap
    with squares of a's part alone: b's are missing | a.squares + b.squares => a.squares
    without the squares of the parts | a.squares + b.squares + =>
"""


Exercise(
    "welford_layernorm",
    "13",
    reference=lambda out, mean, rstd, x, w, b, N, C: forward(x, w, b),
    writes="out mean rstd",
    cases=rows_to_norm,
    rules=(empty_parts,),
    rtol=lambda out, mean, rstd, x, *_: 1e-3 if np.abs(x).max() > 500 else None,
    look=SECTIONS | {"": "4.2 · Merging moments"},
    mistakes=MERGE
    + r"""
        averaging the two means (empty parts aside): the part with more numbers counts for more
            | if (count == 0.0f) return a; => if (b.count == 0.0f) return a; if (a.count == 0.0f) return b;
            ;; a.mean + gap * share => a.mean + gap / 2
        with squares of gap² alone (empty parts aside): it must be multiplied by n_a · n_b / n
            | if (count == 0.0f) return a; => if (b.count == 0.0f) return a; if (a.count == 0.0f) return b;
            ;; gap * gap * a.count * share => gap * gap
        without eps | + 1e-5f =>
        with eps added to the root: it belongs under it
            | rsqrtf(seen.squares / C + 1e-5f) => 1 / (sqrtf(seen.squares / C) + 1e-5f)
        with 1e-6 in place of 1e-5 | 1e-5f => 1e-6f
        with the squares divided by C - 1 instead of C | seen.squares / C => seen.squares / (C - 1)
        with the sum of the squares in place of their mean | seen.squares / C => seen.squares
        divided by seen.count, which only lane 0 has of the whole row | seen.squares / C => seen.squares / seen.count
        = the variance, not 1 / √(variance + eps) | rsqrtf(seen.squares / C + 1e-5f) => seen.squares / C
        = rstd, and rstd equals the mean: they are exchanged
            | m = seen.mean => r = seen.mean ;; r = rsqrtf => m = rsqrtf
    """,
)

Exercise(
    "fused_layernorm",
    "13",
    reference=lambda residual, out, mean, rstd, x1, x2, w, b, N, C: (x1 + x2, *forward(x1 + x2, w, b)),
    writes="residual out mean rstd",
    cases=rows_to_add,
    rtol=lambda residual, out, mean, rstd, x1, *_: 1e-3 if np.abs(x1).max() > 500 else None,
    look=SECTIONS | {"": "7 · Into the package", "race": "3.7 · v6: 128-bit loads", "rewrites": "7 · Into the package"},
    mistakes=r"""
        with the mean not subtracted from .x in the squares | (u.x - m) * (u.x - m) => u.x * u.x
        with eps added to the root: it belongs under it
            | rsqrtf(squares / C + 1e-5f) => 1 / (sqrtf(squares / C) + 1e-5f)
        with the places behind the row's end as zeros in the squares, (0 - mean)² each
            | rsqrtf(squares / C => rsqrtf((squares + (1024 - C) * m * m) / C
        with b[row] in place of b[c] | t = ((const float4*)b)[i] => t = make_float4(b[row], b[row], b[row], b[row])
        = rstd, and rstd equals the mean: they are exchanged
            | mean[row] = m => mean[row] = r ;; rstd[row] = r => rstd[row] = m
        with x2 added to a quarter of the numbers
            | u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w => u.x + v.x, u.y, u.z, u.w
        = x1 alone: x2 is not added | make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w) => u
        with the sum of a quarter of the numbers | u.x + u.y + u.z + u.w; => u.x;
        with the squares of a quarter of the numbers | squares += (u… => squares += (u.x - m) * (u.x - m);
        4 times as large: C / 4 counts float4s | total / C => total / quads
        with the squares divided by C / 4: that counts float4s | squares / C => squares / quads
        without eps | + 1e-5f =>
        with E[x²] - E[x]²: a difference of two large numbers that agree in nearly all their digits
            | rsqrtf(squares / C + 1e-5f) => rsqrtf((squares + m * m * C) / C - m * m + 1e-5f)
        with what __shfl_down_sync leaves in each lane as the sum: only lane 0 has the whole sum
            | total += __shfl_xor_sync => total += __shfl_down_sync
        with one w and one b for each four numbers, w[i] and b[i]
            | s = ((const float4*)w)[i] => s = make_float4(w[i], w[i], w[i], w[i])
            ;; t = ((const float4*)b)[i] => t = make_float4(b[i], b[i], b[i], b[i])
        with the squares of x1 around the mean of the sum | mine[i] = u; => mine[i] = a4[i];
        with w and b swapped
            | ((const float4*)w)[i] => ((const float4*)b)[i] ;; ((const float4*)b)[i]; => ((const float4*)w)[i];
    """,
)
