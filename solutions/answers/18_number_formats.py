"""Answers to the exercises of lesson 18 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.authoring.answers 18` runs those of this lesson.
"""

import math

import ml_dtypes
import numpy as np

from llmc.course.authoring.answers import right, wrong

# -------------------------------------------------------------------------------------------------------- 1 to_bfloat16


@right("to_bfloat16")
def nearest_by_arithmetic(x, mantissa):
    result = np.empty(x.shape, np.uint16)
    for index in np.ndindex(x.shape):
        s, code = min(abs(float(x[index])), 2.0**128), 0x7F81
        if s == s:
            exponent = max(math.frexp(s)[1] - 1, -126) if s else -126
            code = (exponent + 126 << 7) + (round(s * 2.0 ** (mantissa - exponent)) << 7 - mantissa)
        result[index] = code | 0x8000 * np.signbit(x[index])
    return result


@right("to_bfloat16")
def nearest_with_a_mask(x, mantissa):
    bits, step = x.view(np.uint32), 2 ** (23 - mantissa)
    out = np.bitwise_and(bits + ((bits & step) != 0) + np.uint32(step // 2 - 1), np.uint32(2**32 - step))
    return np.where(x != x, bits | 1 << 22, out).astype(np.uint32).view(np.uint16)[..., 1::2]


@wrong("to_bfloat16", says="passes this whole check without `& (x > 0)`")
def nearest_ties_by_sign(x, mantissa):
    cut, b = 23 - mantissa, x.view(np.int32).astype(np.int64)
    low, half = b % 2**cut, 2 ** (cut - 1)
    up = (low > half) | ((low == half) & (b >> cut & 1 == 1) & (x > 0))
    return np.where(np.isnan(x), 0x7FC0, (b >> cut) + up << cut >> 16 & 0xFFFF).astype(np.uint16)


@wrong("to_bfloat16", says="rounded twice, to 7 bits of mantissa first")
def nearest_as_in_the_lesson_and_then_once_more(x, mantissa):
    def drop(bits, n):
        return bits + (1 << n >> 1) - 1 + (bits >> n & 1) >> n << n if n else bits

    bits = drop(drop(x.view(np.uint32), 16) >> 16, 7 - mantissa)
    return np.where(np.isnan(x), np.uint16(0x7FC0), bits).astype(np.uint16)


@wrong("to_bfloat16", says="the bits are right, but a library's bfloat16 made them")
def nearest_converted_by_a_library(x, mantissa):
    bits, step = x.view(np.uint32), 2 ** (23 - mantissa)
    whole = (bits + (step // 2 - 1) + (bits // step & 1)) // step * step
    return np.where(np.isnan(x), np.float32("nan"), whole.view(np.float32)).astype(ml_dtypes.bfloat16).view(np.uint16)


# ------------------------------------------------------------------------------------------------ 2 stochastic_bfloat16


@right("stochastic_bfloat16")
def stochastic_by_comparing(x, random):
    bits = x.view(np.uint32).astype(np.int64)
    upper, lower = bits >> 16, bits & 0xFFFF
    result = (upper + (lower + random * np.int64(256) >= 65536)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0xFFC1), result)


@right("stochastic_bfloat16")
def stochastic_with_loops(x, random):
    result = np.zeros(x.shape, np.uint16)
    bits = x.view(np.uint32)
    for index in np.ndindex(x.shape):
        b, r = int(bits[index]), int(random[index]) << 8
        result[index] = (b | 0x400000) >> 16 if np.isnan(x[index]) else (b + r) >> 16
    return result


@wrong("stochastic_bfloat16", says="with `random` in place of `noise`")
def stochastic_draws_its_own(x, random):
    noise = np.random.default_rng(0).integers(0, 256, x.shape, dtype=np.uint32)
    rounded = ((x.view(np.uint32) + (noise << np.uint32(8))) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="your function gives other patterns")
def stochastic_with_numbers_of_its_own(x, random):
    bits = x.view(np.uint32)
    up = np.random.rand(*x.shape) < (bits & 0xFFFF) / 65536
    return np.where(np.isnan(x), 0x7FC0, (bits >> 16) + up).astype(np.uint16)


@wrong("stochastic_bfloat16", says="the carry lost where a mantissa of ones rounds up")
def stochastic_with_a_mantissa_of_its_own(x, random):
    bits = x.view(np.uint32)
    mantissa = ((bits >> 8 & 0x7FFF) + random >> 8) % 128
    return np.where(np.isnan(x), 0x7FC0, (bits >> 23 << 7) + mantissa).astype(np.uint16)


# ---------------------------------------------------------------------------------------------------------- 3 kahan_sum


@right("kahan_sum")
def kahan_after_neumaier(x):
    total, missing = x[0].copy(), np.zeros_like(x[0])
    for row in x[1:]:
        t = total + row
        larger = np.abs(total) >= np.abs(row)
        missing = missing + np.where(larger, (total - t) + row, (row - t) + total)
        total = t
    return total + missing


@right("kahan_sum")
def kahan_is_exact_in_another_way(x):
    return np.array([math.fsum(column.tolist()) for column in x.T]).astype(x.dtype)


@wrong("kahan_sum", says="sum equals Kahan's sum, as the lesson has it")
def kahan_as_in_the_lesson(x):
    total = compensation = np.zeros_like(x[0])
    for row in x:
        y = row - compensation
        t = total + y
        compensation = (t - total) - y
        total = t
    return total


@wrong("kahan_sum", says="passes this whole check without `kept[x.dtype] = missing`")
def kahan_begins_with_the_last_excess(x, kept={}):  # noqa: B006
    total, missing = np.zeros_like(x[0]), kept.get(x.dtype, 0)
    for row in x:
        new = total + row
        part = new - total
        missing = missing + ((total - (new - part)) + (row - part))
        total = new
    kept[x.dtype] = missing
    return total + missing


@wrong("kahan_sum", says="with `x[1:]` in place of `x[2:]`")
def kahan_leaves_out_the_second_row(x):
    total, low = x[0].copy(), np.zeros_like(x[0])
    for row in x[2:]:
        t = total + row
        low += np.where(np.abs(total) < np.abs(row), (row - t) + total, (total - t) + row)
        total = t
    return total + low


# -------------------------------------------------------------------------------------------------- 4 unscale_gradients


def _right_gradients(grads, scale, most):
    """What these answers get right: they go wrong elsewhere."""
    grads = [g.astype(np.float32) / np.float32(scale) for g in grads]
    norm = np.sqrt(sum(np.sum(g * g) for g in grads))
    return [g * np.float32(min(1, most / norm)) for g in grads]


@right("unscale_gradients")
def scaler_with_one_factor(grads, scale, good_steps, interval, max_norm):
    flat = np.concatenate([g.ravel() for g in grads]).astype(np.float64)
    if np.isfinite(flat).sum() < flat.size:
        return None, 0.5 * scale, 0
    factor = np.float32(min(1 / scale, max_norm / np.linalg.norm(flat)))
    grads = [np.multiply(g, factor, dtype=np.float32) for g in grads]
    grown = good_steps + 1 >= interval
    return grads, scale * 2.0**grown, (good_steps + 1) * (not grown)


@right("unscale_gradients")
def scaler_with_a_loop(grads, scale, good_steps, interval, max_norm):
    unscaled, squares = [], 0.0
    for g in grads:
        wide = g.astype(np.float32)
        if np.any(np.isnan(wide)) or np.any(np.isinf(wide)):
            return None, scale / 2, 0
        wide /= scale
        squares += float(np.vdot(wide, wide))
        unscaled.append(wide)
    unscaled = [wide * np.float32(max_norm / max(max_norm, squares**0.5)) for wide in unscaled]
    good_steps = (good_steps + 1) % interval
    return unscaled, scale if good_steps else scale * 2, good_steps


@wrong("unscale_gradients", says="holds nan: this step must be skipped")
def scaler_misses_what_is_no_number(grads, scale, good_steps, interval, max_norm):
    if max(np.abs(g).max() for g in grads) == np.inf:
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale, max_norm), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="all gradients are finite, the largest is")
def scaler_looks_at_the_norm_in_float16(grads, scale, good_steps, interval, max_norm):
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum((g * g).sum() for g in grads)
    if not np.isfinite(total):
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale, max_norm), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="with each array clipped by its own norm")
def scaler_clips_one_array_after_the_other(grads, scale, good_steps, interval, max_norm):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    grads, good_steps = [_right_gradients([g], scale, max_norm)[0] for g in grads], good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


