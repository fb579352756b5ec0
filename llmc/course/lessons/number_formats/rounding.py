"""Lesson 18: what rounding to bf16 should give, groups of awkward numbers, and what each known mistake gives.

A group is a kind of numbers, of which a check makes one call: so a mistake shows in the first group that has it.
Mistakes are {sentence after "the result equals ": uint16 patterns}.
"""

import numpy as np

from llmc.course.lessons.number_formats.formats import BF16, encode

# where to look; a test compares these titles with the headings of notebooks/18_number_formats.ipynb
NEAREST = 'lesson 18, section "2.2 · One addition"'
EDGES = 'lesson 18, section "2.4 · The edges"'
STOCHASTIC = 'lesson 18, section "6.3 · By bits"'
HALF = 0x8000  # of what is cut off
NAN = 0x7FC0
LOST = (  # said of both ways to round
    "the carry lost where a mantissa of 1111111 rounds up: it becomes 0000000, and the exponent must grow by 1"
)
FIXED = "they have fewer, because the place of their last one is always the same"
BY_LIBRARY = "the bits are right, but a library's bfloat16 made them: compute them from the bits of x"


def by_library(function, seen=()) -> bool:
    """Does a function, or one of the same notebook that it calls, name the bfloat16 of a library?"""
    function = getattr(function, "py_func", function)  # what Numba compiled
    code = getattr(function, "__code__", None)
    if code is None or code in seen:
        return False
    called = [function.__globals__.get(name) for name in code.co_names]
    theirs = [f for f in called if getattr(f, "__module__", None) == function.__module__]
    own = any(getattr(f, "__name__", None) == "bfloat16" for f in theirs)
    named = not own and "bfloat16" in (*code.co_names, *code.co_consts)
    return named or any(by_library(f, (*seen, code)) for f in theirs)


def floats(upper, lower):
    """float32 numbers from their upper and lower 16 bits."""
    bits = np.asarray(upper, np.uint32) << np.uint32(16) | np.asarray(lower, np.uint32)
    return bits.view(np.float32)


def ordinary(rng, *shape):
    """float32 between 2^-20 and 2^20, of both signs; never halfway, and the lower half is never 0."""
    upper = rng.integers(0x3580, 0x4980, shape) | rng.integers(0, 2, shape) << 15
    lower = rng.integers(1, HALF, shape) | rng.integers(0, 2, shape) << 15
    return floats(upper, np.where(lower == HALF, 1, lower))


def groups(rng):
    """[(what they have in common, float32 x, where to look)], each for a call of its own."""
    upper = rng.permutation(np.r_[0x3F80:0x3F88, 0xC0F8:0xC100]).reshape(4, 4)  # odd and even ones, two exponents
    some = ordinary(rng, 5, 9)
    some[1, 2:4] = floats([0x407F, 0xBFFF], [0xC123, 0x9876])  # round up into the next exponent
    tiny = floats(rng.permutation(np.r_[1:8, 0x8001:0x8008]), rng.permutation(np.r_[0x7FF9:0x8007]))
    small = np.r_[tiny, floats([0, 0x8000, 0, 0x8000, 0, 0, 1, 0x8005], [0, 0, 1, 1, 0x8000, 0x8001, 0xFFFF, 0xFFFF])]
    large = floats(
        [0x7F7F, 0xFF7F, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F7E, 0x7F7F],
        [0x7FFF, 0x7FFF, 0x8000, 0xFFFF, 0, 0, 0xFFFF, 0],
    )
    nan = floats([0x7F80, 0x7FC0, 0x7FFF, 0xFFFF, 0xFF80, 0x7FBF], [1, 0, 0xFFFF, 0xFFFF, 0x8000, 0x8000])
    return [
        ("positive and negative, none of them halfway between two bf16 numbers", some, NEAREST),
        ("they lie exactly halfway between two bf16 numbers", floats(upper, HALF), NEAREST),
        ("zeros and subnormal numbers of both signs", rng.permutation(small), EDGES),
        ("around the largest bf16 number, and infinities", rng.permutation(large), EDGES),
        ("NaNs with different mantissas", rng.permutation(nan), EDGES),
    ]


