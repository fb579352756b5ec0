"""Lesson 21: latency and bandwidth from measured times of a ring, and what known mistakes find instead.

Mistakes are {sentence after "alpha equals ": (number, where to look)}.
"""

import numpy as np

from llmc.course.lessons.many_gpus.places import COST, FIT

ABSOLUTE = "the fit of the errors in seconds, in which the largest arrays decide, not of the relative errors"


def turns_and_share(world):
    """(2 (N - 1), 2 (N - 1) / N): what alpha and 1 / beta are multiplied by."""
    return 2 * (world - 1), 2 * (world - 1) / world


def times(rng, world, sizes):
    """(seconds (sizes,), alpha, beta) as if measured: off by a few percent, whatever their size."""
    alpha, beta = 10 ** rng.uniform(-6, -4), 10 ** rng.uniform(9, 11.5)
    a, b = turns_and_share(world)
    return (a * alpha + b * sizes / beta) * rng.uniform(0.8, 1.25, sizes.size), alpha, beta


def fit(a, b, sizes, seconds, weights=None, right=None):
    """(alpha, beta) of least squares for a · alpha + b · sizes / beta = seconds; by default of the relative errors.

    right: weights (sizes,) of the right sides, where they are others than those of the columns.
    """
    w = 1 / seconds if weights is None else weights  # (sizes,)
    columns = np.stack([np.full(sizes.size, float(a)), b * sizes], axis=1) * w[:, None]  # (sizes, 2)
    scale = np.linalg.norm(columns, axis=0)  # (2,)
    found = np.linalg.lstsq(columns / scale, seconds * (w if right is None else right), rcond=None)[0] / scale  # (2,)
    with np.errstate(divide="ignore"):  # a wrong fit may find that bytes cost nothing
        return found[0], 1 / found[1]


def right(world, sizes, seconds):
    """(alpha, beta)."""
    return fit(*turns_and_share(world), sizes, seconds)


def mistakes(world, sizes, seconds, got=None) -> dict:
    """{"alpha", "beta": known mistakes}. got: (alpha, beta) that was returned: of those of alpha, such as give both."""
    a, b = turns_and_share(world)
    alpha, beta = right(world, sizes, seconds)
    found = {
        ABSOLUTE: (fit(a, b, sizes, seconds, np.ones(sizes.size)), FIT),
        "the fit whose errors were divided by the time twice": (
            fit(a, b, sizes, seconds, seconds**-2),
            FIT,
        ),
        "the fit whose squares were divided by the time: a squared error is divided by its square": (
            fit(a, b, sizes, seconds, seconds**-0.5),
            FIT,
        ),
        "the fit whose errors were divided by the size, not by the time": (
            fit(a, b, sizes, seconds, 1 / sizes),
            FIT,
        ),
        "the fit whose columns were divided by the time, and whose right side was not": (
            fit(a, b, sizes, seconds, right=1.0),
            FIT,
        ),
        "the fit with a right side divided by the time, and columns that are not": (
            fit(a, b, sizes, seconds, np.ones(sizes.size), 1 / seconds),
            FIT,
        ),
        "the fit of alpha + b / beta, one message: a ring makes 2 (N - 1) turns": (fit(1, 1, sizes, seconds), COST),
        "the fit with N = 2, where 2 (N - 1) is 2 and the share is 1": (fit(2, 1, sizes, seconds), COST),
        "the fit with whole arrays in every turn: a chunk has b / N bytes": (fit(a, a, sizes, seconds), COST),
        "the fit of one half: reduce-scatter and all-gather make 2 (N - 1) turns": (
            fit(a / 2, b / 2, sizes, seconds),
            COST,
        ),
        "the fit with 2 log2 N turns, as a tree makes them: a ring makes 2 (N - 1)": (
            fit(2 * np.log2(world), 2 * np.log2(world) / world, sizes, seconds),
            COST,
        ),
        "the fit with two whole arrays in all: N - 1 chunks of b / N bytes travel in each half": (
            fit(a, 2, sizes, seconds),
            COST,
        ),
        "the fit with 2 N turns: N - 1 of them in each half": (fit(2 * world, 2, sizes, seconds), COST),
        "the fit with N turns: a ring makes 2 (N - 1)": (fit(world, b, sizes, seconds), COST),
    }
    ends = [sizes.argmin(), sizes.argmax()]
    model = seconds
    for _ in range(40):  # which come to rest
        model = _times_of(fit(a, b, sizes, seconds, 1 / model), a, b, sizes)
    found |= {
        "the line through the smallest and the largest array alone": (
            fit(a, b, sizes[ends], seconds[ends]),
            FIT,
        ),
        "the fit whose errors were divided by the times that the model itself gives, not by the measured ones": (
            fit(a, b, sizes, seconds, 1 / model),
            FIT,
        ),
    }
    alphas = {words: (pair[0], where) for words, (pair, where) in found.items()}
    # beta is compared where alpha is right: what would have changed alpha is not the cause
    betas = {
        words: (pair[1], where)
        for words, (pair, where) in found.items()
        if np.isclose(pair[0], alpha, rtol=1e-5, atol=0)
    }
    start = np.polyfit(np.log(sizes), np.log(seconds), 1)[1]
    alphas["a line through the logarithms of sizes and times: a sum is no line there"] = np.exp(start) / a, FIT
    if (gone := sizes > sizes.min()).sum() > 1:
        alphas["the time of the smallest array by its turns"] = seconds[~gone].mean() / a, FIT
    alphas["the shortest time by its turns"] = seconds.min() / a, FIT
    pairs = {words: pair for words, (pair, _) in found.items()}
    for words, pair, where in (
        ("the latency of all turns together", (alpha * a, beta), COST),
        ("what beta should be: return alpha, then beta", (beta, alpha), FIT),
        (
            "what comes of the line's slope, and beta what comes of its part without bytes: the two are exchanged",
            (1 / (beta * world), 1 / (alpha * world)),
            FIT,
        ),
        ("1 / beta, and beta is 1 / alpha: the two unknowns are exchanged", (1 / beta, 1 / alpha), FIT),
    ):
        pairs[words], alphas[words] = pair, (pair[0], where)
    both = [words for words, pair in pairs.items() if got is not None and np.allclose(got, pair, rtol=1e-5, atol=0)]
    alphas = {words: alphas[words] for words in both} or alphas
    betas["what alpha should be"] = alpha, FIT
    betas["the seconds for a byte: beta is bytes per second"] = 1 / beta, FIT
    betas["bits per second: beta is bytes per second"] = 8 * beta, FIT
    betas["billions of bytes per second: beta is bytes per second"] = beta / 1e9, FIT
    betas["the fit with N - 1 chunks in all: each half sends N - 1 of them"] = fit(a, b / 2, sizes, seconds)[1], COST
    betas["the fit with one whole array in all: 2 (N - 1) / N of it travel"] = fit(a, 1, sizes, seconds)[1], COST
    largest = sizes.argmax()
    betas["what the largest array alone gives"] = b * sizes[largest] / seconds[largest], FIT
    return {
        "alpha": _others(alphas, alpha),
        "beta": _others(betas, beta),
    }


def _times_of(found, a, b, sizes):
    """(sizes,) seconds that alpha and beta give."""
    alpha, beta = found
    return a * alpha + b * sizes / beta


def _others(table, number):
    """Those that give another number."""
    return {words: wrong for words, wrong in table.items() if not np.isclose(wrong[0], number, rtol=1e-5, atol=0)}
