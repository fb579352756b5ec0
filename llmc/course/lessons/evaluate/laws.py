"""Lesson 24: a scaling law from runs of unequal certainty, a bootstrap, and what known mistakes give instead.

Mistakes are {sentence after "E equals ": (number, where to look)}.
"""

import numpy as np

from llmc.course.lessons.evaluate.places import BOOTSTRAP, FIT
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import WrongAnswer


def runs(rng, n, noise=1.0):
    """sizes, losses, errors, (n,) each, as if measured: of a law, each run off by about its own error.

    noise: of all errors. With much of it, many exponents fit nearly as well as the best.
    """
    sizes = np.sort(10 ** rng.uniform(3.5, 7, n)).round()
    sizes[[0, -1]] = 3e3, 2e7
    E, a = rng.uniform(1.5, 2.5), rng.uniform(0.2, 0.5)
    A = rng.uniform(1.5, 3.0) * sizes[0] ** a
    errors = noise * 10 ** rng.uniform(-2.3, -0.8, n)
    losses = E + A / sizes**a + errors * rng.uniform(-1.5, 1.5, n)
    return sizes, np.maximum(losses, 0.2), errors


def fit(sizes, losses, weights, exponents, power=-1.0):
    """(E, A, a) of least squares of weights · (E + A · sizes^(power · a) - losses), and all of them: (exponents, 4)."""
    powers = power * np.asarray(exponents)  # (k,)
    x = (sizes / sizes[0]) ** powers[:, None]  # (k, n)
    share = weights**2 / (weights**2).sum()  # (n,)
    off, above = x - (x @ share)[:, None], losses - losses @ share  # (k, n), (n,) from their weighted means
    slope = (off * above) @ share / (off**2 @ share)  # (k,)
    badness = ((slope[:, None] * off - above) ** 2) @ weights**2  # (k,)
    E = losses @ share - slope * (x @ share)  # (k,)
    table = np.stack([badness, E, slope * sizes[0] ** -powers, exponents], axis=1)
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
    weights = {
        "divided by its error twice": errors**-2,
        "divided by the root of its error": errors**-0.5,
        "multiplied by its error": errors,
        "left as it is": np.ones(sizes.size),
    }
    half_weighted = {
        f"the fit with each equation {how}, the exponent chosen as it should be: divide by the error, once": _chosen(
            sizes, losses, w, 1 / errors, exponents
        )
        for how, w in weights.items()
    }
    half_weighted |= {
        "the fit in which the exponent was chosen by squares without errors": _chosen(
            sizes, losses, 1 / errors, np.ones(sizes.size), exponents
        ),
        "the fit with the exponent of the least sum of absolute errors: square them": _chosen(
            sizes, losses, 1 / errors, 1 / errors, exponents, lambda off: np.abs(off).sum()
        ),
        "the fit with the exponent of the least largest error: add up all squares": _chosen(
            sizes, losses, 1 / errors, 1 / errors, exponents, lambda off: np.abs(off).max()
        ),
        "the fit with the exponent of the least sum of errors, which cancel: square them": _chosen(
            sizes, losses, 1 / errors, 1 / errors, exponents, lambda off: off.sum()
        ),
        "the fit with the exponent whose errors add up nearest to 0: add up their squares, and do not square their "
        "sum": _chosen(sizes, losses, 1 / errors, 1 / errors, exponents, lambda off: off.sum() ** 2),
        "the fit of the logarithms of the sizes: the law has the sizes themselves": fit(
            np.log(sizes), losses, 1 / errors, exponents
        )[0],
        "the fit without E: the law has a constant": _without_E(sizes, losses, errors, exponents),
    }
    plain, w = np.ones(sizes.size), errors**-2
    for which, of_x, of_y in (("x", plain, w), ("the losses", w, plain), ("x and of the losses", plain, plain)):
        words = f"the fit with the plain mean of {which} in weighted sums: weight the means, too, by 1 / error²"
        half_weighted[words] = _about_means(sizes, losses, w, exponents, of_x, of_y)
    triples = half_weighted | {
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
        "the fit with E and A / N₀^a exchanged": (A / sizes[0] ** a, E * sizes[0] ** a, a),
        "the fit for the last exponent, which is not the best": tuple(table[-1, 1:]),
        "the fit for the first exponent, which is not the best": tuple(table[0, 1:]),
        "the fit with the largest error: take the least": tuple(worst),
        "the fit with a column of ones that was not divided by the errors: divide it, too": _undivided_ones(
            sizes, losses, errors, exponents
        ),
        "the fit in which only the right sides were divided by the errors: divide the columns, too": _half(
            sizes, losses, errors, exponents
        ),
    }
    tables = {name: {words: triple[k] for words, triple in triples.items()} for k, name in enumerate(("E", "A", "a"))}
    tables["E"] |= {
        "what A should be": A,
        "what a should be": a,
        "the least loss of the runs: E is fitted": losses.min(),
    }
    tables["A"] |= {
        "what a should be": a,
        "what E should be": E,
        "A / N₀^a, what belongs to columns of (N / N₀)^-a: multiply by N₀^a": A / sizes[0] ** a,
        "A times N₀^a: for columns of N^-a it is A already": A * sizes[0] ** a,
        "A^(1/a), for a law of (A / N)^a: here it is A / N^a": np.abs(A) ** (1 / a),
        "the best fit's, but times N₀ to the power of the LAST exponent: the best one belongs to it": (
            A / sizes[0] ** a * sizes[0] ** exponents[-1]
        ),
        "the best fit's, but times N₀ to the power of the FIRST exponent: the best one belongs to it": (
            A / sizes[0] ** a * sizes[0] ** exponents[0]
        ),
        **{
            f"A · (N₀ / {what})^a: the size in the columns and the one that A is multiplied with must be the same": (
                A * (sizes[0] / size) ** a
            )
            for what, size in (
                ("the largest N", sizes.max()),
                ("the mean N", sizes.mean()),
                ("the median N", np.median(sizes)),
                ("the mean of the logarithms", np.exp(np.log(sizes).mean())),
            )
        },
        "A / (N_largest)^a, what belongs to columns of (N / the largest N)^-a: multiply by that N to the power a": (
            A / sizes.max() ** a
        ),
        "A · N₀: multiply by N₀^a": A / sizes[0] ** a * sizes[0],
        "A / N₀^2a: for columns of (N / N₀)^-a multiply by N₀^a": A / sizes[0] ** (2 * a),
    }
    tables["a"] |= {
        "what E should be": E,
        "what A should be": A,
        "-a: the law is A / N^a": -a,
        "the place of a among the exponents: return the exponent": float(table[:, 0].argmin()),
    }
    return {name: _others(tables[name], number, FIT) for name, number in zip(("E", "A", "a"), best)}


