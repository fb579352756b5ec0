"""Lesson 24: a scaling law from runs of unequal certainty, a bootstrap, and what known mistakes give instead.

Mistakes are {sentence after "E equals ": (number, where to look)}.
"""

import numpy as np

from llmc.course.lessons.evaluate.places import BOOTSTRAP, FIT


def runs(rng, n):
    """sizes, losses, errors, (n,) each, as if measured: of a law, each run off by about its own error."""
    sizes = np.sort(10 ** rng.uniform(3.5, 7, n)).round()
    sizes[[0, -1]] = 3e3, 2e7
    E, a = rng.uniform(1.5, 2.5), rng.uniform(0.2, 0.5)
    A = rng.uniform(1.5, 3.0) * sizes[0] ** a
    errors = 10 ** rng.uniform(-2.3, -0.8, n)
    return sizes, E + A / sizes**a + errors * rng.uniform(-1.5, 1.5, n), errors


def fit(sizes, losses, weights, exponents, power=-1.0):
    """(E, A, a) of least squares of weights · (E + A · sizes^(power · a) - losses), and all of them: (exponents, 4)."""
    rows = []
    for a in exponents:
        columns = (
            np.stack([np.ones(sizes.size), (sizes / sizes[0]) ** (power * a)], axis=1) * weights[:, None]
        )  # (n, 2)
        x = np.linalg.lstsq(columns, losses * weights, rcond=None)[0]  # (2,)
        rows.append((((columns @ x - losses * weights) ** 2).sum(), x[0], x[1] * sizes[0] ** (-power * a), a))
    table = np.array(rows)
    return tuple(table[table[:, 0].argmin(), 1:]), table


def right(sizes, losses, errors, exponents):
    """(E, A, a)."""
    return fit(sizes, losses, 1 / errors, exponents)[0]


def mistakes(sizes, losses, errors, exponents) -> dict:
    """{"E", "A", "a": known mistakes}."""
    best, table = fit(sizes, losses, 1 / errors, exponents)
    E, A, a = best
    slope, start = np.polyfit(np.log(sizes), np.log(losses), 1)
    weighted = np.polyfit(np.log(sizes), np.log(losses), 1, w=1 / errors)
    worst = table[table[:, 0].argmax(), 1:]
    triples = {
        "the fit without weights: divide each equation by its run's error": fit(
            sizes, losses, np.ones(sizes.size), exponents
        )[0],
        "the fit with each equation divided by its error twice: the squares are divided by error², so divide once": fit(
            sizes, losses, errors**-2, exponents
        )[0],
        "the fit with each equation divided by the root of its error: divide by the error": fit(
            sizes, losses, errors**-0.5, exponents
        )[0],
        "the fit with each equation multiplied by its error: a run that is less certain counts less": fit(
            sizes, losses, errors, exponents
        )[0],
        "the fit with each equation divided by its loss: divide by its error": fit(
            sizes, losses, 1 / losses, exponents
        )[0],
        "the fit of a straight line through the logarithms, which has E = 0": (0.0, np.exp(start), -slope),
        "the fit of a straight line through the logarithms with weights, which has E = 0": (
            0.0,
            np.exp(weighted[1]),
            -weighted[0],
        ),
        "the fit of E + A · N^a: the law has N^-a": fit(sizes, losses, 1 / errors, exponents, power=1.0)[0],
        "the fit for the last exponent, which is not the best": tuple(table[-1, 1:]),
        "the fit for the first exponent, which is not the best": tuple(table[0, 1:]),
        "the fit with the largest error: take the least": tuple(worst),
        "the fit in which only the right sides were divided by the errors: divide the columns, too": _half(
            sizes, losses, errors, exponents
        ),
    }
    tables = {name: {words: triple[k] for words, triple in triples.items()} for k, name in enumerate(("E", "A", "a"))}
    tables["E"] |= {
        "what A should be: return E, A, a": A,
        "what a should be: return E, A, a": a,
        "the least loss of the runs: E is fitted": losses.min(),
        "that of the last exponent tried: keep what belongs to the best": table[-1, 1],
    }
    tables["A"] |= {
        "what a should be: return E, A, a": a,
        "what E should be: return E, A, a": E,
        "A / N₀^a, what belongs to columns of (N / N₀)^-a: multiply by N₀^a": A / sizes[0] ** a,
        "A times N₀^a: for columns of N^-a it is A already": A * sizes[0] ** a,
        "A / N₀^2a: for columns of (N / N₀)^-a multiply by N₀^a": A / sizes[0] ** (2 * a),
        "that of the last exponent tried: keep what belongs to the best": table[-1, 2],
    }
    tables["a"] |= {
        "what E should be: return E, A, a": E,
        "what A should be: return E, A, a": A,
        "-a: the law is A / N^a": -a,
        "the place of a among the exponents: return the exponent": float(table[:, 0].argmin()),
        "the last exponent tried: keep the best": table[-1, 3],
    }
    return {name: _others(tables[name], number, FIT) for name, number in zip(("E", "A", "a"), best)}


