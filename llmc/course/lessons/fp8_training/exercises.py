"""Lesson 25's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.fp8_training.sums import product, tensor_core
from llmc.course.lessons.number_formats.formats import E4M3, E5M2, rounded
from llmc.precision import e4m3


def numbers(c):
    """x, scale: ordinary numbers, ties, subnormal ones and their ties, powers of two, what is too large, infinities."""
    normal = rounded(c.rng.uniform(16, 440, 40) * c.rng.choice([-1, 1], 40), E4M3)  # (40,)
    ties = normal + 2.0 ** (np.floor(np.log2(np.abs(normal))) - 4)  # (40,)   halfway to a neighbour
    tiny = np.r_[c.rng.uniform(-1, 1, 10) / 16, c.rng.integers(-8, 8, 10) / 512 + 1 / 1024, 2**-9, 2**-10]  # (22,)
    powers = 2.0 ** c.rng.integers(-12, 12, 40) * c.rng.uniform(-2, 2, 40)  # (40,)
    ends = np.array([0, -0.0, 448, -448, 449, 463.9, 464, 480, 1e30, -1e30, np.inf, -np.inf])  # (12,)
    for scale in (1.0, 32.0, 2.0**-7, 2.0**20):
        for x in (c.random(3, 5), ends, ties.reshape(8, 5), tiny, powers.reshape(2, 4, 5)):
            yield (x / scale).astype(np.float32), scale


def nearest(x, scale):
    """By the bits of lesson 18, where the exercise computes."""
    return (rounded(np.clip(x.astype(np.float64) * scale, -448, 448), E4M3) / scale).astype(np.float32)


ROUND = r"""
    without clipping: beyond 448 there are no numbers of e4m3 | np.clip(y, -448, 448) => y
    = NaN for what is too large: a cast to e4m3 alone does not saturate
        | y = np.clip(y, -448, 448) => return y.astype(E4M3).astype(np.float32) / scale
    clipped above alone: there is an end below 0, too | np.clip(y, -448, 448) => np.minimum(y, 448)
    divided by the scale first, and multiplied by it at the end: it is the other way round
        | x * scale => x / scale ;; step / scale => step * scale
    clipped before the scale, not after it
        | y = x * scale => y = np.clip(x, -448, 448) * scale ;; np.clip(y, -448, 448) => y
    with 240 as the largest number, as if e4m3 had an infinity | -448, 448 => -240, 240
    with steps twice as wide: e4m3 has 3 bits of mantissa (and frexp's exponent is one more than e)
        | exponent - 3 => exponent - 2
    with subnormal numbers as finely spaced as others: below 2⁻⁶ the steps stay 2⁻⁹
        | np.maximum(np.frexp(y)[1] - 1, -6) => np.frexp(y)[1] - 1
    with 0 for all subnormal numbers | return np.rint => y = np.where(np.abs(y) < 2**-6, 0 * y, y)\n    return np.rint
    with 0 for all subnormal numbers
        | step / scale => step / scale * (np.abs(np.rint(y / step) * step) >= 2**-6)
    that was not divided by the scale again | step / scale => step
    cut off, not rounded to the nearest | np.rint => np.trunc
    rounded down, not to the nearest | np.rint => np.floor
    with ties rounded up: a tie goes to the neighbour whose last bit is 0
        | np.rint(y / step) => np.floor(y / step + 0.5)
    with ties rounded away from 0: a tie goes to the neighbour whose last bit is 0
        | np.rint(y / step) => np.sign(y) * np.floor(np.abs(y) / step + 0.5)
"""
HOW = dict(rtol=0, atol=0, look="1 · Two formats", mistakes=ROUND)
Exercise("round_e4m3", "25", nearest, "rounded", cases=numbers, **HOW)


def rows_to_scale(c):
    """x, largest, margin: rows of very different sizes, one of them zeros, one whose amax meets a power of two."""
    for N, K in ((5, 7), (1, 6), (3, 1), (4, 9), (4, 9)):
        for largest, margin in ((448.0, 0), (57344.0, 0), (448.0, 2), (57344.0, 1)):
            powers = c.rng.integers(-6, 4, (N, 1)) if margin else c.rng.integers(0, 2, (N, 1))  # (N, 1)
            x = c.random(N, K, dtype=np.float32) * np.float32(10.0) ** powers.astype(np.float32)  # (N, K)
            x[0] = -np.abs(x[0]) * (1 if N > 1 else 1e5)  # larger than the largest, in a call of its own
            if N > 3:
                x[1], x[2] = 0, np.clip(x[2], -7 / 4, 7 / 4)
                x[2, K // 2] = -7 / 4  # 448 is 2⁸ times as large, 57,344 is 2¹⁵ times
            yield x, largest, margin


SCALES = r"""
    of the whole array, the same for all rows: a row of small numbers loses them
        | np.where(amax > 0, amax, 1) => np.where(amax > 0, amax.max(), 1)
    of the whole array, the same for all rows: a row of small numbers loses them
        | np.where(amax > 0, amax, 1) => np.full_like(amax, amax.max()) ;; np.where(amax > 0, scales, 1) => scales
    of the largest number, not of the largest in size: a row may have its amax below 0 | np.abs(x).max => x.max
    that brings amax to the largest number exactly: it must be a power of two
        | np.ldexp(1.0, np.frexp(ratio)[1] - 1 - margin) => ratio * 2.0**-margin
    rounded up to a power of two: amax may now be too large | [1] - 1 - margin => [1] - margin
    rounded to the nearest power of two: where that is the upper one, amax is too large
        | np.frexp(ratio)[1] - 1 - margin => np.rint(np.log2(ratio)).astype(int) - margin
    with half of it where amax then is exactly the largest number: that still fits
        | np.frexp(ratio)[1] - 1 - margin => np.ceil(np.log2(ratio)).astype(int) - 1 - margin
    without the margin | - 1 - margin => - 1
    with the margin on the wrong side: it makes the scale smaller | - 1 - margin => - 1 + margin
    upside down: what to divide by, not what to multiply by | scales, 1) => 1 / scales, 1)
    with another scale than 1 for a row of zeros | np.where(amax > 0, scales, 1) => scales