def of_these_three(found, sizes, losses, errors, exponents):
    """A sentence on which part of a law (E, A, a) is not that of the best: the exponent, or E and A for it."""
    E, A, a = np.array(found, float)
    if not np.isfinite([E, A, a]).all():
        return None
    table = fit(sizes, losses, 1 / errors, exponents)[1]  # (exponents, 4)
    least, best_E, best_A, best_a = table[table[:, 0].argmin()]
    at = np.flatnonzero(np.isclose(exponents, a, rtol=1e-9, atol=0))
    if not at.size:
        return f"a = {a:.6g} is none of the exponents that were given"
    badness, own_E, own_A, _ = table[at[0]]
    fits = [np.isclose(mine, own, rtol=1e-5, atol=0) for mine, own in ((E, own_E), (A, own_A))]
    if all(fits):
        return (
            f"E and A are the right ones for a = {a:.6g}. The sum of squares is {badness:.4g} there, and with "
            f"a = {best_a:.6g} it is {least:.4g}: another exponent has the least sum"
        )
    exponent = f"a = {a:.6g} has the least sum of squares"
    if not np.isclose(a, best_a, rtol=1e-9, atol=0):
        exponent = f"the least sum of squares is that of a = {best_a:.6g}, not of {a:.6g}"
    wrong = [
        f"{name} = {own:.6g}, not {mine:.6g}"
        for name, mine, own, fit_ in zip("EA", (E, A), (own_E, own_A), fits)
        if not fit_
    ]
    return f"For a = {a:.6g} the best fit has {' and '.join(wrong)}; {exponent}"


def _chosen(sizes, losses, weights, judging, exponents, badness=lambda off: (off**2).sum()):
    """(E, A, a): fitted with some weights, the best chosen with others or by another measure."""
    table = fit(sizes, losses, weights, exponents)[1]  # (exponents, 4)
    found = [badness((E + A / sizes**a - losses) * judging) for _, E, A, a in table]
    return tuple(table[int(np.argmin(found)), 1:])


def _without_E(sizes, losses, errors, exponents):
    """(0, A, a) of the best A / N^a."""
    found = []
    for a in exponents:
        x = (sizes / sizes[0]) ** -a / errors  # (n,)
        A = x @ (losses / errors) / (x @ x)
        found.append((((A * x - losses / errors) ** 2).sum(), A * sizes[0] ** a, a))
    return 0.0, *min(found)[1:]


