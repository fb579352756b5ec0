"""Answers to the exercises of lesson 24 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 24` runs those of this lesson.
"""

import math

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------------ 1 bits_per_byte


@right("bits_per_byte")
def bits_in_loops(losses, targets, lengths):
    bits, size = 0.0, 0
    for row_losses, row_targets in zip(losses, targets):
        for cost, token in zip(row_losses, row_targets):
            if token == -1:
                break
            bits += float(cost) / math.log(2)
            size += int(lengths[token])
    return bits / size


@right("bits_per_byte")
def bits_with_where(losses, targets, lengths):
    real = targets != -1
    nats = np.where(real, losses, 0).sum()
    size = np.where(real, lengths[np.maximum(targets, 0)], 0).sum()
    return nats * np.log2(np.e) / size


@right("bits_per_byte")
def bits_from_the_mean(losses, targets, lengths):
    """The mean loss times the number of tokens is the sum again."""
    flat = targets.ravel()
    keep = flat > -1
    mean = losses.ravel()[keep].mean()
    return float(mean * keep.sum() / np.log(2) / np.take(lengths, flat[keep]).sum())


@right("bits_per_byte")
def bits_with_bincount(losses, targets, lengths):
    counts = np.bincount(targets[targets >= 0], minlength=len(lengths))
    return np.log2(np.exp(losses[targets >= 0].astype(np.float64))).sum() / (counts @ lengths)


@wrong("bits_per_byte", says="the nats per byte: divide by ln 2 for bits")
def bits_as_nats(losses, targets, lengths):
    real = targets >= 0
    return losses[real].sum() / lengths[targets[real]].sum()


@wrong("bits_per_byte", says="a bit is ln 2 nats, so divide")
def bits_times_ln2(losses, targets, lengths):
    real = targets >= 0
    return losses[real].sum() * np.log(2) / lengths[targets[real]].sum()


@wrong("bits_per_byte", says="the mean of the documents' bits per byte")
def bits_as_a_mean_of_ratios(losses, targets, lengths):
    ratios = []
    for cost, ids in zip(losses, targets):
        real = ids >= 0
        ratios.append(cost[real].sum() / np.log(2) / lengths[ids[real]].sum())
    return np.mean(ratios)


@wrong("bits_per_byte", says="they differ in length, so add up costs and bytes")
def bits_of_mean_losses(losses, targets, lengths):
    loss = np.mean([cost[ids >= 0].mean() for cost, ids in zip(losses, targets)])
    size = np.mean([lengths[ids[ids >= 0]].mean() for ids in targets])
    return loss / np.log(2) / size


@wrong("bits_per_byte", says="the cost with that of the padding")
def bits_with_the_paddings_cost(losses, targets, lengths):
    return losses.sum() / np.log(2) / lengths[targets[targets >= 0]].sum()


@wrong("bits_per_byte", says="`lengths[-1]` is the length of the last token")
def bits_with_the_paddings_bytes(losses, targets, lengths):
    return losses[targets >= 0].sum() / np.log(2) / lengths[targets].sum()


@wrong("bits_per_byte", says="the padding in cost and bytes")
def bits_of_everything(losses, targets, lengths):
    return losses.sum() / np.log(2) / lengths[targets].sum()


@wrong("bits_per_byte", says="the cost without end-of-text: it counts as a cost")
def bits_without_end_of_text(losses, targets, lengths):
    real = targets > 0
    return losses[real].sum() / np.log(2) / lengths[targets[real]].sum()


@wrong("bits_per_byte", says="and -1 is no token")
def bits_where_zero_is_padding(losses, targets, lengths):
    real = targets != 0
    return losses[real].sum() / np.log(2) / lengths[targets[real]].sum()


@wrong("bits_per_byte", says="over bytes in which end-of-text counts as one")
def bits_with_a_byte_at_least(losses, targets, lengths):
    real = targets >= 0
    return losses[real].sum() / np.log(2) / np.maximum(lengths[targets[real]], 1).sum()


@wrong("bits_per_byte", says="the bits per token: divide by the bytes")
def bits_per_token(losses, targets, lengths):
    return losses[targets >= 0].mean() / np.log(2)


@wrong("bits_per_byte", says="the perplexity")
def bits_as_perplexity(losses, targets, lengths):
    return np.exp(losses[targets >= 0].mean())


@wrong("bits_per_byte", says="the bytes per bit")
def bits_the_other_way_round(losses, targets, lengths):
    real = targets >= 0
    return lengths[targets[real]].sum() / (losses[real].sum() / np.log(2))


@wrong("bits_per_byte", says="the mean length of all tokens of the vocabulary")
def bits_by_the_vocabulary(losses, targets, lengths):
    return losses[targets >= 0].mean() / np.log(2) / lengths.mean()


@wrong("bits_per_byte", says="the cost in powers of ten")
def bits_by_log10(losses, targets, lengths):
    real = targets >= 0
    return losses[real].sum() / np.log(10) / lengths[targets[real]].sum()


# ------------------------------------------------------------------------------------------------------ 2 score_endings