def _half(sizes, losses, errors, exponents):
    """(E, A, a) with the right sides alone divided by the errors."""
    return fit(sizes, losses / errors, np.ones(sizes.size), exponents)[0]


# ----------------------------------------------------------------------------------------------------------- bootstrap


def drawn(losses, draws):
    """(R, n): the mean of each draw."""
    return np.take_along_axis(losses[None], draws, axis=2).mean(axis=2)


def interval(losses, draws, statistic):
    """(low, high): the middle 95% of the statistic over all draws."""
    return tuple(np.percentile([statistic(row) for row in drawn(losses, draws)], [2.5, 97.5]))


def interval_mistakes(losses, draws, statistic) -> dict:
    """{"low", "high": known mistakes}."""
    R, n, S = draws.shape
    values = np.array([statistic(row) for row in drawn(losses, draws)])  # (R,)
    low, high = np.percentile(values, [2.5, 97.5])
    centre, spread = statistic(losses.mean(axis=1)), values.std(ddof=min(1, R - 1))
    middles = [statistic(row) for row in np.median(np.take_along_axis(losses[None], draws, axis=2), axis=2)]
    pooled = [statistic(row) for row in losses.ravel()[draws].mean(axis=2)]
    alike = [statistic(row) for row in drawn(losses, np.repeat(draws[:, :1], n, axis=1))]
    singles = [statistic(losses[np.arange(n), draw[:, 0]]) for draw in draws]
    runs_alone = [statistic(losses[:, s]) for s in range(S)]
    rows = [np.percentile(drawn(losses, draws)[:, k], [2.5, 97.5]) for k in range(n)]
    ends = np.array([statistic(np.array([row[k] for row in rows])) for k in (0, 1)])
    both = np.array([-1, 1])
    pairs = {
        "the middle 90%: for 95% take the percentiles 2.5 and 97.5": np.percentile(values, [5, 95]),
        "the percentiles 0.025 and 0.975: np.percentile counts to 100": np.percentile(values, [0.025, 0.975]),
        "the middle 50%: for 95% take the percentiles 2.5 and 97.5": np.percentile(values, [25, 75]),
        "the least and the largest of all draws: leave out 2.5% on each side": (values.min(), values.max()),
        "the mean of the draws ± 1.96 standard deviations: take percentiles": values.mean() + 1.96 * spread * both,
        "the statistic ± 1.96 standard deviations of the draws: take percentiles": centre + 1.96 * spread * both,
        "the statistic ± one standard deviation of the draws: take percentiles": centre + spread * both,
        "the mean of the draws ± one standard deviation: take percentiles": values.mean() + spread * both,
        "an interval over the root of the number of draws: more draws do not make it narrower": values.mean()
        + 1.96 * spread / np.sqrt(R) * both,
        "the percentiles with medians in place of means: average the runs that were drawn": np.percentile(
            middles, [2.5, 97.5]
        ),
        "the percentiles with runs of all sizes together: row k of a draw picks among those of size k": np.percentile(
            pooled, [2.5, 97.5]
        ),
        "the percentiles with one row of a draw for all sizes: row k picks among the runs of size k": np.percentile(
            alike, [2.5, 97.5]
        ),
        "the percentiles with one run for each size: average all that were drawn": np.percentile(singles, [2.5, 97.5]),
        "the percentiles of the statistic of single seeds: use the draws": np.percentile(runs_alone, [2.5, 97.5]),
        "the statistic of each size's own percentiles: the statistic comes first, then the percentiles": ends,
        "the statistic of the means, without any draws": (centre, centre),
    }
    lows = {words: pair[0] for words, pair in pairs.items()} | {"what high should be: return low, then high": high}
    highs = {words: pair[1] for words, pair in pairs.items()} | {"what low should be: return low, then high": low}
    return {"low": _others(lows, low, BOOTSTRAP), "high": _others(highs, high, BOOTSTRAP)}


def _others(table, number, where):
    """Those that give another number."""
    return {
        words: (np.float64(wrong), where) for words, wrong in table.items() if not np.isclose(wrong, number, rtol=1e-5)
    }