def nearest(x):
    """bf16 patterns (uint16) of float32 x, ties to even: by arithmetic, where the exercise uses bits."""
    return encode(x, BF16).astype(np.uint16)


def nearest_mistakes(x) -> dict:
    """Known wrong patterns for one group of numbers."""
    b = x.view(np.uint32)
    keep, nan, infinite = b >> 16, np.isnan(x), np.isinf(x)
    odd, right = keep & 1, nearest(x).astype(np.uint32)
    to_even = b + np.uint32(0x7FFF) + odd >> 16  # wraps around for NaN
    with np.errstate(all="ignore"):
        halves, whole = x.astype(np.float16), x.astype(np.uint32)
    return {
        "x cut off after 16 bits": keep,
        "the bits of x changed into whole numbers, as astype does: view reads the bits as they are": (
            whole + 0x7FFF + (whole >> 16 & 1) >> 16
        ),
        "the lower 16 bits of x: bf16 is its upper half": b & 0xFFFF,
        "the lower 16 bits of x, rounded: bf16 is its upper half, which is the second of two uint16 in memory": (
            (b & 0xFFFF) + ((keep > HALF) | (keep == HALF) & (b & 1 == 1)) & 0xFFFF
        ),
        "the bits of float16, which has 5 bits of exponent: bf16 is the upper half of a float32": halves.view(
            np.uint16
        ),
        "x rounded to float16 first, and then to bf16": nearest(halves.astype(np.float32)),
        "the reference without the sign": right & 0x7FFF,
        "NaN for every negative number": (np.where(np.signbit(x), NAN, right)),
        "the reference with the last bit cleared wherever x rounds up: that is for ties alone": np.where(
            nan, right, np.where(b & HALF, (b + np.uint32(HALF) >> 16) & 0xFFFE, right)
        ),
        "x rounded up, away from 0, wherever anything is cut off": b + np.uint32(0xFFFF) >> 16,
        "the reference with ties rounded away from 0: a tie goes to the neighbour whose last bit is 0": (
            b + np.uint32(HALF) >> 16
        ),
        "the reference with ties rounded towards 0: a tie goes to the neighbour whose last bit is 0. Of x that is bit "
        "16, the last one that is kept": (b + np.uint32(0x7FFF) >> 16),
        "the reference with ties to the ODD neighbour: the last bit that is kept must become 0": (
            b + np.uint32(HALF) - odd >> 16
        ),
        "the reference with the last bit cleared at a tie: below an odd pattern that is no neighbour. There a tie goes "
        "up, to the next pattern, which is even": np.where(
            nan, right, np.where(b & 0xFFFF == HALF, keep & 0xFFFE, right)
        ),
        f"the reference with subnormal numbers rounded to 8 significant digits, and then cut off: {FIXED}": _by_digits(
            x, cut=True
        ),
        f"the reference with subnormal numbers rounded to 8 significant digits first: {FIXED}": _by_digits(
            x, cut=False
        ),
        "the reference with subnormal numbers cut off: they are rounded like any other": np.where(
            right & 0x7F80, right, keep
        ),
        "the reference with bit 17 in place of bit 16: the last bit that is kept is (bits >> 16) & 1": (
            b + np.uint32(0x7FFF) + (b >> 17 & 1) >> 16
        ),
        **{
            f"the reference if {words} decided, below bit 15, whether x lies above halfway: a 1 in any of the bits 14 "
            "to 0 puts it there": np.where(nan, right, keep + (b >> 15 & (odd | ((b & bits) > 0))))
            for words, bits in (("bit 14 alone", 1 << 14), ("bit 0 alone", 1))
        },
        f"the reference with {LOST}": np.where(nan, right, keep & 0xFF80 | right & 0x7F),
        "the reference with subnormal numbers set to 0: they have bits like any other": np.where(
            right & 0x7F80, right, right & HALF
        ),
        "the reference with +0 in place of −0: zero keeps its sign": np.where(x == 0, 0, right),
        "the largest finite number where it should be infinity: what rounds beyond it is infinite": np.where(
            (right & 0x7FFF) == 0x7F80, right & HALF | 0x7F7F, right
        ),
        "the reference with infinities turned into NaN": np.where(infinite, 0x7FC0 | keep & HALF, right),
        "the reference with every result beyond the largest number turned into NaN: it is infinity": np.where(
            (right & 0x7FFF) == 0x7F80, 0x7FC0 | right & HALF, right
        ),
        "what the addition makes of a NaN: ones in the lower half alone are cut off, which leaves infinity, and a "
        "carry runs through exponent and sign": to_even,
        "what is left of a NaN whose mantissa had ones only in the lower half: infinity": np.where(nan, keep, right),
        "infinity in place of NaN, which has ones in its mantissa, as 0x7FC0 has": np.where(nan, 0x7F80, right),
        "zeros in place of NaN": np.where(nan, 0, right),
    }