def _about_means(sizes, losses, w, exponents, of_x, of_y):
    """(E, A, a) of sums with weights w (n,) about means with the weights of_x and of_y (n,)."""
    x = (sizes / sizes[0]) ** -np.asarray(exponents)[:, None]  # (k, n)
    middle, height = x @ of_x / of_x.sum(), losses @ of_y / of_y.sum()  # (k,), a number
    off = x - middle[:, None]  # (k, n)
    slope = off * (losses - height) @ w / (off**2 @ w)  # (k,)
    k = int(((slope[:, None] * off + height - losses) ** 2 @ w).argmin())
    return height - slope[k] * middle[k], slope[k] * sizes[0] ** exponents[k], exponents[k]


def _half(sizes, losses, errors, exponents):
    """(E, A, a) with the right sides alone divided by the errors."""
    return fit(sizes, losses / errors, np.ones(sizes.size), exponents)[0]


def _undivided_ones(sizes, losses, errors, exponents):
    """(E, A, a) of the least squares of E + (A · sizes^-a - losses) / errors."""
    found = []
    for a in exponents:
        columns = np.column_stack([np.ones(sizes.size), (sizes / sizes[0]) ** -a / errors])  # (n, 2)
        (E, A), *_ = np.linalg.lstsq(columns, losses / errors, rcond=None)
        found.append((((columns @ [E, A] - losses / errors) ** 2).sum(), E, A * sizes[0] ** a, a))
    return tuple(min(found)[1:])


# ----------------------------------------------------------------------------------------------------------- bootstrap


def drawn(losses, draws):
    """(R, n): the mean of each draw."""
    return np.take_along_axis(losses[None], draws, axis=2).mean(axis=2)


def interval(losses, draws, statistic):
    """(low, high): the middle 95% of the statistic over all draws."""
    return tuple(np.percentile([statistic(row) for row in drawn(losses, draws)], [2.5, 97.5]))


