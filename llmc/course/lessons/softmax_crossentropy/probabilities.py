"""Lesson 05, softmax and its backward pass: what known mistakes give, and why p is not finite.

Mistakes are {sentence after "p equals ": (wrong array, where to look)}.
"""

from math import log

import numpy as np

from llmc.course.lessons.softmax_crossentropy.places import JACOBIAN, MAXIMUM, PRODUCT, SOFTMAX
from llmc.course.lessons.softmax_crossentropy.references import softmax

BEGUN_ANEW = "a sum that begins anew with each new maximum of the row"
UNSCALED = "a sum of exp(z - the largest logit so far), which is not always the row's maximum"


def unscaled_sum(z):
    """Sum over the last axis of exp(z - the largest z so far): each term is left with the maximum of its time."""
    return np.exp(z - np.maximum.accumulate(z, axis=-1)).sum(axis=-1)


def sum_begun_anew(z):
    """Sum over the last axis of exp(z - maximum) in which a new maximum counts 1, and what came before it nothing."""
    peaks = np.maximum.accumulate(z, axis=-1)
    e = np.where(peaks == peaks[..., -1:], np.exp(z - peaks), 0)  # what comes from the largest on
    return e.sum(axis=-1)


def softmax_mistakes(z) -> dict:
    """Known wrong p for z (…, n) with at least two axes and moderate values."""
    z = np.asarray(z, np.float64)
    e = np.exp(z - z.max(axis=-1, keepdims=True))  # (…, n)
    p = e / e.sum(axis=-1, keepdims=True)  # (…, n)
    everything, shares = np.exp(z - z.max()), "each row is normalised on its own: " + SOFTMAX  # (…, n)
    axes = tuple(range(1, z.ndim))
    in_each = np.exp(z - z.max(axis=axes, keepdims=True))  # (…, n)
    tables = {  # the same as the reference for two axes
        "the reference with one sum for all of each z[i]: the rows of z[i] each have a sum of their own": (
            in_each / in_each.sum(axis=axes, keepdims=True),
            shares,
        )
    }
    return (tables if z.ndim > 2 else {}) | {
        "exp(z - max): it is not divided by its sum": (e, SOFTMAX),
        "z divided by the sum of its row: the exp is missing": (z / z.sum(axis=-1, keepdims=True), SOFTMAX),
        "the reference with the sum over the whole array": (everything / everything.sum(), shares),
        "exp(z - max) divided by the sum over the whole array, not over its own row": (e / e.sum(), shares),
        "the reference with the sum over the first axis": (_softmax_over(z, 0), shares),
        "the reference with the sum over the axis before the last": (_softmax_over(z, -2), shares),
        "exp(z - max) divided by the sum of exp(z): the maximum must be the same above and below": (
            e / np.exp(z).sum(axis=-1, keepdims=True),
            MAXIMUM,
        ),
        "exp(z) minus its maximum, divided by the sum of that": (
            (e - 1) / (e - 1).sum(axis=-1, keepdims=True),
            MAXIMUM,
        ),
        "log(softmax)": (np.log(p), SOFTMAX),
        "1 for the largest logit of each row and 0 for the others: they have a share, too": (e == 1, SOFTMAX),
        f"the reference with {UNSCALED}": (e / unscaled_sum(z)[..., None], MAXIMUM),
        "softmax(-z): a larger logit must give a larger probability": (softmax(-z), SOFTMAX),
        "softmax with powers of 2 instead of powers of e": (softmax(z * log(2)), SOFTMAX),
        "exp(z - max) divided by its length (the root of the sum of squares)": (
            e / np.sqrt(np.square(e).sum(axis=-1, keepdims=True)),
            SOFTMAX,
        ),
    }


def _softmax_over(z, axis):
    """Softmax over another axis."""
    e = np.exp(z - z.max(axis=axis, keepdims=True))  # (…, n)
    return e / e.sum(axis=axis, keepdims=True)


def softmax_backward_mistakes(dp, p) -> dict:
    """Known wrong dz."""
    dp, p = np.asarray(dp, np.float64), np.asarray(p, np.float64)
    along = (dp * p).sum(axis=-1, keepdims=True)  # (…, 1)
    once = p * (dp - along)  # (…, n)
    return {
        "p · dp: the sum over the row is missing": (p * dp, "moving one logit moves every probability: " + JACOBIAN),
        "p · (1 - p) · dp: that is the diagonal of the Jacobian alone": (p * (1 - p) * dp, JACOBIAN),
        "dp - sum(dp · p): the p in front is missing": (dp - along, PRODUCT),
        "p · dp - sum(dp · p): the sum is not multiplied by p": (p * dp - along, PRODUCT),
        "p · (dp + sum(dp · p)): the sign of the sum is wrong": (p * (dp + along), JACOBIAN),
        "p · (dp - sum(dp)): the p is missing in the sum": (p * (dp - dp.sum(axis=-1, keepdims=True)), PRODUCT),
        "p · (dp - p · sum(dp)): the sum must be that of dp · p": (
            p * (dp - p * dp.sum(axis=-1, keepdims=True)),
            PRODUCT,
        ),
        "p · (dp - mean(dp)): a sum weighted by p belongs there": (p * (dp - dp.mean(axis=-1, keepdims=True)), PRODUCT),
        "p · (dp - mean(dp · p)): a sum, not a mean, belongs there": (p * (dp - along / p.shape[-1]), PRODUCT),
        "the reference with the sum over the whole array": (p * (dp - (dp * p).sum()), PRODUCT),
        "p · (1 - p): dp is missing": (p * (1 - p), PRODUCT),
        "p - dp: that form is of softmax and cross-entropy in one, p - y; here any dp may come": (p - dp, PRODUCT),
        "p - y, with 1 in y where dp is largest: that is of softmax and cross-entropy in one; here any dp may come": (
            p - (dp == dp.max(axis=-1, keepdims=True)),
            PRODUCT,
        ),
        "the reference applied twice": (p * (once - (once * p).sum(axis=-1, keepdims=True)), PRODUCT),
        "dp - p · sum(dp): that is the gradient of the logarithm of softmax": (
            dp - p * dp.sum(axis=-1, keepdims=True),
            PRODUCT,
        ),
    }


def softmax_overflow(p, z) -> str | None:
    """What is wrong with p of float32 rows z (4, n) around 1000, -1000, 0 and 90, the last with one far larger logit?

    None if there is nothing, or if the numbers have to say it.
    """
    if np.shape(p) != z.shape:
        return None
    if np.isfinite(p[0]).all() and np.ptp(p[0]) == 0 and p[0, 0] > 0:
        return f"all of p is equal in the row around 1000: the differences between its logits are lost; {MAXIMUM}"
    finite = np.isfinite(p).all(axis=-1)  # (4,)
    if not finite[0]:
        without = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)  # (4, n)
        return f"NaN for logits around 1000: {bare_powers(p, without)}see {MAXIMUM}"
    if not finite[1] and finite[2]:
        return f"NaN in the row around -1000 alone. The maximum of a row can be negative; {MAXIMUM}"
    if not finite[:3].all():
        return f"NaN in the low rows: each row needs its own maximum; {MAXIMUM}"
    return None if finite[3] else f"NaN where one logit is far above the rest; {MAXIMUM}"


def bare_powers(got, without) -> str:
    """Words that name a missing maximum, if these numbers are not finite just where those without one are not."""
    same = np.array_equal(np.isfinite(got), np.isfinite(without))
    return "np.exp overflows from 89 on in float32; " if same else ""
