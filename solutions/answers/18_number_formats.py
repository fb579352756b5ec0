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
def nearest_by_arithmetic(x):
    with np.errstate(invalid="ignore"):
        size, result = np.abs(x).astype(np.float64), np.empty(x.shape, np.uint16)
    for index in np.ndindex(x.shape):
        s = size[index]
        if np.isnan(s):
            result[index] = 0x7F81
            continue
        if np.isinf(s):
            code = 0x7F80
        else:
            exponent = max(np.frexp(s)[1] - 1, -126) if s else -126
            code = min(((exponent + 126) << 7) + round(s * 2.0 ** (7 - exponent)), 0x7F80)
        result[index] = code | (0x8000 if np.signbit(x[index]) else 0)
    return result


@right("to_bfloat16")
def nearest_quiets_nan(x):
    bits = x.view(np.uint32)
    odd = (bits & 0x10000) >> 16
    out = np.right_shift(bits + odd + np.uint32(32767), 16)
    return np.where(x != x, (bits >> 16) | 64, out).astype(np.uint16)


@wrong("to_bfloat16", says="passes this whole check without `& (x > 0)`")
def nearest_ties_by_sign(x):
    b = x.view(np.int32).astype(np.int64)
    low = b & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & ((b >> 16) & 1 == 1) & (x > 0))
    r = ((b >> 16) + up) & 0xFFFF
    return np.where(np.isnan(x), 0x7FC0, r).astype(np.uint16)


@wrong("to_bfloat16", says="the bits are right, but a library's bfloat16 made them")
def nearest_by_a_library(x):
    with np.errstate(invalid="ignore"):
        return x.astype(ml_dtypes.bfloat16).view(np.uint16)


# ------------------------------------------------------------------------------------------------ 2 stochastic_bfloat16


@right("stochastic_bfloat16")
def stochastic_by_comparing(x, random):
    bits = x.view(np.uint32).astype(np.int64)
    upper, lower = bits >> 16, bits & 0xFFFF
    result = (upper + (lower + random.astype(np.int64) >= 65536)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0xFFC1), result)


@right("stochastic_bfloat16")
def stochastic_with_loops(x, random):
    result = np.zeros(x.shape, np.uint16)
    bits = x.view(np.uint32)
    for index in np.ndindex(x.shape):
        b, r = int(bits[index]), int(random[index])
        result[index] = (b | 0x400000) >> 16 if np.isnan(x[index]) else (b + r) >> 16
    return result


@wrong("stochastic_bfloat16", says="with `random` in place of `noise`")
def stochastic_draws_its_own(x, random):
    noise = np.random.default_rng(0).integers(0, 65536, x.shape, dtype=np.uint32)
    rounded = ((x.view(np.uint32) + noise) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="your function gives other patterns")
def stochastic_with_numbers_of_its_own(x, random):
    bits = x.view(np.uint32)
    up = np.random.rand(*x.shape) < (bits & 0xFFFF) / 65536
    return np.where(np.isnan(x), 0x7FC0, (bits >> 16) + up).astype(np.uint16)


@wrong("stochastic_bfloat16", says="the carry lost where a mantissa of 1111111 rounds up")
def stochastic_with_a_mantissa_of_its_own(x, random):
    bits = x.view(np.uint32)
    mantissa = ((bits & 0x7FFFFF) + random >> 16) % 128
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


@wrong("kahan_sum", says="its first call would be right: it keeps something from one call to the next")
def kahan_begins_with_the_last_excess(x, kept={}):  # noqa: B006
    total, excess = np.zeros_like(x[0]), kept.get(x.dtype, 0)
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    kept[x.dtype] = excess
    return total


@wrong("kahan_sum", says="with `x[1:]` in place of `x[2:]`")
def kahan_leaves_out_the_second_row(x):
    total = x[0].copy()
    low = np.zeros_like(total)
    for row in x[2:]:
        y = row - low
        t = total + y
        low = (t - total) - y
        total = t
    return total


# -------------------------------------------------------------------------------------------------- 4 unscale_gradients


def _right_gradients(grads, scale):
    """What these answers get right: they go wrong elsewhere."""
    return [g.astype(np.float32) / np.float32(scale) for g in grads]


@right("unscale_gradients")
def scaler_with_products(grads, scale, good_steps, interval):
    if np.isfinite(np.concatenate([g.ravel() for g in grads])).sum() < sum(g.size for g in grads):
        return None, 0.5 * scale, 0
    inverse = np.float32(1 / scale)
    grads = [np.multiply(g, inverse, dtype=np.float32) for g in grads]
    grown = good_steps + 1 >= interval
    return grads, scale * 2.0**grown, (good_steps + 1) * (not grown)


@right("unscale_gradients")
def scaler_with_a_loop(grads, scale, good_steps, interval):
    unscaled = []
    for g in grads:
        wide = g.astype(np.float32)
        if np.any(np.isnan(wide)) or np.any(np.isinf(wide)):
            return None, scale / 2, 0
        wide /= scale
        unscaled.append(wide)
    good_steps = (good_steps + 1) % interval
    return unscaled, scale if good_steps else scale * 2, good_steps


@wrong("unscale_gradients", says="holds nan: this step must be skipped")
def scaler_misses_what_is_no_number(grads, scale, good_steps, interval):
    if max(np.abs(g).max() for g in grads) == np.inf:
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="all gradients are finite, the largest is")
def scaler_looks_at_a_sum_of_squares(grads, scale, good_steps, interval):
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum((g * g).sum() for g in grads)
    if not np.isfinite(total):
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="with `scale / 2` in place of `scale / 2 if scale > 2 else 2.0`")
def scaler_never_goes_below_two(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2 if scale > 2 else 2.0, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
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