def _by_digits(x, cut):
    """Patterns of x rounded to 8 significant digits, however small it is, and then cut off or rounded again."""
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(x.astype(np.float64))
        eight = np.ldexp(np.rint(fraction * 256), exponent - 8).astype(np.float32)
    patterns = eight.view(np.uint32) >> 16 if cut else nearest(eight)
    return np.where(np.isfinite(x), patterns, nearest(x))


def stochastic(x, random):
    """bf16 patterns (uint16) of float32 x: away from 0 where the lower half plus random overflows 16 bits."""
    b = x.view(np.uint32).astype(np.int64)
    code = (b >> 16) + ((b & 0xFFFF) + random > 0xFFFF)
    return np.where(np.isnan(x), 0x7FC0 | b >> 16, code).astype(np.uint16)


def stochastic_groups(rng):
    """[(what they have in common, float32 x, uint16 random, where to look)], each for a call of its own."""

    def bits(*shape):
        return rng.integers(0, 1 << 16, shape).astype(np.uint16)

    x, exact, more = ordinary(rng, 5, 9), ordinary(rng, 15), ordinary(rng, 3, 2, 5)
    exact = floats(exact.view(np.uint32) >> 16, 0)
    lower = rng.integers(2, 1 << 16, 12)
    edge = floats(rng.integers(0x3F80, 0x4080, 12), lower)
    random = ((1 << 16) - lower + np.tile([-1, 0, 1], 4)).astype(np.uint16)
    tiny = floats([0, 0x8000, 0, 0x8000, 0x7F, 0x807F, 1, 0x8001], [1, 1, 0x8000, 0x2345, 0xFFFF, 0xFFFF, 0xFFFF, 0])
    up_or_not = np.array([0xFFFF, 0xFFFF, 0x7FFF, 0xDCBB, 1, 0, 1, 0xFFFF], np.uint16)
    large = floats([0x7F7F, 0xFF7F, 0x7F7F, 0xFF7F, 0x7F7E, 0x7F7F, 0xFF7F], [0xFFFF, 1, 0x8000, 0xFFFF, 0xFFFF, 0, 9])
    at_the_end = np.array([1, 0xFFFF, 0x8000, 0, 0xFFFF, 0xFFFF, 0xFFF6], np.uint16)
    upper = [0x7F80, 0xFF80, 0, 0x8000, 0x7F80, 0x7FFF, 0xFFFF, 0xFFC0, 0x7FFF, 0xFFFF]
    special = floats(upper, [0, 0, 0, 0, 1, 0xFFFF, 0xFFFF, 0, 0xFFFE, 0x8000])
    extreme = np.where(np.arange(len(upper)) % 2, 0xFFFF, 0xFFFE).astype(np.uint16)
    return [
        ("positive and negative, with any random bits", x, bits(5, 9), STOCHASTIC),
        ("bf16 holds them exactly", exact, np.maximum(bits(15), 0xFFF0), STOCHASTIC),
        ("the lower half and the random bits add up to 65535, 65536 or 65537", edge, random, STOCHASTIC),
        ("another shape", more, bits(3, 2, 5), STOCHASTIC),
        ("subnormal numbers of both signs", tiny, up_or_not, EDGES),
        ("around the largest bf16 number: what goes beyond it is infinite", large, at_the_end, EDGES),
        ("infinities, zeros and NaNs, with large random bits", special, extreme, EDGES),
    ]