@right("score_endings")
def endings_in_loops(logits, tokens, mask):
    sums, means = [], []
    for row in range(len(tokens)):
        total, count = 0.0, 0
        for t in range(1, tokens.shape[1]):
            if mask[row, t]:
                z = logits[row, t - 1].astype(np.float64)
                high = z.max()
                total += high + math.log(np.exp(z - high).sum()) - z[tokens[row, t]]
                count += 1
        sums.append(total)
        means.append(total / count)
    return np.array(sums), np.array(means)


@right("score_endings")
def endings_with_fancy_indices(logits, tokens, mask):
    rows, at = np.nonzero(mask)
    z = logits[rows, at - 1].astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    cost = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), tokens[rows, at]]
    sums = np.bincount(rows, cost, minlength=len(tokens))
    return [sums, sums / np.bincount(rows, minlength=len(tokens))]


@right("score_endings")
def endings_in_float32(logits, tokens, mask):
    high = logits.max(axis=-1, keepdims=True)
    logs = logits - high - np.log(np.exp(logits - high).sum(axis=-1, keepdims=True))
    R, n = tokens.shape
    losses = -logs[np.arange(R)[:, None], np.arange(n - 1), tokens[:, 1:]]
    keep = mask[:, 1:].astype(bool)
    sums = np.where(keep, losses, 0).sum(axis=1)
    return sums, (sums / keep.sum(axis=1)).astype(np.float32)


@right("score_endings")
def endings_with_logaddexp(logits, tokens, mask):
    total = np.logaddexp.reduce(logits.astype(np.float64), axis=-1)
    own = np.einsum("rtv,rtv->rt", logits[:, :-1], np.eye(logits.shape[-1])[tokens[:, 1:]])
    cost = np.ma.masked_array(total[:, :-1] - own, mask[:, 1:] == 0)
    return cost.sum(axis=1).filled(0), cost.mean(axis=1).filled(0)


def _costs(logits, tokens):
    """(rows, n - 1)"""
    z = logits[:, :-1].astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    return np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]


@wrong("score_endings", says="so it goes with `mask[:, 1:]`")
def endings_with_the_mask_not_shifted(logits, tokens, mask):
    sums = (_costs(logits, tokens) * mask[:, :-1]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="by the logits at its own place")
def endings_not_shifted_at_all(logits, tokens, mask):
    z = logits.astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[..., None], axis=-1)[..., 0]
    sums = (costs * mask).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="by the logits behind it")
def endings_shifted_the_other_way(logits, tokens, mask):
    z = logits[:, 1:].astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, :-1, None], axis=-1)[..., 0]
    sums = (costs * mask[:, :-1]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="padding included")
def endings_without_a_mask(logits, tokens, mask):
    costs = _costs(logits, tokens)
    return costs.sum(axis=1), costs.mean(axis=1)


@wrong("score_endings", says="the cost of context and ending")
def endings_with_the_context(logits, tokens, mask):
    costs = _costs(logits, tokens)
    real = np.array([np.arange(1, tokens.shape[1]) <= np.flatnonzero(row)[-1] for row in mask])
    sums = (costs * real).sum(axis=1)
    return sums, sums / real.sum(axis=1)


@wrong("score_endings", says="without the first token of the ending")
def endings_that_begin_too_late(logits, tokens, mask):
    costs, sums = _costs(logits, tokens), []
    for cost, row in zip(costs, mask):
        at = np.flatnonzero(row)
        sums.append(cost[at[1:] - 1].sum())
    return np.array(sums), np.array(sums) / mask.sum(axis=1)


@wrong("score_endings", says="the logarithm of the probability: a cost is minus that")
def endings_as_log_probabilities(logits, tokens, mask):
    sums = -(_costs(logits, tokens) * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="over all n - 1 predictions")
def endings_with_a_mean_over_the_row(logits, tokens, mask):
    costs = _costs(logits, tokens) * mask[:, 1:]
    return costs.sum(axis=1), costs.mean(axis=1)


@wrong("score_endings", says="what means should be")
def endings_turned_round(logits, tokens, mask):
    sums = (_costs(logits, tokens) * mask[:, 1:]).sum(axis=1)
    return sums / mask.sum(axis=1), sums


@wrong("score_endings", says="NaN or infinite")
def endings_that_overflow(logits, tokens, mask):
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        costs = -np.log(np.take_along_axis(p[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0])
        sums = np.where(mask[:, 1:] == 1, costs, 0).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="the softmax is missing")
