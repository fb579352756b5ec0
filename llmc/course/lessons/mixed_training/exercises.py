"""Lesson 20's kernels: what is right, what is tried, and which mistakes have a name; 4 and 5: bugs.py, recompute.py."""

import numpy as np

from llmc.backends.mixed import random_bits
from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.layernorm.rows import forward
from llmc.course.lessons.mixed_training.bugs import judge_runs, judge_search  # noqa: F401, for the check cells
from llmc.course.lessons.mixed_training.recompute import judge_schedule  # noqa: F401, likewise
from llmc.kernels import ceil_div
from llmc.precision import bfloat16

BF16 = bfloat16()
PACKED, NORM = "2.1 · Eight numbers at a time", "2.2 · Layernorm"
UPDATE, CHANCE = "4.2 · One kernel", "4.1 · Which bits are random?"
SECTIONS = {
    "missing-syncwarp": 'lesson 13, section "6.2 · Inside a warp"',
    "inactive-lane": 'lesson 13, section "3.4 · v3: the tree by warp shuffles"',
    "out-of-bounds": 'lesson 12, section "3 · Make it break: one too many"',
    "misaligned": PACKED,
    "requests": PACKED,
}


def numbers(c):
    """grid, block, (out, x, y (n,), n): both signs; far out, where exp overflows; finally 2051, whose writes count."""
    for n, far in ((1003, 1), (1003, 30), (129, 30), (8, 30), (7, 30), (1, 30), (2051, 1)):
        c.new("some of x is 30 times as large, where exp overflows" if far > 1 else "")
        for threads in (256, 128, 96, 32) if n < 2051 else (128,):
            x, y = c.random(n, dtype=BF16), c.random(n, dtype=BF16)  # (n,) each
            x[1::2] = -x[1::2]
            x[4 :: max(1, n // 7)] *= BF16.type(far)
            yield ceil_div(n, 8 * threads), threads, (c.output(n, dtype=BF16), x, y, n)


def rows(c):
    """grid, block, arguments: a mean far from 0; a last row so small that eps shows; finally 8 rows of 768."""
    for N, C, far in ((2, 776, 0), (3, 264, 0), (5, 8, 0), (7, 256, 0), (4, 520, 100), (9, 40, 0), (8, 768, 0)):
        c.new(f"means of {far}, where the mean of x² less the squared mean loses its digits" if far else "")
        for threads in (256, 96, 32) if C != 768 else (256,):
            x = c.random(N, C) + np.float32(far)  # (N, C)
            x[-1] *= np.float32(1e-3 if C != 768 and not far else 1)
            results = c.output(N, C, dtype=BF16), c.output(N), c.output(N)  # (N, C), (N,), (N,)
            w, b = c.random(C, dtype=BF16), c.random(C, dtype=BF16)  # (C,) each
            yield ceil_div(N, threads // 32), threads, (*results, x, w, b, N, C)


def steps(c):
    """grid, block, arguments: three steps on the same arrays, with other settings, key and t each time."""
    for n, threads, kept in ((700, 256, True), (700, 96, False), (129, 32, True), (300, 256, False), (1, 32, True)):
        params, grads = c.buffer(n, dtype=BF16), c.buffer(n, dtype=BF16)  # (n,) each
        m, v, master = (c.buffer(n) for _ in range(3))  # (n,) each
        v[...] = np.abs(v)
        master[1::2], params[1::3] = -master[1::2], -params[1::3]  # of both signs
        for t in (1, 2, 40):
            c.new(f"t is {t}" + ", and there are no master weights" * (not kept))
            grads[...] = c.random(n, dtype=BF16)
            draw = c.rng.uniform
            drawn = draw(0.02, 0.1), draw(0.8, 0.95), draw(0.9, 0.999), 0.05, 0.3, draw(0.1, 0.5)
            fixed = [np.float32(each) for each in drawn]  # lr, beta1, beta2, eps, weight_decay, factor
            key = np.uint32(c.rng.integers(1, 2**32))
            yield ceil_div(n, threads), threads, (params, grads, m, v, master if kept else 0, *fixed, t, key, n)


def to_nearest(exact, atol=1e-6):
    """How far a bf16 may be from the one nearest to exact (any shape, float64), if a kernel rounds float32's result.

    That is 0, except where exact lies so near the middle of two bf16 that the other one will do.
    """
    exact = np.asarray(exact, np.float64)
    step = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact), 1e-30))) - 7)  # between bf16's numbers around it
    near, off = atol + 0.51 * step, np.abs(exact - exact.astype(np.float32).astype(BF16).astype(np.float64))
    return np.where(near + off > 0.999 * step, near + off, 0.0)