"""
HOW = dict(rtol=0, atol=0, look="3.1 · One for a tensor, a row, a block", mistakes=SCALES)
Exercise("power_of_two_scales", "25", None, "scales", cases=rows_to_scale, **HOW)


def multiply(a, b):
    """a (M, K) · bᵀ (K, N), float32, as tensor cores multiply 8 bits: in memory, k runs along the rows of both."""
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"k is the last axis of both factors, and must be as long: not of {a.shape} and {b.shape}")
    for name, factor in (("first", a), ("second", b)):
        if factor.dtype.itemsize > 1 or not factor.flags.c_contiguous:
            raise ValueError(
                f"the {name} factor needs 8 bits, and rows that lie in memory one after the other: copy it"
            )
    return a.astype(np.float32) @ b.astype(np.float32).T  # (M, N)


def to_8(x, scale, dtype):
    """x times scale in 8 bits, rounded to the nearest; what is too large becomes the largest number."""
    largest = E4M3.largest if dtype == e4m3() else E5M2.largest
    return np.clip(x * np.float32(scale), -largest, largest).astype(dtype)


def linear_layers(c):
    """dx, dw, db, dout, x, w, and the scales of dout, x and w: different powers of two; gradients are tiny."""
    c.may_call(multiply, to_8)
    for N, C_in, C_out in ((6, 5, 7), (33, 20, 12), (1, 3, 2), (16, 16, 16), (33, 20, 12)):
        dout, x, w = (c.random(*shape, dtype=np.float32) for shape in ((N, C_out), (N, C_in), (C_out, C_in)))
        dout *= np.float32(2.0) ** c.rng.integers(-22, -14, (N, 1)).astype(np.float32)
        scales = 2.0 ** c.rng.integers(18, 22), 2.0 ** c.rng.integers(-2, 3), 2.0 ** c.rng.integers(3, 7)
        buffers = [c.buffer(*shape, dtype=np.float32) for shape in ((N, C_in), (C_out, C_in), (C_out,))]
        for buffer in buffers[1:]:
            buffer *= np.float32(1e-5)  # about as large as what is added
        yield *buffers, dout, x, w * np.float32(0.02), *map(float, scales)


BACKWARD = r"""
    with dout in e4m3: gradients take e5m2, for its range | E5M2 => E4M3
    with x in e5m2: gradients need its range, activations e4m3's digits
        | to_8(x, x_scale, E4M3) => to_8(x, x_scale, E5M2)
    without dividing by the scale of w | / (dout_scale * w_scale) => / dout_scale
    without dividing by the scale of x | / (dout_scale * x_scale) => / dout_scale
    with the scale of x divided out, not that of w | / (dout_scale * w_scale) => / (dout_scale * x_scale)
    with the scale of w divided out, not that of x | / (dout_scale * x_scale) => / (dout_scale * w_scale)
    = the sum of the rounded dout: sum dout itself, which has more digits
        | db += dout.sum(axis=0) => db += dout8.astype(np.float32).sum(axis=0) / dout_scale
    divided by a scale that has not been multiplied by: dout came as it is
        | db += dout.sum(axis=0) => db += dout.sum(axis=0) / dout_scale
    with dout not multiplied by its scale before rounding: most of it becomes 0 | to_8(dout, dout_scale => to_8(dout, 1
    with dout not multiplied by its scale before rounding: most of it becomes 0
        | to_8(dout, dout_scale => to_8(dout, 1 ;; / (dout_scale * w_scale) => / w_scale
        ;; / (dout_scale * x_scale) => / x_scale
    = the exact product: its factors must be rounded to 8 bits
        | multiply(dout8, transposed[2]) / (dout_scale * w_scale) => dout @ w
    = the exact product: its factors must be rounded to 8 bits
        | multiply(transposed[0], transposed[1]) / (dout_scale * x_scale) => dout.T @ x
"""
HOW = dict(rtol=1e-5, look={"db": "hint 2", "": "5.1 · Which copies"}, mistakes=BACKWARD)
Exercise("matmul_backward_fp8", "25", writes="dx", adds="dw db", cases=linear_layers, **HOW)


def runs(c):
    """history, amax, length, largest: runs of twelve steps, first without a history; a spike, a 0, infinity, NaN."""
    for length, largest, first in ((3, 448.0, None), (1, 57344.0, np.nan), (5, 57344.0, 0.0), (3, 448.0, np.inf)):
        history, spike = [], int(c.rng.integers(3, 6))
        for step in range(12):
            amax = float(2.0 ** c.rng.uniform(-3, 0)) * (100.0 if step == spike else 1.0)
            amax = {0: amax if first is None else first, spike + 2: np.inf, spike + 4: np.nan}.get(step, amax)
            if step == spike + 1:
                amax = history[-1]  # equal to the largest: not saturated
            c.new("amax is not finite" if not np.isfinite(amax) else f"step {step} of a run")
            yield list(history), amax, length, largest
            history = [*history, amax][-length:] if np.isfinite(amax) else history


DELAYED = r"""
    with the amax of now in the scale: it is not known yet when the numbers are rounded
        | max(history) if history else amax => max([*history, amax])
    of the last step alone, not of the largest in the history | max(history) if => history[-1] if
    with the mean of the history in place of its maximum | max(history) if => sum(history) / len(history) if
    upside down: what to divide by, not what to multiply by | largest / known => known / largest
    with an infinity or NaN in it, for which no scale is right: leave such an amax out
        | if np.isfinite(amax): => if True:
    with the oldest steps kept, the newest thrown away | [-length:] => [:length]
    with the newest first: it belongs at the end | [*history, amax] => [amax, *history] ;; [-length:] => [:length]
    = 1 where amax is not finite, although the history has a scale
        | if 0 < known < np.inf else => if 0 < known < np.inf and np.isfinite(amax) else
    with True where amax equals what is known: equal is not too large | amax > known => amax >= known
    with True only where amax times the scale is too large: if all was 0 before, any amax is larger than known
        | amax > known or => amax * scale > largest or
    with False in the first step, where infinity and NaN count, too
        | amax > known or not np.isfinite(amax) => bool(history) and (amax > known or not np.isfinite(amax))
    with False where amax is NaN: comparisons with NaN are false
        | amax > known or not np.isfinite(amax) => amax > known or amax == np.inf
    with False where a first amax is infinite: no scale is right for it
        | amax > known or not np.isfinite(amax) => not amax <= known
    with 1 before there is a history: a first step knows its own amax
        | max(history) if history else amax => max(history) if history else largest
"""
HOW = dict(rtol=1e-12, look="4.1 · Now and before", mistakes=DELAYED)
Exercise("delayed_scale", "25", None, "scale saturated history", cases=runs, **HOW)


def long_sums(c):
    """a (M, K), b (N, K), every, tensor_core: K and every of any size; the last one is long."""
    c.may_call(tensor_core)
    sizes = (3, 2, 256, 128), (2, 5, 200, 64), (4, 3, 70, 128), (1, 1, 33, 32), (3, 2, 520, 100), (8, 8, 4096, 128)
    for M, N, K, every in sizes:
        a, b = (rounded(np.abs(c.random(rows, K)), E4M3).astype(np.float32) for rows in (M, N))  # (M, K), (N, K)
        yield a, b, every, tensor_core


PROMOTED = r"""
    = the sum without promotion: one running sum of 14 bits
        | part = np.zeros_like(total) => part = np.zeros_like(total) if start == 0 else part
        ;; total += part => total = part
    = the sum without promotion: one running sum of 14 bits
        | for start in range(0, a.shape[1], every) => every = a.shape[1]\n    for start in range(0, a.shape[1], every)
    with pieces rounded up to whole steps of 32: a piece ends after exactly `every` numbers
        | for start in range(0, a.shape[1], every)
        => every = -(-every // 32) * 32\n    for start in range(0, a.shape[1], every)
    without setting the running sum to 0 after it was added
        | part = np.zeros_like(total) => part = np.zeros_like(total) if start == 0 else part
    with the last piece left out | total += part => total += part * (start + every < a.shape[1])
    without what is left where `every` does not divide K
        | range(0, a.shape[1], every) => range(0, a.shape[1] - every + 1, every)
    with steps that run beyond a piece: its last one may be shorter than 32 | min(k + 32, end) => k + 32
    with the total of all pieces handed to the tensor core, which cuts it off again
        | part, a[:, k:stop] => total + part, a[:, k:stop]
    = the exact product: use tensor_core, and promote after `every` numbers, not after each step
        | part = tensor_core(… => part = part + a[:, k:stop] @ b[:, k:stop].T
"""
HOW = dict(rtol=1e-6, look="6.2 · Promotion", mistakes=PROMOTED)
Exercise("promoted_product", "25", lambda a, b, every, _: product(a, b, every), "product", cases=long_sums, **HOW)


def say_gain(c, a, b, got):
    """Add a sentence: what promotion gained in the last call."""
    exact = a.astype(np.float64) @ b.astype(np.float64).T  # (M, N)
    mine, plain = (np.abs(each / exact - 1).max() for each in (got, product(a, b)))
    c.say(f"For K = {a.shape[1]}, the largest error is {mine:.2%}; without promotion it is {plain:.2%}.")
