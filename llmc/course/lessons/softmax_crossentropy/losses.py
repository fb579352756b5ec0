"""Lesson 05, cross-entropy: what known mistakes give, and why losses and log-sum-exp are not finite.

Mistakes are {sentence after "lse equals ": (wrong array, where to look)}, one such dict for each output.
"""

from math import exp, log, sqrt

import numpy as np

from llmc.course.lessons.softmax_crossentropy.places import FRESH, LOSS, LSE, TRAP
from llmc.course.lessons.softmax_crossentropy.probabilities import (
    BEGUN_ANEW,
    UNSCALED,
    bare_powers,
    sum_begun_anew,
    unscaled_sum,
)
from llmc.course.lessons.softmax_crossentropy.references import cross_entropy, softmax


def at_target(array, targets):
    """The entry of each row (B, T, V) that its target names: (B, T)."""
    return np.take_along_axis(array, targets[..., None], axis=-1)[..., 0]


SHARED_MAXIMA = {  # of several rows, by the axes of (B, T, V) that the maximum runs over
    (0, 1, 2): "the whole batch",
    (1, 2): "its whole sequence",
    (0, 2): "all sequences at its position",
}


def cross_entropy_mistakes(logits, targets) -> dict:
    """Known wrong losses and lse of logits (B, T, V)."""
    z = np.asarray(logits, np.float64)
    losses, lse = cross_entropy(z, targets)  # (B, T) each
    p, peak, V = softmax(z), z.max(axis=-1), z.shape[-1]
    wrong_lse = {
        "log(sum(exp(z - max))): the maximum is not added back": (lse - peak, LSE),
        "the maximum itself": (peak, LSE),
        "sum(exp(z)): the logarithm is missing": (np.exp(lse), LSE),
        "log(mean(exp(z))): a sum, not a mean, belongs there": (lse - log(V), LSE),
        "2 · maximum + log(sum(exp(z - max)))": (lse + peak, LSE),
        f"the reference with {UNSCALED}": (peak + np.log(unscaled_sum(z)), LSE),
        f"the reference with {BEGUN_ANEW}": (peak + np.log(sum_begun_anew(z)), LSE),
        "max + log2(sum(exp(z - max))): the logarithm must be the natural one, np.log": (
            peak + (lse - peak) / log(2),
            LSE,
        ),
        "log2(sum(exp(z))): the logarithm must be the natural one, np.log": (lse / log(2), LSE),
        "log10(sum(exp(z))): the logarithm must be the natural one, np.log": (lse / log(10), LSE),
        "the losses, which come first, then lse": (losses, "the docstring says in which order"),
    }
    wrong_losses = {
        "the log-sum-exp: the logit of the target is not subtracted": (lse, LOSS),
        "-z[target]: log-sum-exp is missing": (-at_target(z, targets), LOSS),
        "log(sum(exp(z - max))) - z[target]: the maximum is subtracted in one place only": (losses - peak, LSE),
        f"the reference with {UNSCALED}": (losses - lse + peak + np.log(unscaled_sum(z)), LSE),
        f"the reference with {BEGUN_ANEW}": (losses - lse + peak + np.log(sum_begun_anew(z)), LSE),
        "-p[target]: the logarithm is missing": (-at_target(p, targets), LOSS),
        "1 - p[target]": (1 - at_target(p, targets), LOSS),
        "the loss in bits (log2): it should be in nats (np.log)": (losses / log(2), LOSS),
        "the loss with log10: it should be in nats (np.log)": (losses / log(10), LOSS),
        "max + log2(sum(exp(z - max))) - z[target]: the logarithm must be the natural one, np.log": (
            losses + (lse - peak) * (1 / log(2) - 1),
            LSE,
        ),
        "-log(p) summed over the whole vocabulary": (-np.log(p).sum(axis=-1), LOSS),
        "-log(p) of the largest logit, not of the target": (-np.log(p).min(axis=-1), LOSS),
        "-sum(p · log(p)), the entropy of the model's own p: the target is not used": (
            -(p * np.log(p)).sum(axis=-1),
            LOSS,
        ),
        "the loss of the next position's target": (cross_entropy(z, np.roll(targets, -1, axis=1)).losses, LOSS),
        "the loss of the previous position's target": (cross_entropy(z, np.roll(targets, 1, axis=1)).losses, LOSS),
    }
    return {"lse": wrong_lse, "losses": wrong_losses}


