"""Lesson 24's exercises: what is right, what is tried, and which mistakes have a name."""

from collections import namedtuple
from numbers import Integral, Real

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.search import PythonSearch
from llmc.course.lessons.evaluate.bill import chinchilla
from llmc.course.mutation.program import solution_of

# dollars to spend · price: dollars for an hour of one GPU · speed: FLOP/s that it really reaches
Offer = namedtuple("Offer", "dollars price speed")
DEPTHS, T, ENOUGH = np.arange(1, 201), 1024, 0.001  # d; ENOUGH: nats that a plan may be above the best
WIDTHS = 64 * DEPTHS  # (200,)
WEIGHTS = 12 * DEPTHS * WIDTHS**2 + 13 * DEPTHS * WIDTHS + (50304 + T + 2) * WIDTHS  # (200,)
TOKEN_FLOPS = 6 * WEIGHTS + 6 * DEPTHS * WIDTHS * T  # (200,)


class InFloat32(PythonSearch):
    """For results that may have the digits of float32, whatever their dtype."""

    def run(self, code, call):
        return {name: np.float32(value) for name, value in super().run(code, call).items()}


def documents(c):
    """losses (n, T) float32, large where they mean nothing: after a document's end, where targets (n, T) int32 are -1.

    lengths (V,) int32: that of token 0, end-of-text, is 0.
    """
    c.search = lambda got, right: InFloat32(c, c.comparing, got, right)
    for n, T, V in ((3, 7, 20), (3, 7, 20), (1, 5, 9), (2, 40, 300), (8, 13, 50), (5, 2, 6)):
        lengths = c.rng.integers(2, 9, V).astype(np.int32)  # (V,)
        lengths[0] = 0
        losses = c.rng.gamma(2.0, 1.5, (n, T)).astype(np.float32)
        targets = c.rng.integers(1, V, (n, T)).astype(np.int32)
        for row, size in enumerate(c.rng.permutation(np.linspace(2, T, n).astype(int))):
            targets[row, size - 1] = 0
            targets[row, size:] = -1
            losses[row, :size] *= c.rng.uniform(0.5, 2.0)  # some documents are harder
            losses[row, size:] += 10
        yield losses, targets, lengths


Exercise(
    "bits_per_byte",
    "24",
    returns="bits",
    cases=documents,
    rtol=1e-5,
    look="1 · One number, three names",
    mistakes=r"""
        = the nats per byte: divide by ln 2 for bits | / np.log(2) =>
        with the padding in cost and bytes: its targets are -1 | real = … => real = np.ones(targets.shape, bool)
        with the padding up to the end of the longest document
            | real = … => real = (targets >= 0) | (targets >= 0).any(axis=0)
        without the cost of end-of-text: it has no bytes, but it costs | targets >= 0 => targets > 0
        = the bits per token: divide by the bytes | lengths[targets[real]].sum() => real.sum()
        = the perplexity | return … => return np.exp(nats / real.sum())
        with the mean length of the whole vocabulary | lengths[targets[real]].sum() => (real.sum() * lengths.mean())
        with the mean length of all but token 0 | lengths[targets[real]].sum() => (real.sum() * lengths[1:].mean())
        with the tokens' numbers in place of their lengths | lengths[targets[real]] => targets[real]
        [2 · Why] = the mean of the documents' own bits per byte: add up all costs and all bytes, and divide once
            | return … => return ((losses * real).sum(1) / (lengths[targets] * real).sum(1)).mean() / np.log(2)
        [2 · Why] = the documents' bits per byte, weighted by their tokens: add up costs and bytes, and divide once
            | return … => each = (losses * real).sum(1) / (lengths[targets] * real).sum(1) / np.log(2)
            \n    return np.average(each, weights=real.sum(1))
        without the documents that have no padding | real = … => real = (targets >= 0) & (targets[:, -1:] < 0)
    """,
)