def gated(out, x, y, n, dtype=BF16):
    """GELU(x) · y (n,)."""
    return (gelu.forward(x.astype(np.float64)) * y.astype(np.float64)).astype(np.float32).astype(dtype)


def normed(out, mean, rstd, x, w, b, N, C, dtype=BF16):
    """mean, rstd (N,), out (N, C)."""
    exact = forward(*(np.asarray(array, np.float64) for array in (x, w, b)))
    return exact.mean.astype(np.float32), exact.rstd.astype(np.float32), exact.out.astype(np.float32).astype(dtype)


def updated(params, grads, m, v, master, lr, beta1, beta2, eps, weight_decay, factor, t, key, n):
    """grads, m, v, master, (n,) each; master is 0 where there is none, unless it stands for the weights themselves."""
    start = params if isinstance(master, int) else master
    settings = [float(each) for each in (lr, beta1, beta2, eps, weight_decay)]
    arrays = start.astype(np.float64), grads.astype(np.float64) * float(factor), m, v
    step = optimizer.adamw(*arrays, *settings, t)
    return 0 * grads, step.m, step.v, 0 if isinstance(master, int) else step.params.astype(np.float32)


def judge_step(c, code, grid, block, arguments):
    """Launch, compare grads, m, v and master, and then params (n,): rounded up or down by the random bits."""
    params, grads, m, v, master, *settings, n = arguments
    held, start = params.copy(), params.astype(np.float32)  # (n,) each
    whole = updated(params, grads, m, v, start, *settings, n)[3]  # (n,)   the new weights, if params hold the old ones
    c.compare(code, grid, block, arguments)
    new = whole if isinstance(master, int) else master  # (n,)
    slack = 256 + 5e-7 / np.spacing(np.maximum(np.abs(new), 1e-9))  # (n,) last places: more near 0, where digits cancel
    bits = new.view(np.uint32).astype(np.int64)  # (n,)
    random = random_bits(int(settings[-1]), 0, n // 2 + 1).astype("<u4").view("<u2")[:n].astype(np.int64)  # (n,)
    got, upper, right = params.view(np.uint16).astype(np.int64), bits >> 16, bits + random >> 16  # (n,) each
    neighbour = np.abs(got - upper - 0.5) < 1 + slack // 0x10000  # (n,)
    close = np.abs((bits & 0xFFFF) + random - 0x10000) <= slack  # (n,) so near a border, either neighbour will do
    right = np.where(close & neighbour, got, right).astype(np.uint16).view(BF16)  # (n,)
    try:
        compare("params", params, right, 0.0, 0.0, before=held, look=c.exercise.place(CHANCE))
    except WrongAnswer as error:
        if error.diagnosis.kind is Kind.PLACE and neighbour.all():
            told = "weights 2k and 2k + 1 share random_bits(key, k), its lower and its upper 16 bits"
            error.diagnosis.sentence = f"params hold neighbours of weights, but not always the one that is due: {told}"
            error.diagnosis.kind = Kind.RULE
        raise


LOW, HIGH = "low = widen({(unsigned short)(word & 0xffff)})", "high = widen({(unsigned short)(word >> 16)})"
ONE, OTHER = "low * gate(low) * low_y", "high * gate(high) * high_y"
SECOND, LAST = f"(unsigned)nearest({OTHER}).bits << 16", "v * gate(v) * widen(y[k])"
PACK = f"nearest({ONE}).bits | {SECOND}"
GELU = rf"""
    with GELU(x) rounded to bf16 before it is multiplied by y: a number is rounded once, when it is written
        | {ONE} => widen(nearest(low * gate(low))) * low_y ;; {LAST} => widen(nearest(v * gate(v))) * widen(y[k])
        ;; {OTHER} => widen(nearest(high * gate(high))) * high_y
    cut off after 16 bits, not rounded to the nearest
        | {PACK} => __float_as_uint({ONE}) >> 16 | __float_as_uint({OTHER}) & 0xffff0000
        ;; nearest({LAST}) => bf16{{(unsigned short)(__float_as_uint({LAST}) >> 16)}}
    with the two halves of each word exchanged: the lower 16 bits come first in memory
        | {PACK} => nearest({OTHER}).bits | (unsigned)nearest({ONE}).bits << 16
    with the lower half of each word of x in both halves | {HIGH} => high = low
    with each word's halves of y exchanged | {ONE} => low * gate(low) * high_y ;; {OTHER} => high * gate(high) * low_y
    with the bits of both halves in the lower half of each word | {SECOND} => nearest({OTHER}).bits
    with 0 for every first of two numbers, the lower half of each word | {LOW} => low = __uint_as_float(word & 0xffff)
    with the whole word taken for its upper half | {HIGH} => high = __uint_as_float(word)
    with the gate of the lower half in both halves | gate(high) => gate(low)
    = GELU(x): it must be multiplied by y | * low_y => ;; * high_y => ;; * widen(y[k]) =>
    = the gate times y: it must be multiplied by x | low * gate => gate ;; high * gate => gate ;; v * gate => gate
"""
HOW = dict(rtol=0.0, atol=lambda *given: to_nearest(gated(*given, dtype=np.float64)), look=SECTIONS | {"": PACKED})

Exercise("gelu_bf16", "20", gated, writes="out", cases=numbers, mistakes=GELU, **HOW)

VARIANCE, SQUARE = "warp_sum(squares) / C + 1e-5f", "(v[k][e] - m) * (v[k][e] - m)"
OUT, UPPER = "(v[k][e] - m) * r * weight[e] + bias[e]", "__float_as_uint(v[2 * k + 1]) & 0xffff0000"
HALVES = "nearest(v[2 * k]).bits | (unsigned)nearest(v[2 * k + 1]).bits << 16"
LAYERNORM = rf"""
    = the sum of the first 256 numbers, divided by C: a lane may have more than one eight
        | total += v[k][e] => total += k ? 0.0f : v[k][e]
    rounded to bf16: it is float32 | mean[row] = m, rstd[row] = r => mean[row] = widen(nearest(m)), rstd[row] = r
    with mean(x²) - mean² for the variance: it loses digits where the mean is far from 0
        | {SQUARE} => v[k][e] * v[k][e] ;; {VARIANCE} => warp_sum(squares) / C - m * m + 1e-5f
    with eps / C in place of eps | {VARIANCE} => (warp_sum(squares) + 1e-5f) / C
    with the distances from the mean in place of their squares | {SQUARE} => fabsf(v[k][e] - m)
    of x rounded to bf16: x is float32 | total += v[k][e] => total += widen(nearest(v[k][e]))
    with eps added to the standard deviation, not to the variance
        | rsqrtf({VARIANCE}) => 1.0f / (sqrtf(warp_sum(squares) / C) + 1e-5f)
    with 32 · eps in place of eps: each lane adds it | {VARIANCE} => warp_sum(squares / C + 1e-5f)
    with (0 - mean)² for places behind the end of the row, up to 1024
        | squares += lane * 8 + 256 * k < C ? {SQUARE} : 0.0f => squares += {SQUARE}
    as x - mean · rstd · w + b: the brackets around x - mean are missing
        | {OUT} => v[k][e] - m * r * weight[e] + bias[e]
    with w and b swapped | load(weight, w + c), load(bias, b + c) => load(weight, b + c), load(bias, w + c)
    with norm rounded to bf16 before w and b | {OUT} => widen(nearest((v[k][e] - m) * r)) * weight[e] + bias[e]
    with the mean subtracted twice, the first time from v itself | ? {SQUARE} => ? powf(v[k][e] -= m, 2.0f)
    with the upper half of each word cut off after 16 bits | (unsigned)nearest(v[2 * k + 1]).bits << 16 => {UPPER}
    cut off after 16 bits, not rounded to the nearest | {HALVES} => __float_as_uint(v[2 * k]) >> 16 | {UPPER}
    with the two halves of each word exchanged: the lower 16 bits come first in memory
        | {HALVES} => nearest(v[2 * k + 1]).bits | (unsigned)nearest(v[2 * k]).bits << 16
"""
HOW = dict(rtol={"out": 0.0, "": 1e-4}, look=SECTIONS | {"": NORM}, mistakes=LAYERNORM)
HOW |= dict(atol=lambda *given: {"out": to_nearest(normed(*given, dtype=np.float64)[2], 2e-4), "": 1e-6})

Exercise("layernorm_bf16", "20", normed, writes="mean rstd out", cases=rows, **HOW)

START, FACTOR = "master ? master[i] : widen(params[i])", "factor * widen(grads[i])"
KEEP, ADDED = "if (master) master[i] = p", "(random_bits(key, i / 2) >> i % 2 * 16 & 0xffff)"
SUM, UP = f"(__float_as_uint(p) + {ADDED}) >> 16", "(__float_as_uint(p) >> 16)"
ADAMW = rf"""
    with gradients divided by factor, not multiplied by it | {FACTOR} => widen(grads[i]) / factor
    with weight_decay · the weight in the gradient: in AdamW the decay does not go through m
        | {FACTOR} => {FACTOR} + weight_decay * p ;; (1.0f - lr * weight_decay) * p => p
    with factor · grads² in place of (factor · grads)² | (g * g - v[i]) => (g * widen(grads[i]) - v[i])
    = a step from params, not from master: small updates are lost again | {START} => widen(params[i])
    = what params held before: master gets the weight as it was computed
        | {KEEP} => if (master) master[i] = widen(params[i])
    = the rounded weight that params hold: master keeps the number from before rounding
        | {KEEP}; => ; ;; grads[i] = => if (master) master[i] = widen(params[i]); grads[i] =
    with the decay of params' weight: master's decays
        | (1.0f - lr * weight_decay) * p => p - lr * weight_decay * widen(params[i])
    without bias correction | m[i] / (1.0f - powf(beta1, t)) => m[i] ;; v[i] / (1.0f - powf(beta2, t)) => v[i]
    [{CHANCE}] = the new weight rounded to the nearest: the random bits make no difference
        | {ADDED} => 0x7fff + ({UP} & 1)
    [{CHANCE}] with random_bits(key, i) for weight i: a draw has bits for two neighbours
        | {ADDED} => (random_bits(key, i) & 0xffff)
    [{CHANCE}] with the lower 16 random bits for both of two neighbours | >> i % 2 * 16 =>
    [{CHANCE}] = the new weight cut off: nothing ever goes up | {SUM} => {UP}
    [{CHANCE}] = the upper half with the random bits added to it: they are added before the shift
        | {SUM} => {UP} + {ADDED}
"""
HOW = dict(rtol=2e-5, look=SECTIONS | {"": UPDATE}, mistakes=ADAMW)

Exercise("adamw_bf16", "20", updated, writes="grads m v master", cases=steps, **HOW)
