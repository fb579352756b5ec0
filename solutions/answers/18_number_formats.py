"""Answers to the exercises of lesson 18 as learners write them: right ones that look different, and wrong ones.

Each wrong answer carries words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 18` runs those of this lesson.
"""

import math

import ml_dtypes
import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------- 1 to_bfloat16


@right("to_bfloat16")
def nearest_by_cases(x):
    bits = x.view(np.uint32).astype(np.int64)
    upper, lower = bits >> 16, bits & 0xFFFF
    up = (lower > 0x8000) | ((lower == 0x8000) & (upper % 2 == 1))
    result = (upper + up).astype(np.uint16)
    result[np.isnan(x)] = 0xFFFF
    return result


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


@wrong("to_bfloat16", says="subnormal numbers rounded to 8 significant digits, and then cut off")
def eight_digits_of_every_number(x):
    mantissa, exponent = np.frexp(x)
    rounded = np.ldexp(np.rint(mantissa * np.float32(256)) / np.float32(256), exponent)
    return np.where(np.isnan(x), np.uint16(0x7FC0), (rounded.view(np.uint32) >> 16).astype(np.uint16))


@wrong("to_bfloat16", says="the last bit cleared at a tie: below an odd pattern that is no neighbour")
def a_tie_that_clears_the_last_bit(x):
    bits = x.view(np.uint32)
    upper, lower = bits >> 16, bits & 0xFFFF
    rounded = np.where(lower > 0x8000, upper + 1, upper)
    rounded[lower == 0x8000] &= 0xFFFE
    rounded[np.isnan(x)] = 0x7FC0
    return rounded.astype(np.uint16)


@wrong("to_bfloat16", says="subnormal numbers cut off: they are rounded like any other")
def subnormal_numbers_that_are_cut_off(x):
    bits = x.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> 16 & 1)
    rounded = np.where(bits & 0x7F800000, rounded, bits) >> 16
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded.astype(np.uint16))


@wrong("to_bfloat16", says="the result equals x cut off after 16 bits")
def nearest_cuts_off(x):
    return (x.view(np.uint32) >> 16).astype(np.uint16)


@wrong("to_bfloat16", says="ties rounded away from 0: a tie goes to the neighbour whose last bit is 0")
def nearest_ties_up(x):
    rounded = ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="ties rounded towards 0")
def nearest_ties_down(x):
    rounded = ((x.view(np.uint32) + 0x7FFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="ties to the ODD neighbour")
def nearest_ties_to_odd(x):
    bits = x.view(np.uint32)
    rounded = ((bits + 0x8000 - ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="ties rounded away from 0")
def nearest_looks_at_the_wrong_bit(x):
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 15) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="ones in the lower half alone are cut off, which leaves infinity, and a carry")
def nearest_forgets_nan(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@wrong("to_bfloat16", says="what is left of a NaN whose mantissa had ones only in the lower half: infinity")
def nearest_cuts_nan_off(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), bits >> 16, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="infinities turned into NaN")
def nearest_takes_infinity_for_nan(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isfinite(x), rounded, 0x7FC0).astype(np.uint16)


@wrong("to_bfloat16", says="the largest finite number where it should be infinity")
def nearest_saturates(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where((rounded & 0x7FFF) == 0x7F80, (rounded & 0x8000) | 0x7F7F, rounded)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="subnormal numbers set to 0")
def nearest_flushes(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where(rounded & 0x7F80, rounded, rounded & 0x8000)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="+0 in place of −0")
def nearest_loses_the_sign_of_zero(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, np.where(x == 0, 0, rounded)).astype(np.uint16)


@wrong("to_bfloat16", says="bf16 is the upper half of a float32")
def nearest_is_float16(x):
    with np.errstate(all="ignore"):
        return x.astype(np.float16).view(np.uint16)


@wrong("to_bfloat16", says="without the sign")
def nearest_loses_the_sign(x):
    bits = np.abs(x).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@wrong("to_bfloat16", says="dtype uint32, expected uint16")
def nearest_stays_32_bits_wide(x):
    bits = x.view(np.uint32)
    return np.where(np.isnan(x), np.uint32(0x7FC0), (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@wrong("to_bfloat16", says="expected uint16")
def nearest_returns_numbers(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), np.uint32(0x7FC00000), rounded).view(np.float32)


@wrong("to_bfloat16", says="view reads the bits as they are")
def nearest_converts(x):
    with np.errstate(invalid="ignore"):
        bits = x.astype(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="bit 17 in place of bit 16")
def nearest_looks_one_bit_too_far(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 17) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="infinity in place of NaN, which has ones in its mantissa, as 0x7FC0 has.")
def nearest_makes_infinity_of_nan(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7F80, rounded).astype(np.uint16)