def endings_of_logits(logits, tokens, mask):
    costs = -np.take_along_axis(logits[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    sums = (costs * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="the cost in bits")
def endings_in_bits(logits, tokens, mask):
    sums = (_costs(logits, tokens) * mask[:, 1:]).sum(axis=1) / np.log(2)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="a softmax over time")
def endings_with_another_axis(logits, tokens, mask):
    z = logits.astype(np.float64)
    z = z - z.max(axis=1, keepdims=True)
    logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    costs = -np.take_along_axis(logs[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    sums = (costs * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="return two arrays")
def endings_means_alone(logits, tokens, mask):
    return (_costs(logits, tokens) * mask[:, 1:]).sum(axis=1) / mask.sum(axis=1)


@wrong("score_endings", says="one number for all rows: endings differ in length")
def endings_with_one_count(logits, tokens, mask):
    sums = (_costs(logits, tokens) * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1).mean()


# ------------------------------------------------------------------------------------------------------------ 3 fit_law


@right("fit_law")
def law_by_normal_equations(sizes, losses, errors, exponents):
    w, results = 1 / errors**2, []
    for a in exponents:
        x = (sizes / sizes.mean()) ** -a
        mx, my = np.average(x, weights=w), np.average(losses, weights=w)
        slope = (w * (x - mx) * (losses - my)).sum() / (w * (x - mx) ** 2).sum()
        E = my - slope * mx
        results.append(((w * (E + slope * x - losses) ** 2).sum(), E, slope * sizes.mean() ** a, a))
    return min(results)[1:]


@right("fit_law")
def law_by_polyfit(sizes, losses, errors, exponents):
    best = None
    for a in exponents:
        A, E = np.polyfit(sizes**-a, losses, 1, w=1 / errors)
        error = np.sum(((E + A * sizes**-a - losses) / errors) ** 2)
        if best is None or error < best[0]:
            best = error, E, A, float(a)
    return np.array(best[1:])


@right("fit_law")
def law_all_at_once(sizes, losses, errors, exponents):
    n, k = len(sizes), len(exponents)
    columns = np.ones((k, n, 2))
    columns[:, :, 1] = np.exp(-exponents[:, None] * np.log(sizes / sizes[-1]))
    columns /= errors[:, None]
    y = losses / errors
    x = np.linalg.pinv(columns) @ y
    off = np.einsum("knj,kj->kn", columns, x) - y
    i = np.argmin((off**2).sum(axis=1))
    return x[i, 0], x[i, 1] * sizes[-1] ** exponents[i], exponents[i]


@right("fit_law")
def law_by_residuals(sizes, losses, errors, exponents):
    """lstsq returns the sum of squares itself."""

    def tried(a):
        x, squares, *_ = np.linalg.lstsq(
            np.column_stack([1 / errors, (sizes / 1e5) ** -a / errors]), losses / errors, rcond=None
        )
        return squares.item(), x[0], x[1] * 1e5**a, a

    return list(min(map(tried, exponents)))[1:]


def _fit(sizes, losses, weights, exponents, better=lambda new, old: new < old):
    best, found = None, None
    for a in exponents:
        columns = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1) * weights[:, None]
        E, A = np.linalg.lstsq(columns, losses * weights, rcond=None)[0]
        error = ((columns @ [E, A] - losses * weights) ** 2).sum()
        if best is None or better(error, best):
            best, found = error, (E, A * sizes[0] ** a, a)
    return found


@wrong("fit_law", says="the fit without weights")
def law_without_weights(sizes, losses, errors, exponents):
    return _fit(sizes, losses, np.ones(len(sizes)), exponents)


@wrong("fit_law", says="divided by its error twice")
def law_with_squared_weights(sizes, losses, errors, exponents):
    return _fit(sizes, losses, errors**-2, exponents)


@wrong("fit_law", says="divided by the root of its error")
def law_with_roots_as_weights(sizes, losses, errors, exponents):
    return _fit(sizes, losses, errors**-0.5, exponents)


@wrong("fit_law", says="a run that is less certain counts less")
def law_with_weights_upside_down(sizes, losses, errors, exponents):
    return _fit(sizes, losses, errors, exponents)


@wrong("fit_law", says="which has E = 0")
def law_in_logarithms(sizes, losses, errors, exponents):
    slope, start = np.polyfit(np.log(sizes), np.log(losses), 1)
    return 0.0, np.exp(start), -slope


@wrong("fit_law", says="multiply by N₀^a")
def law_in_other_units(sizes, losses, errors, exponents):
    E, A, a = _fit(sizes, losses, 1 / errors, exponents)
    return E, A / sizes[0] ** a, a


@wrong("fit_law", says="the fit for the last exponent, which is not the best")
def law_of_the_last_exponent(sizes, losses, errors, exponents):
    return _fit(sizes, losses, 1 / errors, exponents, lambda new, old: True)


@wrong("fit_law", says="take the least")
def law_of_the_worst(sizes, losses, errors, exponents):
    return _fit(sizes, losses, 1 / errors, exponents, lambda new, old: new > old)


@wrong("fit_law", says="the fit for the last exponent, which is not the best")
def law_with_a_stale_pair(sizes, losses, errors, exponents):
    a = _fit(sizes, losses, 1 / errors, exponents)[2]
    E, A, _ = _fit(sizes, losses, 1 / errors, exponents[-1:])
    return E, A, a


@wrong("fit_law", says="should be")
def law_turned_round(sizes, losses, errors, exponents):
    return _fit(sizes, losses, 1 / errors, exponents)[::-1]


@wrong("fit_law", says="the law is A / N^a")
def law_with_a_negative_exponent(sizes, losses, errors, exponents):
    E, A, a = _fit(sizes, losses, 1 / errors, exponents)
    return E, A, -a


@wrong("fit_law", says="divide the columns, too")
def law_with_half_the_weights(sizes, losses, errors, exponents):
    return _fit(sizes, losses / errors, np.ones(len(sizes)), exponents)


@wrong("fit_law", says="return the exponent")
def law_with_an_index(sizes, losses, errors, exponents):
    E, A, a = _fit(sizes, losses, 1 / errors, exponents)
    return E, A, list(exponents).index(a)


@wrong("fit_law", says="return three numbers")
def law_as_a_dict(sizes, losses, errors, exponents):
    return dict(zip("EAa", _fit(sizes, losses, 1 / errors, exponents)))


@wrong("fit_law", says="the largest error: take the least.\n→")
def law_that_keeps_the_worst(sizes, losses, errors, exponents):
    worst, found = 0.0, None
    for a in exponents:
        columns = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1) / errors[:, None]
        E, A = np.linalg.lstsq(columns, losses / errors, rcond=None)[0]
        badness = ((columns @ np.array([E, A]) - losses / errors) ** 2).sum()
        if badness > worst:
            worst, found = badness, (E, A * sizes[0] ** a, a)
    return found


@wrong("score_endings", says="the cost of ending and padding")
def endings_with_the_padding_behind(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]
    begun = np.maximum.accumulate(mask[:, 1:], axis=1)
    return (costs * begun).sum(axis=1), (costs * begun).sum(axis=1) / mask.sum(axis=1)


@wrong("score_endings", says="The result changes with the `1e-10` in `p + 1e-10`")
def endings_that_add_a_little(logits, tokens, mask):
    e = np.exp(logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True))
    p = np.take_along_axis(e, tokens[:, 1:, None], axis=-1)[..., 0] / e.sum(axis=-1)
    sums = (-np.log(p + 1e-10) * mask[:, 1:]).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