def overflow(lse, logits) -> str:
    """Why lse (B, T) of float32 rows around +1000, -1000, 50 and 0 is not finite. logits: (B, T, V)."""
    finite = np.isfinite(lse)
    with np.errstate(all="ignore"):
        without = np.log(np.exp(logits).sum(axis=-1))  # (B, T)
        for axes, words in SHARED_MAXIMA.items():
            shifted = logits - logits.max(axis=axes, keepdims=True)  # (B, T, V)
            if np.array_equal(finite, np.isfinite(np.log(np.exp(shifted).sum(axis=-1)))):
                where = f"lse is infinite where a row lies far below the largest logit of {words}"
                return f"{where}; {LSE}"
    if np.array_equal(finite, logits.max(axis=-1) > -500) and np.isneginf(lse[~finite]).all():
        where = "rows around -1000 alone, where all powers of e are 0"
        return f"lse is infinite for {where}: a row's own maximum is negative there; {LSE}"
    if bare := bare_powers(lse, without):
        return f"lse is NaN or infinite for logits around ±1000: {bare}see {LSE}"
    at = np.argwhere(~finite)[0]
    row = logits[tuple(at)]  # (V,)
    where = f"{at.tolist()}, where the logits go from {row.min():.4g} to {row.max():.4g}"
    return f"lse is NaN or infinite at {where}: max + log(sum(exp(z - max))) is finite there; {LSE}"


def clipped(lse, logits) -> dict:
    """Known wrong lse (B, T) of rows around +1000, -1000, 50 and 0: that of clipped logits, whatever the limits are."""
    peak = logits.max(axis=-1)  # (B, T)
    if np.shape(lse) != peak.shape:
        return {}
    high, low = (float(np.median(lse[far])) - log(logits.shape[-1]) for far in (peak > 500, peak < -500))
    if not -500 < low < high < 500:
        return {}
    limits = f"logits clipped to {low:.4g} … {high:.4g}, so that larger and smaller ones are lost"
    wrong = cross_entropy(np.clip(logits, low, high), np.zeros(peak.shape, int)).lse  # (B, T)
    return {f"that of {limits}": (wrong, LSE)}


def infinite_loss(losses, expected, beside="lse") -> str:
    """What to say of losses (B, T) that are not finite where what was computed beside them is."""
    lost = ~np.isfinite(losses)
    kind, far = "NaN" if np.isnan(losses).any() else "infinite", expected[lost].min() > 100
    where = "where the model is sure and wrong" if far else f"at {[int(i) for i in np.argwhere(lost)[0]]}"
    return f"a loss is {kind} {where}, and {beside} is finite there, as lse - z[target] is; see {TRAP}"


def fresh_loss_mistakes(V, C, std) -> dict:
    """Known wrong predictions."""
    variance = C * std**2
    rounded = {"ln V + C // 2 · std²: an odd C is rounded down": (log(V) + C // 2 * std**2, FRESH)}
    return (rounded if C % 2 else {}) | {
        "ln V: the fresh logits are not all equal, and that costs half their variance": (log(V), FRESH),
        "log2(V) + half the variance: it should be in nats (ln)": (log(V) / log(2) + variance / 2, FRESH),
        "log2(V): it should be in nats (ln), and half the variance of the logits is missing": (log(V) / log(2), FRESH),
        "log10(V) + half the variance: it should be in nats (ln)": (log(V) / log(10) + variance / 2, FRESH),
        "ln V + the variance: only half of it belongs there": (log(V) + variance, FRESH),
        "ln V + half the standard deviation: the variance (its square) belongs there": (
            log(V) + sqrt(variance) / 2,
            FRESH,
        ),
        "ln V + std² / 2: a logit is a sum of C products, its variance is C · std²": (log(V) + std**2 / 2, FRESH),
        "ln V + C² · std² / 2: variances add up, not standard deviations": (log(V) + (C * std) ** 2 / 2, FRESH),
        "ln(V + e to the half variance): that is the mean of e to the logit, for each of the V tokens, so V times it": (
            log(V + exp(variance / 2)),
            FRESH,
        ),
        "ln(V + half the variance): half the variance is added to ln V": (log(V + variance / 2), FRESH),
        "ln V times e to the half variance: inside of the logarithm, V is multiplied by it": (
            log(V) * exp(variance / 2),
            FRESH,
        ),
        "ln V - half the variance": (log(V) - variance / 2, FRESH),
        "ln V + the standard deviation: half the variance (its square) belongs there": (log(V) + sqrt(variance), FRESH),
        "ln V + C · std / 2: variances add up, so std must be squared": (log(V) + C * std / 2, FRESH),
        "ln V + twice the variance: only half of it belongs there": (log(V) + 2 * variance, FRESH),
        "half the variance alone: ln V is missing": (variance / 2, FRESH),
        "ln V + V · std² / 2: a logit is a sum of C products, not of V": (log(V) + V * std**2 / 2, FRESH),
        "ln V + C · 0.02² / 2: `std` is not used": (log(V) + C * 0.02**2 / 2, FRESH),
        "V, the perplexity of a guess: the loss is its logarithm, plus half the variance": (float(V), FRESH),
        "-ln V: that is ln(1/V), but the loss is -ln(1/V), and half the variance is missing": (-log(V), FRESH),
        "-ln V + half the variance: -ln(1/V) is +ln V": (-log(V) + variance / 2, FRESH),
        "1/V, the probability of a guess: the loss is minus its logarithm, plus half the variance": (1 / V, FRESH),
    }