def questions(c):
    """logits (rows, n, V) float32, tokens and mask (rows, n) int32: endings of different lengths, one the longest."""
    c.search = lambda got, right: InFloat32(c, c.comparing, got, right)
    usual = (4, 3, 5, 11, 3.0)
    shapes = usual, usual, (2, 1, 7, 6, 1.0), (5, 6, 2, 30, 3.0), (4, 2, 9, 17, 300.0), (1, 4, 1, 5, 2.0)
    for rows, context, longest, V, size in shapes:
        n, lengths = context + longest, c.rng.integers(1, longest + 1, rows)  # (rows,)
        lengths[c.rng.integers(rows)] = longest
        at = np.arange(n)  # (n,)
        real = at < context + lengths[:, None]  # (rows, n)
        tokens = np.where(real, c.rng.integers(1, V, (rows, n)), 0).astype(np.int32)
        tokens[:, :context] = tokens[0, :context]
        tokens[0, context + c.rng.integers(lengths[0])] = 0  # a token like any other, and no padding
        logits = size * c.rng.standard_normal((rows, n, V))
        if size > 100:
            c.new("logits in the hundreds")
            logits += 10 * size * c.rng.standard_normal((rows, n, 1))  # the largest of all says nothing of the others
        yield logits.astype(np.float32), tokens, (real & (at >= context)).astype(np.int32)


def of_any_precision(tried):
    """Floating-point results are compared in the dtype that they have."""
    for name, got in tried.got.items():
        if isinstance(got, np.ndarray) and got.dtype.kind == "f":
            tried.expected[name] = tried.expected[name].astype(got.dtype)


def finite(tried):
    """A sentence about overflow, or about probabilities that are rounded to 0."""
    bad = [name for name, got in tried.got.items() if np.shape(got) and not np.isfinite(got).all()]
    cure = "subtract of each position its own largest logit, and compute ln p = z - ln Σ exp(z)"
    return f"{bad[0]} has entries that are NaN or infinite: {cure}" if bad else None


Exercise(
    "score_endings",
    "24",
    returns="sums means",
    cases=questions,
    rules=(finite, of_any_precision),
    rtol=1e-4,
    look={"sums": "3.2 · The mask, and a shift by one", "means": "3.3 · Sum or mean"},
    mistakes=r"""
        with `mask[:, :-1]`: the cost of token t + 1 goes with `mask[:, 1:]` | mask[:, 1:] => mask[:, :-1]
        with each token's cost by the logits at its own place: these predict t + 1 | logits[:, :-1] => logits[:, 1:]
        with the cost of token t in place of t + 1 by the logits at t | tokens[:, 1:, None] => tokens[:, :-1, None]
        with each token's cost by the logits behind it: those at t predict token t + 1 | logits[:, :-1] => logits[:, 1:]
            ;; tokens[:, 1:, None] => tokens[:, :-1, None] ;; mask[:, 1:] => mask[:, :-1]
        with all that stands in the row, padding included: the mask says which tokens count | * mask[:, 1:] =>
        with the context, too | mask[:, 1:] => (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1][:, 1:] > 0)
        with the padding, too: the mask is 0 there | mask[:, 1:] => np.maximum.accumulate(mask[:, 1:], axis=1)
        = minus the sum of the logits: the softmax is missing | z = z - … => pass ;; costs = … => costs = -picked
        = the sum over all n - 1 predictions: only the ending's count | mask.sum(axis=1) => (mask.shape[1] - 1)
        with 1e-10 added to each probability | costs = … => costs = -np.log(np.exp(picked) / np.exp(z).sum(-1) + 1e-10)
    """,
)


def runs(c):
    """sizes, losses, errors (n,), exponents (k,), of which the best comes last, or first; they fall; have no order."""
    shapes = (6, 60, 1), (6, 60, 1), (5, 30, 1), (9, 300, 25), (12, 80, 1), (4, 25, 1), (30, 60, 1)
    for i, (n, k, noise) in enumerate((*shapes, (9, 300, 25), (6, 60, 1))):
        sizes = np.sort(10 ** c.rng.uniform(3.5, 7, n)).round()  # (n,)
        sizes[[0, -1]] = 3e3, 2e7
        E, a = c.rng.uniform(1.5, 2.5), c.rng.uniform(0.2, 0.5)
        errors = noise * 10 ** c.rng.uniform(-2.3, -0.8, n)  # (n,)
        losses = E + c.rng.uniform(1.5, 3.0) * (sizes / sizes[0]) ** -a + errors * c.rng.uniform(-1.5, 1.5, n)  # (n,)
        losses, exponents = np.maximum(losses, 0.2), np.sort(c.rng.uniform(0.05, 0.9, k))  # (n,), (k,)
        a = solution_of("fit_law").function()(sizes, losses, errors, exponents)[2]
        c.new("exponents in no order" * (i == 7))
        orders = {5: exponents[exponents <= a], 6: exponents[exponents >= a], 7: c.rng.permutation(exponents)}
        yield sizes, losses, errors, orders.get(i, exponents[:: -1 if i == 8 else 1]).copy()