# ------------------------------------------------------------------------------------------------- 4 bootstrap_interval


@right("bootstrap_interval")
def interval_in_loops(losses, draws, statistic):
    values = []
    for draw in draws:
        means = [np.mean([losses[k, s] for s in seeds]) for k, seeds in enumerate(draw)]
        values.append(statistic(np.array(means)))
    return np.percentile(values, 2.5), np.percentile(values, 97.5)


@right("bootstrap_interval")
def interval_with_quantiles(losses, draws, statistic):
    means = losses[np.arange(len(losses))[None, :, None], draws].mean(axis=-1)
    return tuple(np.quantile(np.apply_along_axis(statistic, 1, means), [0.025, 0.975]))


@right("bootstrap_interval")
def interval_by_sorting(losses, draws, statistic):
    values = sorted(statistic(np.take_along_axis(losses, d, 1).sum(1) / d.shape[1]) for d in draws)

    def at(share):
        place = share * (len(values) - 1)
        low = int(place)
        high = min(low + 1, len(values) - 1)
        return values[low] + (place - low) * (values[high] - values[low])

    return [at(0.025), at(0.975)]


@right("bootstrap_interval")
def interval_with_counts(losses, draws, statistic):
    """How often each run was drawn, as weights."""
    S = losses.shape[1]
    counts = (draws[..., None] == np.arange(S)).sum(axis=2)
    means = np.einsum("rns,ns->rn", counts, losses) / S
    return np.percentile(list(map(statistic, means)), (2.5, 97.5))


def _values(losses, draws, statistic):
    return np.array([statistic(np.take_along_axis(losses, draw, axis=1).mean(axis=1)) for draw in draws])


@wrong("bootstrap_interval", says="low and high are the percentiles 2 and 98 of the statistic over all draws")
def interval_of_ninety_six_percent(losses, draws, statistic):
    values = [statistic(np.take_along_axis(losses, draw, axis=1).mean(axis=1)) for draw in draws]
    return tuple(np.percentile(values, [2, 98]))


@wrong("bootstrap_interval", says="the middle 90%")
def interval_of_90(losses, draws, statistic):
    return np.percentile(_values(losses, draws, statistic), [5, 95])


@wrong("bootstrap_interval", says="np.percentile counts to 100")
def interval_of_fractions(losses, draws, statistic):
    return np.percentile(_values(losses, draws, statistic), [0.025, 0.975])


@wrong("bootstrap_interval", says="the least and the largest of all draws")
def interval_of_extremes(losses, draws, statistic):
    values = _values(losses, draws, statistic)
    return values.min(), values.max()


@wrong("bootstrap_interval", says="1.96 standard deviations: take percentiles")
def interval_of_a_normal(losses, draws, statistic):
    values = _values(losses, draws, statistic)
    return values.mean() - 1.96 * values.std(ddof=1), values.mean() + 1.96 * values.std(ddof=1)


@wrong("bootstrap_interval", says="the more draws, the narrower it gets, and it should not")
def interval_of_the_mean(losses, draws, statistic):
    values = _values(losses, draws, statistic)
    half = 1.96 * values.std(ddof=1 if len(values) > 1 else 0) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


@wrong("bootstrap_interval", says="average the runs that were drawn")
def interval_of_medians(losses, draws, statistic):
    values = [statistic(np.median(np.take_along_axis(losses, draw, axis=1), axis=1)) for draw in draws]
    return np.percentile(values, [2.5, 97.5])


@wrong("bootstrap_interval", says="row k of a draw picks among those of size k")
def interval_of_pooled_runs(losses, draws, statistic):
    values = [statistic(losses.ravel()[draw].mean(axis=1)) for draw in draws]
    return np.percentile(values, [2.5, 97.5])


@wrong("bootstrap_interval", says="with one row of a draw for all sizes")
def interval_of_one_row(losses, draws, statistic):
    values = [statistic(losses[:, draw[0]].mean(axis=1)) for draw in draws]
    return np.percentile(values, [2.5, 97.5])