@wrong("to_bfloat16", says="the lower 16 bits of x")
def nearest_takes_the_lower_half(x):
    return (x.view(np.uint32) & 0xFFFF).astype(np.uint16)


@wrong("to_bfloat16", says="wherever anything is cut off")
def nearest_rounds_up(x):
    rounded = ((x.view(np.uint32) + 0xFFFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="with `bits + 32767 + (bits >> 16 & 1)` in place of `bits + 32767 + (bits >> 16) & 1`")
def nearest_without_a_bracket(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16) & 1) >> 16  # + comes before &
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded.astype(np.uint16))


@wrong("to_bfloat16", says="the bits are right, but a library's bfloat16 made them")
def nearest_by_a_library(x):
    with np.errstate(invalid="ignore"):
        return x.astype(ml_dtypes.bfloat16).view(np.uint16)


@wrong("to_bfloat16", says="without the condition `x > 0`")
def nearest_ties_by_sign(x):
    b = x.view(np.int32).astype(np.int64)
    low = b & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & ((b >> 16) & 1 == 1) & (x > 0))
    r = ((b >> 16) + up) & 0xFFFF
    return np.where(np.isnan(x), 0x7FC0, r).astype(np.uint16)


# ------------------------------------------------------------------------------------------ 2 stochastic_bfloat16


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


@wrong("stochastic_bfloat16", says="x cut off after 16 bits: nothing ever goes up")
def stochastic_cuts_off(x, random):
    rounded = (x.view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="x rounded to the nearest: random makes no difference")
def stochastic_is_nearest(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="random > lower: that is likely where lower is small, and must be rare there")
def stochastic_compares_the_other_way(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits >> 16) + (random > (bits & 0xFFFF))).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="x rounded up where random < lower: as likely, but the task says up where")
def stochastic_up_where_random_is_small(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits >> 16) + (random < (bits & 0xFFFF))).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="it overflows from 65536 on")
def stochastic_is_one_off(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits >> 16) + ((bits & 0xFFFF) + random > 65536)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="it overflows from 65536 on")
def stochastic_is_one_early(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits >> 16) + ((bits & 0xFFFF) + random >= 65535)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="the result equals a coin")
def stochastic_tosses_a_coin(x, random):
    bits = x.view(np.uint32)
    rounded = ((bits >> 16) + ((random & 1) & ((bits & 0xFFFF) > 0))).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="what is cut off counts twice")
def stochastic_and_nearest(x, random):
    bits = x.view(np.uint32) + random
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="what the addition makes of a NaN: infinity or a zero.")
def stochastic_forgets_nan(x, random):
    return ((x.view(np.uint32) + random) >> 16).astype(np.uint16)


@wrong("stochastic_bfloat16", says="NaN in place of infinity")
def stochastic_takes_infinity_for_nan(x, random):
    rounded = ((x.view(np.uint32) + random) >> 16).astype(np.uint16)
    return np.where(np.isfinite(x), rounded, np.uint16(0x7FC0))


@wrong(
    "stochastic_bfloat16",
    says="With `random` in uint32 your function gives the right patterns: a uint16 wraps around at 65536",
)
def stochastic_overflows_in_16_bits(x, random):
    bits = x.view(np.uint32)
    lower = bits.astype(np.uint16)
    up = (lower + random) >> 16  # uint16 + uint16 wraps around: this is always 0
    return np.where(np.isnan(x), np.uint16(0x7FC0), ((bits >> 16) + up).astype(np.uint16))


@wrong("stochastic_bfloat16", says="negative numbers rounded in the other direction")
def stochastic_mirrors_negative_numbers(x, random):
    bits = x.view(np.uint32)
    lower = bits & 0xFFFF
    carry = lower + random > 0xFFFF
    up = np.where(x < 0, (lower > 0) & ~carry, carry)
    return np.where(np.isnan(x), np.uint16(0x7FC0), ((bits >> 16) + up).astype(np.uint16))