Exercise(
    "fit_law",
    "24",
    returns="E A a",
    cases=runs,
    rtol=1e-5,
    look="4.2 · The fit",
    mistakes=r"""
        without weights: divide each equation by its run's error | np.inf, None => np.inf, None; errors = 1 + 0 * errors
        with each equation multiplied by its error | np.inf, None => np.inf, None; errors = 1 / errors
        with each equation divided by its error twice, and the exponent chosen as it should be
            | lstsq(columns, losses / errors => lstsq(columns / errors[:, None], losses / errors**2
        with the exponent whose errors add up nearest to 0: add up their squares, do not square their sum
            | losses / errors) ** 2).sum() => losses / errors).sum() ** 2)
        with a column of ones not divided by the errors | ** -a], axis=1) / errors[:, None] => ** -a / errors], axis=1)
        with the right sides alone divided by the errors: divide the columns, too | / errors[:, None] =>
        with E = 0, and a straight line through the logarithms
            | slope, start = np.polyfit(np.log(sizes), np.log(losses), 1)\nreturn 0.0, np.exp(start), -slope
        with A / N₀^a for A: with columns of (N / N₀)^-a it must be multiplied by N₀^a | A * sizes[0] ** a => A
        with a, and N₀^a, of the LAST exponent | return … => return found[0], found[1] * sizes[0] ** (a - found[2]), a
        = the place of a: return the exponent | return … => return *found[:2], list(exponents).index(found[2])
    """,
)


def draws_of_runs(c):
    """losses (n, S), draws (R, n, S), which statistic: first the same draw nine times, then different ones."""
    sizes = (5, 5, 200), (5, 5, 200), (6, 4, 101), (4, 5, 80), (2, 4, 60), (5, 2, 77), (3, 3, 1)
    for (n, S, R), k in zip(sizes, (1, 1, 2, 0, 0, 0, 1)):
        losses = np.sort(c.random(n, 1), axis=0)[::-1] + c.random(n, S) / 4  # (n, S)
        draws = c.rng.integers(0, S, (R, n, S))  # (R, n, S)
        c.new("all draws are the same")
        yield losses, np.repeat(draws[:1], 9, axis=0), k
        c.new("")
        yield losses, draws, k


RUNS = "np.take_along_axis(losses, draw, axis=1)"
MEANS, ONE, ENDS = f"{RUNS}.mean(axis=1)", f"[statistic(means) for means in {RUNS}.T]", "low, high = … => low, high ="
NORMAL = f"{ENDS} np.mean(values) + np.array([-1.96, 1.96]) * np.std(values, ddof"
OWN = "map(statistic, np.percentile(values, [2.5, 97.5], axis=0))"

Exercise(
    "bootstrap_interval",
    "24",
    returns="low high",
    cases=draws_of_runs,
    rtol=1e-6,
    look="4.3 · Error bars",
    mistakes=rf"""
        = an end of the middle 90%: take 2.5 and 97.5 | [2.5, 97.5] => [5, 95]
        = an end of the middle 96%: take 2.5 and 97.5 | [2.5, 97.5] => [2, 98]
        = the percentile 0.025 or 0.975: np.percentile counts to 100 | [2.5, 97.5] => [0.025, 0.975]
        = the least or the largest of all draws: leave out 2.5% on each side | [2.5, 97.5] => [0, 100]
        with each seed as one draw: `draws` says what is taken | values = … => values = [*map(statistic, losses.T)]
        = one of the draws, 5% from the end: leave out 2.5%
            | {ENDS} np.sort(values)[[int(0.05 * len(values)), int(0.95 * len(values))]]
        = the mean of the draws ± 1.96 standard deviations, by ddof=1: take percentiles | {NORMAL}=len(values) > 1)
        = the mean ± 1.96 deviations / √R: the more draws, the narrower | {NORMAL}=len(values) > 1) / len(values)**0.5
        with medians in place of means: average the runs that were drawn | {MEANS} => np.median({RUNS}, axis=1)
        with the runs of size 0 for all sizes: row k of a draw picks those of size k | {RUNS} => losses.ravel()[draw]
        with one row of a draw for all sizes: row k picks among the runs of size k | {RUNS} => losses[:, draw[0]]
        with the seeds that all sizes drew: row k is for size k alone | {MEANS} => losses[:, draw].mean(axis=(1, 2))
        with one run for each size: average all that were drawn | {MEANS} => {RUNS}[:, 0]
        with the mean of the statistic of single runs: average the runs first | statistic({MEANS}) => np.mean({ONE})
        with the statistic of single runs: average the runs of a draw first | statistic({MEANS}) => {ONE}
        = the statistic of each size's own percentiles: it comes first | statistic({MEANS}) => {MEANS} ;; {ENDS} {OWN}
        = the statistic of each size's own percentiles, in order: it comes first
            | statistic({MEANS}) => {MEANS} ;; {ENDS} sorted({OWN})
    """,
)