@wrong("bootstrap_interval", says="average all that were drawn")
def interval_of_first_runs(losses, draws, statistic):
    values = [statistic(losses[np.arange(len(losses)), draw[:, 0]]) for draw in draws]
    return np.percentile(values, [2.5, 97.5])


@wrong("bootstrap_interval", says="return low, then high")
def interval_turned_round(losses, draws, statistic):
    low, high = np.percentile(_values(losses, draws, statistic), [2.5, 97.5])
    return high, low


@wrong("bootstrap_interval", says="`draws` alone says which runs are taken")
def interval_of_seeds(losses, draws, statistic):
    return np.percentile([statistic(column) for column in losses.T], [2.5, 97.5])


@wrong("bootstrap_interval", says="the statistic comes first, then the percentiles")
def interval_of_means_first(losses, draws, statistic):
    means = np.array([np.take_along_axis(losses, draw, axis=1).mean(axis=1) for draw in draws])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return statistic(low), statistic(high)


@wrong("bootstrap_interval", says="average the runs of a draw first")
def bootstrap_mean_of_single_runs(losses, draws, statistic):
    values = []
    for draw in draws:
        taken = np.take_along_axis(losses, draw, axis=1)
        values.append(np.mean([statistic(taken[:, s]) for s in range(taken.shape[1])]))
    return np.percentile(values, 2.5), np.percentile(values, 97.5)


@wrong("bootstrap_interval", says="return two numbers")
def interval_of_all_values(losses, draws, statistic):
    return _values(losses, draws, statistic)


# ----------------------------------------------------------------------------------------------------------- 5 plan_run

T = 1024


def weights(d):
    """As the exercise notebook gives it."""
    return 12 * d * (64 * d) ** 2 + 13 * d * 64 * d + (50304 + T) * 64 * d + 2 * 64 * d


def predicted_loss(N, D):
    """As the exercise notebook gives it."""
    return 1.8172 + 482.01 / N**0.3478 + 2085.43 / D**0.3658


@right("plan_run")
def plan_in_a_loop(dollars, price, speed):
    best, found = math.inf, None
    for d in range(1, 201):
        C = 64 * d
        per_token = 6 * (weights(d) + d * C * T)
        hours = dollars / price
        D = hours * 3600 * speed / per_token
        loss = predicted_loss(weights(d), D)
        if loss < best:
            best, found = loss, (d, D)
    return found


@right("plan_run")
def plan_with_arrays(dollars, price, speed):
    d = np.arange(1, 201, dtype=np.float64)
    D = 3600 * speed * dollars / price / (6 * weights(d) + 384 * d * d * T)
    k = np.argmin(predicted_loss(weights(d), D))
    return int(d[k]), D[k]


@right("plan_run")
def plan_that_climbs(dollars, price, speed):
    """The loss has one valley."""

    def tokens(d):
        return round(dollars * 3600 / price * speed / (6 * weights(d) + 6 * d * 64 * d * T))

    d = 1
    while d < 200 and predicted_loss(weights(d + 1), tokens(d + 1)) < predicted_loss(weights(d), tokens(d)):
        d += 1
    return [d, tokens(d)]


def _plan(dollars, price, speed, per_token, flops=None):
    flops = dollars / price * 3600 * speed if flops is None else flops
    d = min(range(1, 201), key=lambda d: predicted_loss(weights(d), flops / per_token(d)))
    return d, flops / per_token(d)


def _cost(d):
    return 6 * weights(d) + 6 * d * 64 * d * T


@wrong("plan_run", says="without the attention term")
def plan_without_attention(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 6 * weights(d))


@wrong("plan_run", says="a causal model sees half of it")
def plan_with_all_of_attention(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 6 * weights(d) + 12 * d * 64 * d * T)


@wrong("plan_run", says="without T")
def plan_with_attention_without_time(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 6 * weights(d) + 6 * d * 64 * d)


@wrong("plan_run", says="the forward pass alone")
def plan_with_the_forward_pass(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 2 * weights(d))


@wrong("plan_run", says="with an hour as one second")
def plan_in_hours(dollars, price, speed):
    return _plan(dollars, price, speed, _cost, dollars / price * speed)


@wrong("plan_run", says="with an hour of 60 seconds")
def plan_in_minutes(dollars, price, speed):
    return _plan(dollars, price, speed, _cost, dollars / price * 60 * speed)


@wrong("plan_run", says="divide the dollars by the price")
def plan_times_the_price(dollars, price, speed):
    return _plan(dollars, price, speed, _cost, dollars * price * 3600 * speed)


@wrong("plan_run", says="without the price")
def plan_without_the_price(dollars, price, speed):
    return _plan(dollars, price, speed, _cost, dollars * 3600 * speed)


@wrong("plan_run", says="It is too small")
def plan_for_gpt2(dollars, price, speed):
    return 12, dollars / price * 3600 * speed / _cost(12)


@wrong("plan_run", says="For 24 sums from one dollar to five million it buys 1.9 to 2.4 tokens for each weight")
def plan_of_kaplan(dollars, price, speed):
    """One token for each weight, or so."""
    flops = dollars / price * 3600 * speed
    d = min(range(1, 201), key=lambda d: abs(flops / _cost(d) / weights(d) - 2))
    return d, flops / _cost(d)


