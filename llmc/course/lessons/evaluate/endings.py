"""Lesson 24: the cost of endings from logits, and what known mistakes give instead.

Mistakes are {sentence after "sums equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.lessons.evaluate.places import SHIFT, SUM_OR_MEAN
from llmc.course.old.checks.contrast import outcome

LOOK = {"sums": SHIFT, "means": SUM_OR_MEAN}


def question(rng, rows, context, longest, V, size=3.0):
    """logits (rows, n, V) float32, tokens and mask (rows, n) int32: endings of different lengths, one the longest."""
    n = context + longest
    lengths = rng.integers(1, longest + 1, rows)  # (rows,)
    lengths[rng.integers(rows)] = longest
    at = np.arange(n)  # (n,)
    real = at < context + lengths[:, None]  # (rows, n)
    mask = (real & (at >= context)).astype(np.int32)
    tokens = np.where(real, rng.integers(1, V, (rows, n)), 0).astype(np.int32)
    tokens[:, :context] = tokens[0, :context]
    tokens[0, context + rng.integers(lengths[0])] = 0  # a token like any other, and no padding
    logits = size * rng.standard_normal((rows, n, V))
    if size > 100:
        logits += 10 * size * rng.standard_normal((rows, n, 1))  # the largest of all logits says nothing of the others
    return logits.astype(np.float32), tokens, mask


def logs(logits):
    """(…, V) float64: the logarithms of the softmax."""
    wide = logits.astype(np.float64)
    high = wide.max(axis=-1, keepdims=True)
    return wide - high - np.log(np.exp(wide - high).sum(axis=-1, keepdims=True))


def _picked(table, ids):
    """(rows, k): the entry of table (rows, k, V) at ids (rows, k)."""
    return np.take_along_axis(table, ids[..., None].astype(np.int64), axis=-1)[..., 0]


def right(logits, tokens, mask):
    """(sums, means), (rows,) float64."""
    costs = -_picked(logs(logits)[:, :-1], tokens[:, 1:])  # (rows, n - 1)
    sums = (costs * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


def mistakes(logits, tokens, mask) -> dict:
    """{"sums", "means": known mistakes}."""
    table = logs(logits)  # (rows, n, V)
    costs = -_picked(table[:, :-1], tokens[:, 1:])  # (rows, n - 1)
    counted, count = mask[:, 1:], mask.sum(axis=1)  # (rows, n - 1), (rows,)
    real = (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] > 0)[:, 1:]  # (rows, n - 1) neither padding nor behind
    own = -_picked(table, tokens)  # (rows, n)
    sums = (costs * counted).sum(axis=1)
    first = np.cumsum(counted, axis=1) == 1  # (rows, n - 1)
    before = -_picked(table[:, 1:], tokens[:, :-1])  # (rows, n - 1)
    with np.errstate(all="ignore"):
        unstable = -np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
        over_rows = np.exp(logits.astype(np.float64) - logits.max())
        over_time = over_rows / over_rows.sum(axis=1, keepdims=True)
        over_rows = over_rows / over_rows.sum(axis=0, keepdims=True)
        summed = {
            "the cost with `mask[:, :-1]`: what the logits at t cost is the cost of token t + 1, so it goes with "
            "`mask[:, 1:]`": (costs * mask[:, :-1]).sum(axis=1),
            "the cost of each token by the logits at its own place: those at t predict token t + 1": (own * mask).sum(
                axis=1
            ),
            "the cost of each token by the logits behind it: those at t predict token t + 1": (
                before * mask[:, :-1]
            ).sum(axis=1),
            "the cost of context and ending: the mask says which tokens count": (costs * real).sum(axis=1),
            "the cost of all that stands in the row, padding included: the mask says which tokens count": costs.sum(
                axis=1
            ),
            "the cost of ending and padding: behind the ending the mask is 0, and nothing counts": (
                costs * (np.cumsum(counted, axis=1) > 0)
            ).sum(axis=1),
            "the cost of the context: the mask is 1 where a token counts": (costs * (1 - counted) * real).sum(axis=1),
            "the cost of all that does not count: the mask is 1 where a token counts": (costs * (1 - counted)).sum(
                axis=1
            ),
            "the cost without the first token of the ending: the last token of the context predicts it": (
                costs * counted * ~first
            ).sum(axis=1),
            "the logarithm of the probability: a cost is minus that": -sums,
            "the cost in bits: here it is in nats": sums / np.log(2),
            "the probability of the ending: its cost is -ln of that": np.exp(-sums),
            "the sum of the tokens' probabilities: a cost is -ln p": (np.exp(-costs) * counted).sum(axis=1),
            "the sum of minus the logits: the softmax is missing": (
                -_picked(logits.astype(np.float64)[:, :-1], tokens[:, 1:]) * counted
            ).sum(axis=1),
            "the cost with a softmax over the rows: the probabilities over the V tokens add up to 1": (
                -np.log(_picked(over_rows[:, :-1], tokens[:, 1:])) * counted
            ).sum(axis=1),
            "the cost with a softmax over time: the probabilities over the V tokens add up to 1": (
                -np.log(_picked(over_time[:, :-1], tokens[:, 1:])) * counted
            ).sum(axis=1),
            "the cost from exp(logits), which overflows": np.where(
                counted, _picked(unstable[:, :-1], tokens[:, 1:]), 0
            ).sum(axis=1),
        }
        p = np.exp(-costs)  # (rows, n - 1)
        for eps in 10.0 ** np.arange(-16, -4):
            why = "rare tokens cost less than they should"
            summed[f"the cost with {eps:.0e} added to the probability, with which {why}"] = (
                -np.log(p + eps) * counted
            ).sum(axis=1)
            summed[f"the cost with probabilities of at least {eps:.0e}, with which {why}"] = (
                -np.log(np.maximum(p, eps)) * counted
            ).sum(axis=1)
        means = {words: each / count for words, each in summed.items()}
        means |= {
            "what sums should be: divide by the number of the ending's tokens": sums,
            "the cost over all n - 1 predictions: divide by the number of the ending's tokens": sums / counted.shape[1],
            "the cost over all n tokens of a row: divide by the number of the ending's tokens": sums / mask.shape[1],
            "the cost over the tokens of context and ending: divide by the number of the ending's": sums
            / real.sum(axis=1),
            "the cost over one number for all rows: endings differ in length": sums / count.mean(),
            "the cost over all rows' tokens: each row has a number of its own": sums / count.sum(),
            "the cost over one token less than the ending has": sums / (count - 1),
            "the cost over the tokens of the ending that are not 0: token 0 is one like any other": sums
            / np.maximum((tokens * mask != 0).sum(axis=1), 1),
            "the cost with `mask[:, :-1]`, over that mask's own count: the cost of token t + 1 goes with "
            "`mask[:, 1:]`": (costs * mask[:, :-1]).sum(axis=1) / mask[:, :-1].sum(axis=1),
        }
    summed["what means should be"] = sums / count
    right_sums, right_means = right(logits, tokens, mask)
    return {
        "sums": _others(summed, right_sums, SHIFT),
        "means": _others(means, right_means, SUM_OR_MEAN),
    }


def of_each_position(name, got, function, logits, tokens, mask):
    """A sentence if what overflows, or is rounded to 0, is right when each position's largest logit is 0; else None.

    name: "sums" or "means"; got: the learner's, of these arguments · function: the learner's.
    """
    if np.isfinite(got).all():
        return None
    level = logits - logits.max(axis=-1, keepdims=True)  # (rows, n, V) of the same probabilities
    found = outcome(function, level, tokens.copy(), mask.copy())
    said = f"{name} has entries that are NaN or infinite"
    k = ("sums", "means").index(name)
    with np.errstate(all="ignore"):
        well = isinstance(found, tuple | list) and len(found) == 2
        if well and np.allclose(found[k], right(level, tokens, mask)[k], rtol=1e-3):
            return (
                f"{said}. With the same logits, each position's shifted until the largest of them is 0, your function "
                "is right: subtract of each position its own largest logit"
            )
    costs = -_picked(logs(logits)[:, :-1], tokens[:, 1:]) * mask[:, 1:]  # (rows, n - 1)
    for dtype, most in ("float64", 745.13), ("float32", 103.97):
        rows = np.isposinf(got).any() and np.array_equal((costs > most).any(axis=1), np.isposinf(got))
        if rows and _of_one_token(function, k, most):
            return (
                f"{said}: all rows in which a token costs more than {most:.0f} nats, and no others. A probability of "
                f"e^-{most:.0f} is 0 in {dtype}, and its logarithm -inf"
            )
    return None


def _of_one_token(function, k, most) -> bool:
    """Is a row infinite where a token costs more than that, and not where ten tokens do so together?"""
    logits = np.zeros((2, 11, 2))
    logits[0, 0, 1], logits[1, :, 1] = -1.1 * most, -0.2 * most  # of token 1
    found = outcome(function, logits, np.ones((2, 11), np.int64), np.ones((2, 11), np.int64))
    return isinstance(found, tuple | list) and np.isposinf(found[k]).tolist() == [True, False]


def _others(table, expected, where):
    """Those that give something else."""
    return {
        words: (wrong, where) for words, wrong in table.items() if not np.allclose(wrong, expected, rtol=1e-4, atol=0)
    }


def is_floating(array) -> bool:
    """Is it an array of floating-point numbers, of whatever precision?"""
    return isinstance(array, np.ndarray) and np.issubdtype(array.dtype, np.floating)