def plans(offer):
    """(losses, tokens), (200,) each: of every d, for all of the money."""
    tokens = offer.dollars / offer.price * 3600 * offer.speed / TOKEN_FLOPS
    return chinchilla(WEIGHTS, tokens), tokens


def offers(c):
    """Offers (dollars, price, speed): of several, the one for which 20 tokens per weight are worst."""

    def lost(offer):
        losses, tokens = plans(offer)
        return losses[np.abs(tokens / WEIGHTS - 20).argmin()] - losses.min()

    for dollars in (20.0, 4000.0, 1.0, 1e5, 5.0, 300.0, 20.0, 1e7):
        low, high = (0.8 * dollars, 1.5, 1e14), (1.5 * dollars, 4.0, 5e14)
        yield max((Offer(*c.rng.uniform(low, high)) for _ in range(8)), key=lost)


def nearly_best(tried):
    """A sentence if d is not nearly the best for its tokens; else d is right, and so are all tokens the money buys."""
    d, tokens, offer = tried.got["d"], tried.got["tokens"], Offer(*tried.given.values())
    if not isinstance(d, Integral) or not 1 <= d <= len(DEPTHS):
        return f"d is {d!r}, and should be an int from 1 to {len(DEPTHS)}: return d, then tokens"
    if not isinstance(tokens, Real):
        return f"tokens is {tokens!r}, and should be a number"
    losses, bought = plans(offer)
    if abs(tokens / WEIGHTS[d - 1] - 20) < 1e-6 < abs(tokens / bought[d - 1] - 1):
        return "tokens are 20 for each weight: return all that the money buys"
    loss, best = losses[d - 1], losses.argmin() + 1
    if abs(tokens / bought[d - 1] - 1) < 1e-5 and loss > losses.min() + ENOUGH:
        told = f"the model with d = {d} is too {'small' if d < best else 'large'}: with ${offer.dollars:,.2f}"
        return f"{told} it reaches a loss of {loss:.4f}, and the best one {losses.min():.4f}"
    tried.expected.update(d=d, tokens=bought[d - 1])


COST = "6 * weights(d) + 6 * d * (64 * d) * T"

Exercise(
    "plan_run",
    "24",
    returns="d tokens",
    cases=offers,
    rules=(nearly_best,),
    rtol=1e-6,
    look={"d": "5.2 · A large model, or many tokens", "tokens": "5.1 · What a token costs"},
    mistakes=rf"""
        without the attention term, 6·L·C·T | + 6 * d * (64 * d) * T =>
        with 12·L·C·T for attention: a causal model sees half of it | 6 * d * => 12 * d *
        with an attention term without T | (64 * d) * T => (64 * d)
        with 768 channels, or 12 layers, in every attention term: it has d layers of 64 d channels | (64 * d) => 768
        with 2N for each token, the forward pass alone | {COST} => 2 * weights(d)
        with the layers' matrices alone for N: embeddings count | 6 * weights(d) => 6 * 12 * d * (64 * d) ** 2
        [6 · The bill] with an hour of 60 seconds | 3600 => 60
        [6 · The bill] with money times price: divide the dollars by the price | dollars / price => dollars * price
        = those for d + 1: return both of one model | return d, tokens(d) => return d - 1, tokens(d)
        cut to whole steps of 524,288 tokens | return d, tokens(d) => return d, tokens(d) // 2**19 * 2**19
    """,
)
