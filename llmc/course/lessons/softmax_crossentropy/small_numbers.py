"""Lesson 05: a small number that is added to prevent 0 / 0 or log(0), and the messages for it.

One of 1e-9 hides below the tolerance of `compare`; these functions find it by its exact effect.
"""

import numpy as np

from llmc.course.lessons.softmax_crossentropy.places import LSE, MAXIMUM, TRAP

SAFE_SUM = (
    "a small number is added to exp(z) or to its sum, so the rows of p no longer add up to 1. None is needed: the "
    f"largest exp(z - max) is 1, so the sum is never 0; {MAXIMUM}"
)
SAFE_LSE = f"a small number is added to the sum inside lse. None is needed: the sum is at least 1; {LSE}"
SAFE_LOG = (
    "a small number is added to p before the logarithm, or p is kept from becoming 0, or z - max is cut off. Where the "
    f"model is very wrong, the loss then no longer says how wrong it is; {TRAP}"
)


def safe_sum(p, z) -> bool:
    """Is p (…, n) in float64 the softmax of z, apart from a small number added to exp(z - max) or to its sum?"""
    total = np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1)  # (…)
    return np.shape(p) == z.shape and _constant(total * (1 / np.sum(p, axis=-1) - 1))


def safe_lse(got, expected, z) -> bool:
    """Is got (B, T) in float64 the log-sum-exp of z (B, T, V), apart from a small number added inside the logarithm?"""
    return np.shape(got) == expected.shape and _constant(np.expm1(got - expected) * np.exp(expected - z.max(axis=-1)))


def safe_log(got, expected) -> bool:
    """Are the losses got (B, T) those of p plus a small number, or do they level off where they should pass 100?"""
    if np.shape(got) != expected.shape:
        return False
    high = got[expected > 100]
    cut_off = high.size > 1 and np.isfinite(high).all() and np.ptp(high) < 0.01 and high.max() < 100
    return bool(cut_off) or _constant(np.exp(-got) - np.exp(-expected))


def _constant(numbers) -> bool:
    """Are they, three at least, all the same small number, larger than what rounding would leave?"""
    middle = abs(np.median(numbers))
    return bool(np.size(numbers) > 2 and 2e-13 < middle < 0.1 and np.ptp(numbers) < 0.05 * middle)