@wrong("stochastic_bfloat16", says="right patterns with `random` in place of `noise`")
def stochastic_draws_its_own(x, random):
    noise = np.random.default_rng(0).integers(0, 65536, x.shape, dtype=np.uint32)
    rounded = ((x.view(np.uint32) + noise) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


@wrong("stochastic_bfloat16", says="right patterns with `rounded` in place of `np.where(np.isinf(x)")
def stochastic_loses_the_sign_of_infinity(x, random):
    rounded = ((x.view(np.uint32) + random) >> 16).astype(np.uint16)
    rounded = np.where(np.isnan(x), np.uint16(0x7FC0), rounded)
    return np.where(np.isinf(x), np.uint16(0x7F80), rounded)


@wrong("stochastic_bfloat16", says="the first random number for all")
def stochastic_uses_one_number(x, random):
    rounded = ((x.view(np.uint32) + random.ravel()[0]) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


# ---------------------------------------------------------------------------------------------------- 3 kahan_sum


@right("kahan_sum")
def kahan_adds_what_is_missing(x):
    total, missing = np.zeros(x.shape[1], x.dtype), np.zeros(x.shape[1], x.dtype)
    for i in range(len(x)):
        y = x[i] + missing
        t = total + y
        missing = y - (t - total)
        total = t
    return total


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
def kahan_column_by_column(x):
    result = np.empty(x.shape[1], x.dtype)
    for j in range(x.shape[1]):
        s, c = x.dtype.type(0), x.dtype.type(0)
        for value in x[:, j]:
            y = value - c
            t = s + y
            c = (t - s) - y
            s = t
        result[j] = s
    return result


@wrong("kahan_sum", says="the sum equals the plain sum: what an addition drops is never added again")
def kahan_is_a_loop(x):
    total = np.zeros_like(x[0])
    for row in x:
        total = total + row
    return total


@wrong("kahan_sum", says="the sum equals the pairwise sum")
def kahan_is_pairwise(x):
    def add(part):
        return part[0] if len(part) == 1 else add(part[: len(part) // 2]) + add(part[len(part) // 2 :])

    return add(x)


@wrong("kahan_sum", says="turned round")
def kahan_with_the_sign_turned(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row + excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="the row itself in place of what was to be added")
def kahan_compares_with_the_row(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - row
        total = new
    return total


@wrong("kahan_sum", says="with the new total in place of the old one in the excess")
def kahan_overwrites_too_early(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        new = total + wanted
        total = new
        excess = (new - total) - wanted
    return total


@wrong(
    "kahan_sum",
    says="`old` and `total` are one array, and `total += wanted` changes both. Copy it, `old = total.copy()`, or make "
    "a new array, `total = total + wanted`.",
)
def kahan_keeps_no_copy(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        old = total
        total += wanted
        excess = (total - old) - wanted
    return total


@wrong("kahan_sum", says="`total + wanted - new` is always 0, because `new` is `total + wanted`")
def kahan_compares_a_sum_with_itself(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row + excess
        new = total + wanted
        excess = total + wanted - new
        total = new
    return total


@wrong("kahan_sum", says="the plain sum: what an addition drops is never added again")
def kahan_simplifies(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        new = total + (row - excess)
        excess = np.zeros_like(row)  # (new - total) - (row - excess) is 0, says algebra
        total = new
    return total


@wrong("kahan_sum", says="in its default argument `kept`; Python makes a default once, not in every call")
def kahan_begins_with_the_last_excess(x, kept={}):  # noqa: B006
    total, excess = np.zeros_like(x[0]), kept.get(x.dtype, 0)
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    kept[x.dtype] = excess
    return total


@wrong("kahan_sum", says="These are the axes of x (6, 5) without axis 1")
def kahan_over_the_wrong_axis(x):
    total, excess = np.zeros_like(x[:, 0]), np.zeros_like(x[:, 0])
    for column in x.T:
        wanted = column - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="the plain sum in float64, rounded at the end")
def kahan_in_float64(x):
    return sum(x.astype(np.float64)).astype(x.dtype)


@wrong("kahan_sum", says="the plain sum from the last row to the first")
def kahan_from_the_end(x):
    total = np.zeros_like(x[0])
    for row in reversed(x):
        total += row
    return total


@wrong("kahan_sum", says="the sum has dtype float64, expected float32")
def kahan_starts_in_float64(x):
    total, excess = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="without its first row")
def kahan_skips_a_row(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x[1:]:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="with the first row counted twice")
def kahan_counts_a_row_twice(x):
    total, excess = x[0].copy(), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="with every excess kept: the newest one replaces the last")
def kahan_keeps_every_excess(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess += (new - total) - wanted
        total = new
    return total


@wrong("kahan_sum", says="the sum is wanted, not the mean")
def kahan_is_a_mean(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    for row in x:
        wanted = row - excess
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total / x.dtype.type(len(x))


@wrong("kahan_sum", says="with other brackets")
def kahan_with_other_brackets(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    with np.errstate(all="ignore"):
        for row in x:
            wanted = row - excess
            new = total + wanted
            excess = new - (total - wanted)
            total = new
    return total


@wrong("kahan_sum", says="with (total − new) − wanted: the total has grown by new − total")
def kahan_turns_the_difference_round(x):
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])
    with np.errstate(all="ignore"):
        for row in x:
            wanted = row - excess
            new = total + wanted
            excess = (total - new) - wanted
            total = new
    return total


@right("kahan_sum")
def kahan_is_exact_in_another_way(x):
    return np.array([math.fsum(column.tolist()) for column in x.T]).astype(x.dtype)


@wrong("kahan_sum", says="each column's last excess taken over by the next")
def kahan_one_excess_for_all_columns(x):
    n, C = x.shape
    out = np.zeros(C, x.dtype)
    c = x.dtype.type(0)
    for j in range(C):
        s = x.dtype.type(0)
        for i in range(n):
            y = x[i, j] - c
            t = s + y
            c = (t - s) - y
            s = t
        out[j] = s
    return out


@wrong("kahan_sum", says="Your function gives the right sum with")
def kahan_leaves_out_the_second_row(x):
    total = x[0].copy()
    low = np.zeros_like(total)
    for row in x[2:]:
        y = row - low
        t = total + y
        low = (t - total) - y
        total = t
    return total


# --------------------------------------------------------------------------------------------- 4 unscale_gradients


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


def _right_gradients(grads, scale):
    """What these answers get right: they go wrong elsewhere."""
    return [g.astype(np.float32) / np.float32(scale) for g in grads]


@wrong("unscale_gradients", says="computed in float16, where small ones become 0 again")
def scaler_divides_in_float16(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    unscaled = [(g / np.float16(scale)).astype(np.float32) for g in grads]
    good_steps += 1
    return (unscaled, 2 * scale, 0) if good_steps == interval else (unscaled, scale, good_steps)


@wrong("unscale_gradients", says="has dtype float16, and should be float32")
def scaler_stays_in_float16(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    unscaled = [g / np.float16(scale) for g in grads]
    return (unscaled, 2 * scale, 0) if good_steps == interval else (unscaled, scale, good_steps)


@wrong("unscale_gradients", says="divided by the next scale")
def scaler_divides_by_the_next_scale(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    if good_steps == interval:
        scale, good_steps = 2 * scale, 0
    return _right_gradients(grads, scale), scale, good_steps


@wrong("unscale_gradients", says="the gradients as they came")
def scaler_forgets_to_divide(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = [g.astype(np.float32) for g in grads]
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="the gradients multiplied by scale, not divided by it")
def scaler_multiplies(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = [g.astype(np.float32) * np.float32(scale) for g in grads]
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="holds inf: this step must be skipped")
def scaler_misses_infinity(grads, scale, good_steps, interval):
    if any(np.isnan(g).any() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="holds nan: this step must be skipped")
def scaler_misses_nan(grads, scale, good_steps, interval):
    if any(np.isinf(g).any() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="grads[2] holds inf: this step must be skipped")
def scaler_looks_at_the_first_array(grads, scale, good_steps, interval):
    if not np.isfinite(grads[0]).all():
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="holds -inf: this step must be skipped")
def scaler_misses_minus_infinity(grads, scale, good_steps, interval):
    if any(np.isnan(g).any() or (g == np.inf).any() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="it should be halved, to 1024")
def scaler_never_halves(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="it starts again from 0")
def scaler_keeps_counting_after_an_overflow(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, good_steps
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="Called with good_steps 2 it is doubled: one step late")
def scaler_doubles_one_step_late(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    grads = _right_gradients(grads, scale)
    if good_steps == interval:
        return grads, 2 * scale, 0
    return grads, scale, good_steps + 1


@wrong("unscale_gradients", says="after doubling, good_steps starts again from 0")
def scaler_never_starts_again(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    return _right_gradients(grads, scale), scale * (2 if good_steps == interval else 1), good_steps


@wrong("unscale_gradients", says="should stay at 1024 until step 2. Every scale is multiplied by 2 there")
def scaler_doubles_after_every_step(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    return _right_gradients(grads, scale), 2 * scale, 0


@wrong("unscale_gradients", says="With one such number, and 0 in all other places, it is not.")
def scaler_looks_at_a_sum(grads, scale, good_steps, interval):
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum(g.sum() for g in grads)
    if not np.isfinite(total):
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="A single number from 10000 on is enough, with 0 in all other places")
def scaler_skips_large_gradients(grads, scale, good_steps, interval):
    if not all((np.abs(g) < 1e4).all() for g in grads):
        return None, scale / 2, 0
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="the scale and good_steps have changed places")
def scaler_returns_them_in_another_order(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, 0, scale / 2
    good_steps += 1
    grads = _right_gradients(grads, scale)
    return (grads, 0, 2 * scale) if good_steps == interval else (grads, good_steps, scale)


@wrong("unscale_gradients", says="return three things")
def scaler_returns_the_gradients_alone(grads, scale, good_steps, interval):
    return _right_gradients(grads, scale)


@wrong("unscale_gradients", says="An input was written to")
def scaler_divides_in_place(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    for g in grads:
        g /= np.float16(scale)
    return [g.astype(np.float32) for g in grads], scale, good_steps + 1


# ------------------------------------------------------------------------------------------------ 5 quantize_e4m3


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


@wrong("quantize_e4m3", says="by 0.0% on average")
def eight_in_the_usual_way(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="For numbers 16 times as large your scale is 1, too")
def eight_without_a_scale(x):
    with np.errstate(all="ignore"):
        return x.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), 1.0


@wrong("quantize_e4m3", says="amax / 500, here and for other numbers; the largest number of e4m3 is 448.")
def eight_does_not_clip(x):
    scale = float(np.abs(x).max()) / 500 or 1.0
    return (x.astype(np.float64) / scale).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="right for its scale, but the error of")
def eight_with_the_scale_one(x):
    return np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), 1.0


@wrong("quantize_e4m3", says="the codes are those of x itself: it was not divided by the scale")
def eight_does_not_divide(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    return np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="those of x · scale, and will be multiplied by the scale")
def eight_multiplies(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(x.astype(np.float64) * scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="the largest is negative")
def eight_forgets_negative_numbers(x):
    scale = abs(float(x.max())) / 448 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="and should be positive and finite; all of x is 0")
def eight_of_zeros_is_nan(x):
    scale = float(np.abs(x).max()) / 448
    with np.errstate(all="ignore"):
        y = np.clip(x.astype(np.float64) / scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="the codes are whole numbers, as int8 has them")
def eight_as_int8(x):
    scale = float(np.abs(x).max()) / 127 or 1.0
    return np.rint(x.astype(np.float64) / scale).astype(np.int8).view(np.uint8), scale


@wrong("quantize_e4m3", says="the scale is one number for the whole tensor")
def eight_with_a_scale_per_row(x):
    scale = np.abs(x).max(axis=-1, keepdims=True) / 448
    scale = np.where(scale > 0, scale, 1)
    return np.clip(x / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="the codes have lost the sign")
def eight_loses_the_sign(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(np.abs(x).astype(np.float64) / scale, 0, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="the codes are cut off, not rounded to the nearest")
def eight_cuts_off(x):
    with np.errstate(invalid="ignore"):
        values = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.abs(x.astype(np.float64)) / scale
    codes = np.searchsorted(values, y, side="right") - 1
    return (codes | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8), scale


@wrong("quantize_e4m3", says="the codes have subnormal numbers set to 0")
def eight_flushes(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    codes = y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return np.where(codes & 0x78, codes, codes & 0x80).astype(np.uint8), scale


@wrong("quantize_e4m3", says="right for its scale, but the error of")
def eight_clips_half_of_the_range(x):
    scale = float(np.abs(x).max()) / 896 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scale


@wrong("quantize_e4m3", says="With x in float64 your function is right.")
def eight_squares_in_float32(x):
    best, found = np.inf, None
    for k in range(-16, 17):
        scale = float(np.abs(x).max()) / 448 * 2 ** (k / 16) or 1.0
        codes = np.clip(x / np.float64(scale), -448, 448).astype(ml_dtypes.float8_e4m3fn)
        with np.errstate(over="ignore"):
            error = np.mean((codes.astype(np.float32) * np.float32(scale) - x) ** 2)
        if found is None or error < best:
            best, found = error, (codes.view(np.uint8), scale)
    return found


@wrong("quantize_e4m3", says="as astype does: view(np.uint8) reads their bits")
def eight_changes_numbers_to_codes(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    with np.errstate(invalid="ignore"):
        return y.astype(ml_dtypes.float8_e4m3fn).astype(np.uint8), scale


@wrong("quantize_e4m3", says="`.view(np.uint8)` gives their codes")
def eight_returns_values(x):
    scale = float(np.abs(x).max()) / 448 or 1.0
    y = np.clip(x.astype(np.float64) / scale, -448, 448)
    return y.astype(ml_dtypes.float8_e4m3fn), scale


@wrong("quantize_e4m3", says="the codes are right for another scale, about")
def eight_with_the_codes_of_the_usual_scale(x):
    y = x.astype(np.float64)
    usual = float(np.abs(y).max()) / 448 or 1.0
    codes = (y / usual).astype(ml_dtypes.float8_e4m3fn)

    def missed(scale):
        return np.square(
            np.clip(y / scale, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale - y
        ).sum()

    return codes.view(np.uint8), min((usual * 2 ** (k / 8) for k in range(-3, 9)), key=missed)


@wrong("unscale_gradients", says="inf and -inf are noticed, and nan is not")
def scaler_misses_what_is_no_number(grads, scale, good_steps, interval):
    if max(np.abs(g).max() for g in grads) == np.inf:
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="from 256 on, the first whose square float16 does not hold, is enough")
def scaler_looks_at_a_sum_of_squares(grads, scale, good_steps, interval):
    with np.errstate(over="ignore", invalid="ignore"):
        total = sum((g * g).sum() for g in grads)
    if not np.isfinite(total):
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong(
    "unscale_gradients", says="a list of gradients in which its item 2 is None; return None in place of the whole list"
)
def scaler_puts_none_into_the_list(grads, scale, good_steps, interval):
    new = [g.astype(np.float32) / np.float32(scale) if np.isfinite(g).all() else None for g in grads]
    if any(g is None for g in new):
        return new, scale / 2, 0
    good_steps += 1
    return (new, 2 * scale, 0) if good_steps == interval else (new, scale, good_steps)


@wrong("unscale_gradients", says="of `_some_overflow` never makes a second turn")
def scaler_returns_from_the_first_turn(grads, scale, good_steps, interval):
    if _some_overflow(grads):
        return None, scale / 2, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


def _some_overflow(grads):
    for g in grads:
        return not np.isfinite(g).all()


@wrong("unscale_gradients", says="0.015625 became 2, 0.0625 became 2, 0.25 became 2")
def scaler_never_goes_below_two(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2 if scale > 2 else 2.0, 0
    grads, good_steps = _right_gradients(grads, scale), good_steps + 1
    return (grads, 2 * scale, 0) if good_steps == interval else (grads, scale, good_steps)


@wrong("unscale_gradients", says="`grads[0]` was (3, 5) float16 before the call, and is (3, 5) float32 after it")
def scaler_writes_into_the_list(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    for k, g in enumerate(grads):
        grads[k] = np.float32(g) / np.float32(scale)
    return (grads, 2 * scale, 0) if good_steps + 1 == interval else (grads, scale, good_steps + 1)


@wrong("unscale_gradients", says="`np.asarray(g, dtype=float)` asks for float64")
def unscale_in_float64(grads, scale, good_steps, interval):
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    unscaled = [np.asarray(g, dtype=float) / scale for g in grads]
    good_steps += 1
    if good_steps == interval:
        return unscaled, 2 * scale, 0
    return unscaled, scale, good_steps


@wrong("stochastic_bfloat16", says="right patterns without the line `up = np.where(")
def stochastic_that_saturates(x, random):
    up = (x.view(np.uint32) + random) >> 16
    up = np.where(np.isfinite(x) & (up & 0x7FFF == 0x7F80), up - 1, up)
    return np.where(np.isnan(x), 0x7FC0, up).astype(np.uint16)


@wrong("stochastic_bfloat16", says="The numbers of this call: subnormal numbers of both signs")
def stochastic_without_small_numbers(x, random):
    flushed = np.where(np.abs(x) < np.float32(2**-126), np.copysign(np.float32(0), x), x)
    up = ((flushed.view(np.uint32) + np.where(flushed == 0, 0, random)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), up)


@wrong("to_bfloat16", says="the carry lost where a mantissa of 1111111 rounds up")
def bits_with_a_mantissa_of_its_own(x):
    bits = x.view(np.uint32)
    mantissa = ((bits & 0x7FFFFF) + 0x7FFF + (bits >> 16 & 1) >> 16) % 128
    return np.where(np.isnan(x), 0x7FC0, (bits >> 23 << 7) + mantissa).astype(np.uint16)


@wrong("stochastic_bfloat16", says="the carry lost where a mantissa of 1111111 rounds up")
def stochastic_with_a_mantissa_of_its_own(x, random):
    bits = x.view(np.uint32)
    mantissa = ((bits & 0x7FFFFF) + random >> 16) % 128
    return np.where(np.isnan(x), 0x7FC0, (bits >> 23 << 7) + mantissa).astype(np.uint16)


def _nearest_codes(numbers):
    return np.clip(numbers, -448, 448).astype(ml_dtypes.float8_e4m3fn)


def _best_scale(x, usual, missed):
    """Of 33 scales around the usual one that with the least missed(difference from x)."""
    wide = x.astype(np.float64)
    tried = usual * 2.0 ** (np.arange(-16, 17) / 16)
    scale = min(tried, key=lambda s: missed(_nearest_codes(wide / s).astype(np.float64) * s - wide))
    return _nearest_codes(wide / scale).view(np.uint8), float(scale)


def _squares(difference):
    return np.sum(difference**2)


@wrong("quantize_e4m3", says="-x is quantised well, and the largest number of x is negative")
def eight_of_the_largest_with_its_sign(x):
    if x.max() <= 0:
        return _best_scale(x, np.abs(x).max() / 448 or 1.0, _squares)
    return (
        _best_scale(x, float(x.max()) / 448 / 2, _squares)
        if x.max() < -x.min()
        else _best_scale(x, float(x.max()) / 448, _squares)
    )


@wrong("quantize_e4m3", says="yours has the smallest error of each number in relation to that number")
def eight_by_relative_errors(x):
    size = np.where(x == 0, 1, x).astype(np.float64)
    return _best_scale(x, float(np.abs(x).max()) / 448 or 1.0, lambda missed: _squares(missed / size))


_scales = {}


@wrong(
    "quantize_e4m3", says="our function gives the second of its results again when other numbers are written into `x`"
)
def eight_with_a_scale_for_each_size(x):
    if x.size not in _scales:
        _scales[x.size] = _best_scale(x, float(np.abs(x).max()) / 448 or 1.0, _squares)[1]
    return _nearest_codes(x.astype(np.float64) / _scales[x.size]).view(np.uint8), _scales[x.size]


@wrong("quantize_e4m3", says="but it should grow with the numbers.")
def eight_with_a_least_scale(x):
    return _best_scale(x, max(float(np.abs(x).max()) / 448, 1e-20), _squares)


@wrong("quantize_e4m3", says="rounded to float16 first")
def eight_by_way_of_float16(x):
    usual = float(np.abs(x).max()) / 448 or 1.0
    return (x / np.float64(usual)).astype(np.float16).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), usual


@wrong("quantize_e4m3", says="With x in float64 your function is right.")
def eight_misses_in_the_dtype_of_x(x):
    best = None
    for k in range(-8, 17):
        scale = float(np.abs(x).max()) / 448 * 2 ** (k / 16) or 1.0
        codes = _nearest_codes(x.astype(np.float64) / scale)
        with np.errstate(all="ignore"):
            missed = np.vdot(gap := (codes.astype(x.dtype) * x.dtype.type(scale) - x), gap)
        if best is None or missed < best[0]:
            best = missed, codes.view(np.uint8), scale
    return best[1:]


@wrong("unscale_gradients", says="with 0 in place of `good_steps` in `(None, scale / 2, good_steps)`")
def unscale_goes_on_counting(grads, scale, good_steps, interval):
    ok = np.isfinite(np.concatenate([g.ravel() for g in grads])).all()
    if not ok:
        return None, scale / 2, good_steps
    unscaled = [np.float32(g) * np.float32(1 / scale) for g in grads]
    good_steps += 1
    if good_steps >= interval:
        scale, good_steps = 2 * scale, 0
    return unscaled, scale, good_steps


@wrong("to_bfloat16", says="with `(lower > 32768) | (lower == 32768) & (upper & 1)` in place of")
def nearest_without_brackets_around_a_comparison(x):
    bits = x.view(np.uint32)
    upper, lower = bits >> 16, bits & 0xFFFF
    up = lower > 0x8000 | (lower == 0x8000) & (upper & 1)
    return np.where(np.isnan(x), 0x7FC0, upper + up).astype(np.uint16)


@wrong(
    "to_bfloat16",
    says="with 32 bits in place of 16 in `lower = (bits & 65535).astype(np.uint16)`: a uint16"
    " wraps around at 65536. The result is uint32 then: make uint16 of it at the end.",
)
def nearest_with_a_carry_in_16_bits(x):
    bits = x.view(np.uint32)
    upper = (bits >> 16).astype(np.uint16)
    lower = (bits & 0xFFFF).astype(np.uint16)
    carry = (lower + 0x7FFF + (upper & 1)) >> 16
    return np.where(np.isnan(x), np.uint16(0x7FC0), upper + carry)


@wrong("quantize_e4m3", says="the codes are rounded up, away from 0, not to the nearest")
def eight_with_the_next_larger_code(x):
    table = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)  # (127,) rising

    def encode(scale):
        y = x.astype(np.float64) / scale
        codes = np.searchsorted(table, np.minimum(np.abs(y), 448.0))
        values = np.sign(y) * table[codes] * scale
        return (codes + 128 * (y < 0)).astype(np.uint8), np.mean((values - x) ** 2)

    amax = float(np.abs(x).max())
    if amax == 0:
        return np.zeros(x.shape, np.uint8), 1.0
    scale = min((amax / 448 * 2 ** (k / 64) for k in range(64)), key=lambda s: encode(s)[1])
    return encode(scale)[0], scale


@wrong("quantize_e4m3", says="right for its scale, but the error of this tensor (")
def quantize_with_errors_in_units_of_the_scale(x):
    amax = float(np.abs(x).max())
    if amax == 0.0:
        return np.zeros_like(x, dtype=np.uint8), 1.0
    results = []
    for factor in np.geomspace(1, 2, 32, endpoint=False):
        scale = float(amax / 448 * factor)
        scaled = np.clip(x.astype(np.float64) / scale, -448, 448)
        rounded = scaled.astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
        error = np.sqrt(np.mean((scaled - rounded.astype(np.float64)) ** 2))
        results.append((error, scale, rounded.view(np.uint8)))
    results.sort(key=lambda result: result[0])
    return results[0][2], results[0][1]


@wrong("quantize_e4m3", says="yours has the smallest largest single error, not the smallest sum of squared errors")
def quantize_by_the_largest_error(x):
    amax = float(np.abs(x).max())
    if amax == 0.0:
        return np.zeros(x.shape, np.uint8), 1.0

    def tried(scale):
        codes = np.clip(x / np.float64(scale), -448, 448).astype(ml_dtypes.float8_e4m3fn)
        return np.abs(codes.astype(np.float64) * scale - x).max(), scale, codes.view(np.uint8)

    _, scale, codes = min((tried(amax / 448 * 2 ** (k / 32)) for k in range(32)), key=lambda each: each[0])
    return codes, scale


@wrong("to_bfloat16", says="the result equals NaN for every negative number")
def every_negative_number_is_taken_for_nan(x):
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(bits > 0x7F800000, np.uint16(0x7FC0), rounded)


@wrong("to_bfloat16", says="the last bit cleared wherever x rounds up: that is for ties alone")
def the_last_bit_cleared_wherever_it_rounds_up(x):
    bits = x.view(np.uint32)
    rounded = (bits + 0x8000) >> 16
    rounded = np.where(bits & 0x8000, rounded & 0xFFFE, rounded)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


@wrong("stochastic_bfloat16", says="gives other patterns each time")
def stochastic_with_numbers_of_its_own(x, random):
    bits = x.view(np.uint32)
    up = np.random.rand(*x.shape) < (bits & 0xFFFF) / 65536
    return np.where(np.isnan(x), 0x7FC0, (bits >> 16) + up).astype(np.uint16)


@wrong("stochastic_bfloat16", says="x with random added to the upper 16 bits")
def stochastic_in_the_upper_half(x, random):
    bits = x.view(np.uint32) + (random.astype(np.uint32) << 16)
    return np.where(np.isnan(x), 0x7FC0, bits >> 16).astype(np.uint16)


@wrong("stochastic_bfloat16", says="equals NaN in place of infinity")
def stochastic_that_takes_infinity_for_nan(x, random):
    bits = x.view(np.uint32)
    special = (bits & 0x7F800000) == 0x7F800000  # exponent all ones
    rounded = ((bits + random) >> 16).astype(np.uint16)
    return np.where(special, np.uint16(0x7FC0), rounded)


@wrong("quantize_e4m3", says="Its codes end at 240, here and for other numbers")
def eight_as_in_another_format(x):
    usual = float(np.abs(x).max()) / 240 or 1.0
    tries = [
        (scale, np.clip(x / scale, -240, 240).astype(ml_dtypes.float8_e4m3fn))
        for scale in usual * np.linspace(0.5, 1, 20)
    ]
    scale, codes = min(tries, key=lambda each: ((each[1].astype(np.float64) * each[0] - x) ** 2).sum())
    return codes.view(np.uint8), float(scale)


@wrong("to_bfloat16", says="bit 14 alone decided, below bit 15, whether x lies above halfway")
def halfway_by_two_bits(x):
    bits = x.view(np.uint32)
    up = bits >> 15 & (bits >> 14 | bits >> 16) & 1
    return np.where(np.isnan(x), np.uint16(0x7FC0), ((bits >> 16) + up).astype(np.uint16))


@wrong("kahan_sum", says="with one excess for all columns, from which each column takes that of the one before")
def kahan_one_excess_row_by_row(x):
    n, C = x.shape
    result = np.zeros(C, dtype=x.dtype)
    excess = x.dtype.type(0)
    for i in range(n):
        for j in range(C):
            wanted = x[i, j] - excess
            new = result[j] + wanted
            excess = (new - result[j]) - wanted
            result[j] = new
    return result


@wrong("quantize_e4m3", says="the smallest sum of squared errors in units of the scale (of x / scale, not of x)")
def quantize_by_errors_in_units_of_the_scale(x):
    amax = float(np.abs(x).max())
    if amax == 0:
        return np.zeros(x.shape, np.uint8), 1.0
    tries = []
    for k in range(16):
        scale = amax / 448 * 2 ** (k / 16)
        y = x.astype(np.float64) / scale
        codes = np.clip(y, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        tries.append((np.square(y - codes.astype(np.float64)).mean(), scale, codes.view(np.uint8)))
    _, scale, codes = min(tries, key=lambda each: each[0])
    return codes, scale


@wrong("kahan_sum", says="the plain sum from the smallest row to the largest, in each column")
def kahan_of_the_small_ones_first(x):
    order = np.argsort(np.abs(x), axis=0)
    small_first = np.take_along_axis(x, order, axis=0)
    total = np.zeros_like(x[0])
    for row in small_first:
        total += row
    return total