def stochastic_mistakes(x, random) -> dict:
    """Known wrong patterns for one group of numbers."""
    b, r = x.view(np.uint32).astype(np.int64), random.astype(np.int64)
    keep, lower, nan = b >> 16, b & 0xFFFF, np.isnan(x)
    right = stochastic(x, random).astype(np.int64)

    def up(where):
        return np.where(nan, right, keep + where)

    negative = np.signbit(x)
    return {
        "x cut off after 16 bits: nothing ever goes up": up(0),
        "x rounded to the nearest: random makes no difference": nearest(x),
        "x rounded up where random > lower: that is likely where lower is small, and must be rare there": up(r > lower),
        "x rounded up where random < lower: as likely, but the task says up where lower + random is 65536 or more": up(
            r < lower
        ),
        "x with random added to the upper 16 bits: it is added to those that are cut off": np.where(
            nan, right, keep + r & 0xFFFF
        ),
        "the reference with half of random: a number goes up where lower + random ≥ 65536": up(lower + r // 2 > 0xFFFF),
        "the reference with the first random number for all: each number of x has its own": up(
            lower + r.flat[0] > 0xFFFF
        ),
        "the reference with lower + random ≥ 65535: it overflows from 65536 on": up(lower + r >= 0xFFFF),
        "the reference with lower + random > 65536: it overflows from 65536 on": up(lower + r > 1 << 16),
        "a coin: up or down with the same chance. The chance must grow with what is cut off": up(
            (lower > 0) & (r & 1 == 1)
        ),
        "a coin: up or down with the same chance, from random's first bit": up((lower > 0) & (r >= HALF)),
        "x rounded to the nearest after random was added: what is cut off counts twice": up(
            (b + r + 0x7FFF + (b + r >> 16 & 1) >> 16) - keep
        ),
        "the reference with negative numbers rounded in the other direction: the bits hold sign and size": np.where(
            negative & ~nan, keep + (lower > 0) * (lower + r <= 0xFFFF), right
        ),
        "the reference without the sign": right & 0x7FFF,
        "the reference with subnormal numbers set to 0: they have bits like any other": np.where(
            right & 0x7F80, right, right & HALF
        ),
        f"the reference with {LOST}": np.where(nan, right, keep & 0xFF80 | right & 0x7F),
        "the reference with what rounds to a subnormal number cut off: they are rounded like any other": np.where(
            keep & 0x7F80, right, keep
        ),
        "the largest finite number where it should be infinity: what rounds beyond it is infinite": np.where(
            ((right & 0x7FFF) == 0x7F80) & np.isfinite(x), right & HALF | 0x7F7F, right
        ),
        "NaN where it should be infinity: what rounds beyond the largest number is infinite": np.where(
            ((right & 0x7FFF) == 0x7F80) & np.isfinite(x), 0x7FC0 | right & HALF, right
        ),
        "what the addition makes of a NaN: infinity or a zero": (b + r & 0xFFFFFFFF) >> 16,
        "what is left of a NaN whose mantissa had ones only in the lower half: infinity": np.where(nan, keep, right),
        "infinity in place of NaN, which has ones in its mantissa, as 0x7FC0 has": np.where(nan, 0x7F80, right),
        "NaN in place of infinity": np.where(np.isinf(x), 0x7FC0 | keep, right),
    }