@wrong("plan_run", says="These are 20 tokens for each weight: return all that the money buys.")
def plan_with_twenty_tokens_a_weight(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(1, 201), key=lambda d: abs(20 * weights(d) * _cost(d) - flops))
    return d, 20 * weights(d)


@wrong("plan_run", says="return d, then tokens")
def plan_turned_round(dollars, price, speed):
    return _plan(dollars, price, speed, _cost)[::-1]


@wrong("plan_run", says="should be a whole number from 1 to 200")
def plan_with_half_a_layer(dollars, price, speed):
    d, tokens = _plan(dollars, price, speed, _cost)
    return d + 0.5, tokens


@wrong("plan_run", says="return two numbers, d and tokens")
def plan_of_the_size_alone(dollars, price, speed):
    return _plan(dollars, price, speed, _cost)[0]


@wrong("plan_run", says="embeddings count")
def plan_without_embeddings(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 6 * 12 * d * (64 * d) ** 2 + 6 * d * 64 * d * T)


@wrong("bits_per_byte", says="a mean over the vocabulary without end-of-text")
def mean_over_mean_of_the_vocabulary(losses, targets, lengths):
    real = targets >= 0
    return losses[real].mean() / np.log(2) / lengths[1:].mean()


@wrong("score_endings", says="1e-09 added to the probability")
def logarithm_with_something_added(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    costs = -np.log(np.take_along_axis(p, tokens[:, 1:, None], -1)[..., 0] + 1e-9)
    sums = (costs * mask[:, 1:]).sum(1)
    return sums, sums / mask.sum(1)


@wrong("fit_law", says="divided by its error twice, the exponent chosen as it should be")
def errors_squared_in_the_fit_alone(sizes, losses, errors, exponents):
    best = np.inf
    for a in exponents:
        X = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1)
        E, A = np.linalg.lstsq(X / errors[:, None] ** 2, losses / errors**2, rcond=None)[0]
        bad = (((X @ [E, A] - losses) / errors) ** 2).sum()
        if bad < best:
            best, out = bad, (E, A * sizes[0] ** a, a)
    return out


# ------------------------------------------------------------------------------- of strangers: where a search ends


@wrong("plan_run", says="is returned with them")
def plan_with_an_index(dollars, price, speed):
    d = np.arange(1, 201)
    tokens = dollars / price * 3600 * speed / _cost(d)
    best = np.argmin(predicted_loss(weights(d), tokens))
    return int(best), float(tokens[best])


@wrong("plan_run", says="However much the money, d is never more than 48")
def plan_of_at_most_48_layers(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(1, 49), key=lambda d: predicted_loss(weights(d), flops / _cost(d)))
    return d, flops / _cost(d)


@wrong("plan_run", says="or a multiple of 4 more")
def plan_in_steps_of_four_layers(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(2, 201, 4), key=lambda d: predicted_loss(weights(d), flops / _cost(d)))
    return d, flops / _cost(d)


@wrong("fit_law", says="without the end of the slice")
def all_exponents_but_the_last(sizes, losses, errors, exponents):
    best = np.inf
    for a in exponents[:-1]:
        X = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1) / errors[:, None]
        E, A = np.linalg.lstsq(X, losses / errors, rcond=None)[0]
        bad = ((X @ [E, A] - losses / errors) ** 2).sum()
        if bad < best:
            best, out = bad, (E, A * sizes[0] ** a, a)
    return out


@wrong("score_endings", says="the tokens of the ending that are not 0: token 0 is one like any other")
def endings_of_tokens_that_are_not_0(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]
    sums = np.einsum("rt,rt->r", costs, mask[:, 1:])
    return sums, sums / np.maximum(np.count_nonzero(tokens * mask, axis=1), 1)