def interval_mistakes(losses, draws, statistic) -> dict:
    """Known mistakes of the interval (2,)."""
    R, n, S = draws.shape
    taken = np.take_along_axis(losses[None], draws, axis=2)  # (R, n, S)

    def all_of(means):
        """(R,): the statistic of each row (n,)."""
        return np.array([statistic(row) for row in means])

    values, both, centre = all_of(taken.mean(axis=2)), np.array([-1, 1]), statistic(losses.mean(axis=1))
    spread, middle = values.std(ddof=min(1, R - 1)), [2.5, 97.5]
    once = [[losses[k, np.unique(draw[k])].mean() for k in range(n)] for draw in draws]
    ends = np.percentile(taken.mean(axis=2), middle, axis=0)  # (2, n)
    ordered, last = np.sort(values), int(0.975 * R)
    low, high = np.percentile(values, middle)
    found = {
        "the ends in the other order: return low, then high": (high, low),
        "the middle 90%: for 95% take the percentiles 2.5 and 97.5": np.percentile(values, [5, 95]),
        "the middle 50%: for 95% take the percentiles 2.5 and 97.5": np.percentile(values, [25, 75]),
        "the middle 68%: for 95% take the percentiles 2.5 and 97.5": np.percentile(values, [16, 84]),
        "the percentiles 0.025 and 0.975: np.percentile counts to 100": np.percentile(values, [0.025, 0.975]),
        "the least and the largest of all draws: leave out 2.5% on each side": (ordered[0], ordered[-1]),
        "two of the draws, without a mean of neighbours between: use np.percentile": (
            ordered[int(0.025 * R)],
            ordered[last],
        ),
        "two of the draws, 5% from either end: leave out 2.5%": (ordered[int(0.05 * R)], ordered[int(0.95 * R)]),
        "the nearest draws, without a mean of neighbours between": np.percentile(values, middle, method="nearest"),
        "the interval turned over at the statistic of all runs (the basic bootstrap): here it is the percentiles": (
            2 * centre - high,
            2 * centre - low,
        ),
        "the mean and the standard deviation of the draws: take percentiles": (values.mean(), spread),
        "the mean and the standard deviation of the draws, by np.std: take percentiles": (values.mean(), values.std()),
        "the mean of the draws ± 1.96 standard deviations: take percentiles": values.mean() + 1.96 * spread * both,
        "the mean of the draws ± 1.96 standard deviations, by np.std: take percentiles": values.mean()
        + 1.96 * values.std() * both,
        "the mean of the draws ± 2 standard deviations: take percentiles": values.mean() + 2 * values.std() * both,
        "the statistic ± 1.96 standard deviations of the draws: take percentiles": centre + 1.96 * spread * both,
        "the statistic ± one standard deviation of the draws: take percentiles": centre + spread * both,
        "the mean of the draws ± one standard deviation: take percentiles": values.mean() + spread * both,
        "the mean ± 1.96 deviations over the root of the number of draws: the more draws, the narrower it gets, and it "
        "should not": values.mean() + 1.96 * spread / np.sqrt(R) * both,
        "the mean ± 1.96 deviations over the root of the number of seeds: the draws average them already": values.mean()
        + 1.96 * values.std() / np.sqrt(S) * both,
        "the percentiles with medians in place of means: average the runs that were drawn": np.percentile(
            all_of(np.median(taken, axis=2)), middle
        ),
        "the percentiles with the least of the runs drawn: average them": np.percentile(
            all_of(taken.min(axis=2)), middle
        ),
        "the percentiles with each run counted once: one that was drawn twice counts twice": np.percentile(
            all_of(np.array(once)), middle
        ),
        "the percentiles with the runs of size 0 for all sizes: row k of a draw picks among those of size k": (
            np.percentile(all_of(losses.ravel()[draws].mean(axis=2)), middle)
        ),
        "the percentiles with one row of a draw for all sizes: row k picks among the runs of size k": np.percentile(
            all_of(drawn(losses, np.repeat(draws[:, :1], n, axis=1))), middle
        ),
        "the percentiles with each size's mean over the seeds that all sizes drew: row k of a draw is for size k "
        "alone": np.percentile(all_of(losses[:, draws].mean(axis=(2, 3)).T), middle),
        "the percentiles with one run for each size: average all that were drawn": np.percentile(
            all_of(taken[:, :, 0]), middle
        ),
        "the mean of the statistic of single runs: average the runs of a draw first, then compute it": np.percentile(
            [all_of(draw.T).mean() for draw in taken], middle
        ),
        "the percentiles of the statistic of single runs: average the runs of a draw first, then compute it": (
            np.percentile([all_of(draw.T) for draw in taken], middle)
        ),
        "the statistic of each size's own percentiles: the statistic comes first, then the percentiles": all_of(ends),
        "the statistic of each size's own percentiles, smaller one first: the statistic comes first, then the "
        "percentiles": np.sort(all_of(ends)),
        "the percentiles of the distance from the statistic of all runs: take those of the statistic itself": (
            low - centre,
            high - centre,
        ),
        "the percentiles 2.5 and 97.5 of every mean loss, without the statistic": np.percentile(
            taken.mean(axis=2), middle
        ),
        "the percentiles 5 and 100: 2.5% are left out on each side": np.percentile(values, [5, 100]),
        "the percentiles 0 and 95: 2.5% are left out on each side": np.percentile(values, [0, 95]),
        "the percentiles with sums of the runs in place of their means": np.percentile(
            all_of(taken.sum(axis=2)), middle
        ),
        "the percentiles without the last draw": np.percentile(values[:-1] if R > 1 else values, middle),
        "the percentiles without the first draw": np.percentile(values[1:] if R > 1 else values, middle),
        "the statistic of the means, without any draws": (centre, centre),
    }
    return _others(found, np.array([low, high]), BOOTSTRAP)


def demand_draws(found, losses, draws, statistic, function):
    """WrongAnswer if an interval has a width although all draws are the same, unless that is a known mistake.

    found: (low, high) of these arguments. function: the learner's, for another call.
    """
    known = [wrong for wrong, _ in interval_mistakes(losses, draws, statistic).values()]
    if abs(found[1] - found[0]) <= 1e-9 * (abs(found[0]) + 1) or any(np.allclose(found, wrong) for wrong in known):
        return
    told = f"all {len(draws)} draws are the same here, so low and high must be equal, and yours are"
    again, other = (
        outcome(function, losses.copy(), (draws + k) % losses.shape[1], statistic) for k in (0, 1)
    )  # with the same draws, and with other ones
    own = ""
    if np.shape(again) == np.shape(other) == (2,):
        own = "With the same draws your function gives other numbers" * (not np.allclose(again, found))
        own = own or "With other draws your function gives the same numbers" * np.allclose(other, found)
    own = f"\n{own}: `draws` alone says which runs are taken." if own else ""
    raise WrongAnswer(f"{told} {found[0]:.6g} and {found[1]:.6g}.{own}\n→ Where to look: {BOOTSTRAP}.")


def _others(table, number, where):
    """Those that give another number."""
    return {
        words: (np.asarray(wrong, np.float64), where)
        for words, wrong in table.items()
        if not np.allclose(wrong, number, rtol=1e-5, atol=0)
    }