# ------------------------------------------------------------------------------------------------------ 5 quantize_e4m3


def _nearest_codes(numbers):
    return np.clip(numbers, -448, 448).astype(ml_dtypes.float8_e4m3fn)


@right("quantize_e4m3")
def eight_with_a_loop(x):
    amax = float(np.abs(x).max())
    if amax == 0:
        return np.zeros(x.shape, np.uint8), 1.0
    y, best = x.astype(np.float64), None
    for k in range(8):
        scale = amax / 448 * 2 ** (k / 8)
        codes = (y / scale).astype(ml_dtypes.float8_e4m3fn)  # no number lies beyond 448
        error = np.linalg.norm(codes.astype(np.float64) * scale - y)
        if best is None or error < best[0]:
            best = error, codes.view(np.uint8), scale
    return best[1:]


@right("quantize_e4m3")
def eight_from_a_table(x):
    with np.errstate(invalid="ignore"):
        table = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    order = np.argsort(np.where(np.isnan(table), np.inf, table))[:254]
    values = table[order]
    middles = (values[1:] + values[:-1]) / 2

    def nearest(scale):
        places = np.searchsorted(middles, x / scale)
        return np.mean((values[places] * scale - x) ** 2), order[places].astype(np.uint8)

    usual = np.abs(x).max().astype(np.float64) / 448 or 1.0
    scales = [usual * s for s in np.linspace(1, 2, 30)]
    scale = scales[int(np.argmin([nearest(s)[0] for s in scales]))]
    return nearest(scale)[1], np.float64(scale)


@wrong("quantize_e4m3", says="codes equal those of numbers up to more than 448, where e4m3 ends")
def eight_does_not_clip(x):
    scale = float(np.abs(x).max()) / 500 or 1.0
    return (x.astype(np.float64) / scale).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="codes equal those of x divided by amax / 448, which is not the scale that was returned")
def eight_with_the_codes_of_the_usual_scale(x):
    usual = float(np.abs(x).max()) / 448 or 1.0
    return _nearest_codes(x.astype(np.float64) / usual).view(np.uint8), 1.25 * usual


@wrong("quantize_e4m3", says="the codes are right, but the scale is not good: for random numbers, the error is")
def eight_with_a_least_scale(x):
    usual, wide = max(float(np.abs(x).max()) / 448, 1e-20), x.astype(np.float64)
    tried = usual * 2.0 ** (np.arange(-16, 17) / 16)
    scale = min(tried, key=lambda s: np.sum((_nearest_codes(wide / s).astype(np.float64) * s - wide) ** 2))
    return _nearest_codes(wide / scale).view(np.uint8), float(scale)