@wrong("score_endings", says="Your function gives the right sums with `tokens[:, 1:]` in place of `tokens[:, :-1]`")
def endings_of_the_token_itself(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    rows, at = np.indices(tokens[:, :-1].shape)
    costs = -logp[rows, at, tokens[:, :-1]]
    ending = mask[:, 1:]
    sums = (costs * ending).sum(axis=1)
    return sums, sums / ending.sum(axis=1)


@wrong("plan_run", says="with 768 channels, or 12 layers, in the attention term")
def plan_with_the_channels_of_one_model(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    plans = []
    for d in range(1, 201):
        N = weights(d)
        tokens = flops / (6 * N + 6 * d * 768 * T)
        plans.append((predicted_loss(N, tokens), d, tokens))
    loss, d, tokens = min(plans)
    return d, tokens


@wrong("bits_per_byte", says="without the rows that have no padding: they count, too")
def bits_up_to_the_padding(losses, targets, lengths):
    nats, size = 0.0, 0
    for loss, target in zip(losses, targets):
        end = (target == -1).argmax()
        nats += loss[:end].sum()
        size += lengths[target[:end]].sum()
    return nats / np.log(2) / size


@wrong("bits_per_byte", says="weighted by their tokens: add up costs and bytes of all of them")
def bits_as_a_weighted_mean(losses, targets, lengths):
    rows, weights = [], []
    for loss, target in zip(losses, targets):
        real = target >= 0
        rows.append(loss[real].sum() / np.log(2) / lengths[target[real]].sum())
        weights.append(real.sum())
    return np.average(rows, weights=weights)


@wrong("score_endings", says="of each position its own largest logit")
def endings_below_the_largest_of_all(logits, tokens, mask):
    z = logits[:, :-1] - logits.max()
    logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    costs = -np.take_along_axis(logp, tokens[:, 1:, None], axis=-1)[..., 0]
    sums = np.where(mask[:, 1:] == 1, costs, 0).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("fit_law", says="times N₀ to the power of the LAST exponent: the best one belongs to it")
def law_that_forgets_a(sizes, losses, errors, exponents):
    least, E, A = np.inf, 0.0, 0.0
    for a in exponents:
        columns = np.stack([1 / errors, (sizes / sizes[0]) ** -a / errors], axis=1)
        found = np.linalg.lstsq(columns, losses / errors, rcond=None)[0]
        badness = ((columns @ found - losses / errors) ** 2).sum()
        if badness < least:
            least = badness
            E, A = found
    return E, A * sizes[0] ** a, a


@wrong("fit_law", says="add up their squares, and do not square their sum")
def law_of_the_square_of_a_sum(sizes, losses, errors, exponents):
    found, scores = [], []
    for a in exponents:
        columns = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1) / errors[:, None]
        E, A = np.linalg.lstsq(columns, losses / errors, rcond=None)[0]
        found.append((E, A * sizes[0] ** a, a))
        scores.append((columns @ [E, A] - losses / errors).sum() ** 2)
    return found[int(np.argmin(scores))]


@wrong("fit_law", says="For a = ")
def law_with_a_guess_for_E(sizes, losses, errors, exponents):
    E, found = 0.9 * losses.min(), []
    for a in exponents:
        x, y = (sizes / sizes[0]) ** -a / errors, (losses - E) / errors
        A = x @ y / (x @ x)
        found.append((((A * x - y) ** 2).sum(), E, A * sizes[0] ** a, a))
    return min(found)[1:]


@wrong("fit_law", says="must be the same")
def law_with_two_sizes(sizes, losses, errors, exponents):
    best = (np.inf, None)
    for a in exponents:
        columns = np.column_stack([np.ones_like(sizes), (sizes / sizes.max()) ** -a]) / errors[:, None]
        E, A = np.linalg.lstsq(columns, losses / errors, rcond=None)[0]
        badness = np.sum((columns @ np.array([E, A]) - losses / errors) ** 2)
        if badness < best[0]:
            best = badness, (E, A * sizes[0] ** a, a)
    return best[1]


@wrong("bootstrap_interval", says="own percentiles, smaller one first: the statistic comes first, then the percentiles")
def interval_of_percentiles_in_order(losses, draws, statistic):
    means = np.stack([np.take_along_axis(losses, draw, axis=1).mean(axis=1) for draw in draws])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return tuple(sorted((statistic(low), statistic(high))))


@wrong("plan_run", says="d is 12, 24, 36 and 48")
def plan_among_gpt2s_sizes(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min((12, 24, 36, 48), key=lambda d: predicted_loss(weights(d), flops / _cost(d)))
    return d, flops / _cost(d)


@wrong("bits_per_byte", says="it does not change with the lengths of the tokens")
def bits_per_number_of_the_token(losses, targets, lengths):
    real = targets != -1
    return losses[real].sum() / np.log(2) / np.where(real, targets, 0).sum()


@wrong("bits_per_byte", says="it changes with the losses of the padding, which mean nothing")
def bits_up_to_the_longest_document(losses, targets, lengths):
    end = (targets != -1).sum(axis=1).max()
    return losses[:, :end].sum() / np.log(2) / lengths[targets[:, :end]].sum()


@wrong("score_endings", says="all rows in which a token costs more than 745 nats, and no others")
def endings_with_a_probability_of_zero(logits, tokens, mask):
    z = logits.astype(np.float64)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = np.take_along_axis(e / e.sum(axis=-1, keepdims=True), np.roll(tokens, -1, axis=1)[..., None], axis=-1)[..., 0]
    with np.errstate(divide="ignore"):
        costs = np.where(mask[:, 1:] == 1, -np.log(p[:, :-1]), 0)
    return costs.sum(axis=1), costs.sum(axis=1) / mask.sum(axis=1)


@wrong("plan_run", says="d is the one with the HIGHEST predicted loss")
def plan_of_the_highest_loss(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = max(range(1, 201), key=lambda d: predicted_loss(weights(d), flops / _cost(d)))
    return d, flops / _cost(d)


@wrong("plan_run", says="the least loss of its layers' matrices alone")
def plan_by_the_loss_without_embeddings(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(1, 201), key=lambda d: predicted_loss(12 * d * (64 * d) ** 2, flops / _cost(d)))
    return d, flops / _cost(d)


@wrong("plan_run", says="All 25 plans that were tried have a multiple of 524,288 tokens: here the money buys")
def plan_in_whole_batches(dollars, price, speed):
    seconds = 3600 * dollars / price
    batch = 512 * T  # tokens of one step
    best_loss = float("inf")
    for d in range(1, 201):
        steps = int(seconds * speed / (6 * weights(d) + 6 * d * 64 * d * T) / batch)
        loss = predicted_loss(weights(d), steps * batch) if steps else best_loss
        if loss < best_loss:
            best_loss, best = loss, (d, steps * batch)
    return best


@wrong("plan_run", says="For other sums, too, it is as if a token took 6·N + 18·L·C·T operations")
def plan_with_attention_three_times(dollars, price, speed):
    def tokens(d):
        return dollars / price * 3600 * speed / (6 * weights(d) + 18 * d * 64 * d * T)

    d = min(range(1, 201), key=lambda d: predicted_loss(weights(d), tokens(d)))
    return d, tokens(d)


@wrong(
    "plan_run", says="It is as if a token took 8·N + 8·L·C·T operations, and not 6·N + 6·L·C·T, or as if an hour had"
)
def plan_with_eight_operations_a_weight(dollars, price, speed):
    return _plan(dollars, price, speed, lambda d: 8 * weights(d) + 8 * d * 64 * d * T)


@wrong("plan_run", says="d is the one nearest to 20 tokens for each weight")
def plan_nearest_to_twenty(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(1, 201), key=lambda d: abs(flops / _cost(d) / weights(d) - 20))
    return d, flops / _cost(d)


@wrong("bits_per_byte", says="each loss is taken for that of the next target: losses[:, t] is that of targets[:, t]")
def bits_of_the_next_target(losses, targets, lengths):
    losses, targets = losses[:, :-1], targets[:, 1:]
    real = targets >= 0
    return losses[real].sum() / np.log(2) / lengths[targets[real]].sum()


@wrong("bits_per_byte", says="each loss is taken for that of the target before: losses[:, t] is that of targets[:, t]")
def bits_of_the_target_before(losses, targets, lengths):
    losses, targets = losses[:, 1:], targets[:, :-1]
    real = targets >= 0
    return losses[real].sum() / np.log(2) / lengths[targets[real]].sum()


@wrong("bootstrap_interval", says="each size's mean over the seeds that all sizes drew")
def interval_over_the_seeds_of_all_sizes(losses, draws, statistic):
    values = [statistic(losses[:, draw].mean(axis=(1, 2))) for draw in draws]
    return tuple(np.percentile(values, [2.5, 97.5]))


@wrong("fit_law", says="the fit with the plain mean of x in weighted sums")
def law_about_a_plain_mean(sizes, losses, errors, exponents):
    w = 1 / errors**2
    results = []
    for a in exponents:
        x = (sizes / sizes[0]) ** -a
        middle_x, middle_y = np.mean(x), np.average(losses, weights=w)
        slope = (w * (x - middle_x) * (losses - middle_y)).sum() / (w * (x - middle_x) ** 2).sum()
        level = middle_y - slope * middle_x
        badness = (w * (level + slope * x - losses) ** 2).sum()
        results.append((badness, level, slope * sizes[0] ** a, a))
    return min(results)[1:]


@wrong("fit_law", says="with `np.inf` in place of `1.0`")
def law_that_begins_with_too_small_a_least(sizes, losses, errors, exponents):
    answer = None
    least = 1.0
    for a in exponents:
        powers = (sizes / sizes[0]) ** -a
        M = np.vstack([1 / errors, powers / errors]).T
        E, A = np.linalg.lstsq(M, losses / errors, rcond=None)[0]
        badness = np.sum(((E + A * powers - losses) / errors) ** 2)
        if badness < least:
            least = badness
            answer = (E, A * sizes[0] ** a, a)
    return answer


@wrong("fit_law", says="a column of ones that was not divided by the errors")
def law_of_ones_that_are_not_divided(sizes, losses, errors, exponents):
    results = []
    for a in exponents:
        x = (sizes / sizes[0]) ** -a / errors
        y = losses / errors
        columns = np.column_stack([np.ones(len(x)), x])
        E, A = np.linalg.lstsq(columns, y, rcond=None)[0]
        badness = np.square(columns @ np.array([E, A]) - y).sum()
        results.append((badness, E, A * sizes[0] ** a, a))
    _, E, A, a = min(results)
    return E, A, a


@wrong("bootstrap_interval", says="two of the draws, 5% from either end: leave out 2.5%")
def interval_of_two_draws_of_the_middle_90(losses, draws, statistic):
    values = sorted(statistic(np.take_along_axis(losses, d, axis=1).mean(axis=1)) for d in draws)
    R = len(values)
    return values[int(0.05 * R)], values[int(0.95 * R)]


@wrong("plan_run", says="from one dollar to five million d is the one behind the best")
def plan_up_to_the_first_rise(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d, last = 1, np.inf
    while True:
        tokens = flops / (6 * weights(d) + 6 * d * (64 * d) * T)
        loss = predicted_loss(weights(d), tokens)
        if loss > last:
            return d, tokens
        d, last = d + 1, loss


@wrong("bootstrap_interval", says="the percentiles of the statistic of single runs: average the runs of a draw first")
def interval_of_single_runs(losses, draws, statistic):
    values = []
    for draw in draws:
        taken = np.take_along_axis(losses, draw, axis=1)
        for s in range(taken.shape[1]):
            values.append(statistic(taken[:, s]))
    low, high = np.percentile(values, [2.5, 97.5])
    return low, high
