"""Answers to the exercises of lesson 24 as strangers write them, with words that wrong ones must get."""

import math

import numpy as np

from llmc.course.authoring.answers import right, wrong


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
def bits_with_bincount(losses, targets, lengths):
    counts = np.bincount(targets[targets >= 0], minlength=len(lengths))
    return np.log2(np.exp(losses[targets >= 0].astype(np.float64))).sum() / (counts @ lengths)


@wrong("bits_per_byte", says="without the documents that have no padding")
def bits_up_to_the_padding(losses, targets, lengths):
    nats, size = 0.0, 0
    for loss, target in zip(losses, targets):
        end = (target == -1).argmax()
        nats += loss[:end].sum()
        size += lengths[target[:end]].sum()
    return nats / np.log(2) / size


@wrong("bits_per_byte", says="weighted by their tokens: add up costs and bytes")
def bits_as_a_weighted_mean(losses, targets, lengths):
    rows, weights = [], []
    for loss, target in zip(losses, targets):
        real = target >= 0
        rows.append(loss[real].sum() / np.log(2) / lengths[target[real]].sum())
        weights.append(real.sum())
    return np.average(rows, weights=weights)


@wrong("bits_per_byte", says="without `losses, targets = (losses[:, :-1], targets[:, 1:])`")
def bits_of_the_next_target(losses, targets, lengths):
    losses, targets = losses[:, :-1], targets[:, 1:]
    real = targets >= 0
    return losses[real].sum() / np.log(2) / lengths[targets[real]].sum()


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
def endings_with_fancy_indices(logits, tokens, mask):
    rows, at = np.nonzero(mask)
    z = logits[rows, at - 1].astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    cost = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), tokens[rows, at]]
    sums = np.bincount(rows, cost, minlength=len(tokens))
    return [sums, sums / np.bincount(rows, minlength=len(tokens))]


@wrong("score_endings", says="with the padding, too: the mask is 0 there")
def endings_with_the_padding_behind(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]
    begun = np.maximum.accumulate(mask[:, 1:], axis=1)
    return (costs * begun).sum(axis=1), (costs * begun).sum(axis=1) / mask.sum(axis=1)


@wrong("score_endings", says="subtract of each position its own largest logit")
def endings_below_the_largest_of_all(logits, tokens, mask):
    z = logits[:, :-1] - logits.max()
    logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    costs = -np.take_along_axis(logp, tokens[:, 1:, None], axis=-1)[..., 0]
    sums = np.where(mask[:, 1:] == 1, costs, 0).sum(axis=1)
    return sums, sums / mask.sum(axis=1)


@wrong("score_endings", says="with `mask` in place of `tokens * mask`")
def endings_of_tokens_that_are_not_0(logits, tokens, mask):
    z = logits[:, :-1] - logits[:, :-1].max(axis=-1, keepdims=True)
    costs = np.log(np.exp(z).sum(axis=-1)) - np.take_along_axis(z, tokens[:, 1:, None], axis=-1)[..., 0]
    sums = np.einsum("rt,rt->r", costs, mask[:, 1:])
    return sums, sums / np.maximum(np.count_nonzero(tokens * mask, axis=1), 1)


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


@wrong("fit_law", says="divided by its error twice, and the exponent chosen")
def errors_squared_in_the_fit_alone(sizes, losses, errors, exponents):
    best = np.inf
    for a in exponents:
        X = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1)
        E, A = np.linalg.lstsq(X / errors[:, None] ** 2, losses / errors**2, rcond=None)[0]
        bad = (((X @ [E, A] - losses) / errors) ** 2).sum()
        if bad < best:
            best, out = bad, (E, A * sizes[0] ** a, a)
    return out


@wrong("fit_law", says="with `continue` in place of `break`")
def law_that_stops_at_the_first_rise(sizes, losses, errors, exponents):
    best = None
    for a in exponents:
        x = np.stack([1 / errors, (sizes / sizes[0]) ** -a / errors], axis=1)
        (E, A), *_ = np.linalg.lstsq(x, losses / errors, rcond=None)
        off = x @ [E, A] - losses / errors
        if best is not None and off @ off > best[0]:
            break
        best = off @ off, E, A * sizes[0] ** a, a
    return best[1:]


@wrong("fit_law", says="`exponents[:]` in place of `exponents[:-1]`")
def all_exponents_but_the_last(sizes, losses, errors, exponents):
    best = np.inf
    for a in exponents[:-1]:
        X = np.stack([np.ones(len(sizes)), (sizes / sizes[0]) ** -a], axis=1) / errors[:, None]
        E, A = np.linalg.lstsq(X, losses / errors, rcond=None)[0]
        bad = ((X @ [E, A] - losses / errors) ** 2).sum()
        if bad < best:
            best, out = bad, (E, A * sizes[0] ** a, a)
    return out


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


@wrong("bootstrap_interval", says="one of the draws, 5% from the end")
def interval_of_two_draws_of_the_middle_90(losses, draws, statistic):
    values = sorted(statistic(np.take_along_axis(losses, d, axis=1).mean(axis=1)) for d in draws)
    R = len(values)
    return values[int(0.05 * R)], values[int(0.95 * R)]


@wrong("bootstrap_interval", says="the mean of the statistic of single runs")
def bootstrap_mean_of_single_runs(losses, draws, statistic):
    values = []
    for draw in draws:
        taken = np.take_along_axis(losses, draw, axis=1)
        values.append(np.mean([statistic(taken[:, s]) for s in range(taken.shape[1])]))
    return np.percentile(values, 2.5), np.percentile(values, 97.5)


@wrong("bootstrap_interval", says="with the seeds that all sizes drew")
def interval_over_the_seeds_of_all_sizes(losses, draws, statistic):
    values = [statistic(losses[:, draw].mean(axis=(1, 2))) for draw in draws]
    return tuple(np.percentile(values, [2.5, 97.5]))


T = 1024


def weights(d):
    """As the exercise notebook gives it."""
    return 12 * d * (64 * d) ** 2 + 13 * d * 64 * d + (50304 + T) * 64 * d + 2 * 64 * d


def predicted_loss(N, D):
    """As the exercise notebook gives it."""
    return 1.8172 + 482.01 / N**0.3478 + 2085.43 / D**0.3658


def _cost(d):
    return 6 * weights(d) + 6 * d * 64 * d * T


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


@wrong("plan_run", says="tokens equal those for d + 1: return both of one model")
def plan_with_an_index(dollars, price, speed):
    d = np.arange(1, 201)
    tokens = dollars / price * 3600 * speed / _cost(d)
    best = np.argmin(predicted_loss(weights(d), tokens))
    return int(best), float(tokens[best])


@wrong("plan_run", says="the model with d = 18 is too large")
def plan_up_to_the_first_rise(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d, last = 1, np.inf
    while True:
        tokens = flops / (6 * weights(d) + 6 * d * (64 * d) * T)
        loss = predicted_loss(weights(d), tokens)
        if loss > last:
            return d, tokens
        d, last = d + 1, loss


@wrong("plan_run", says="the model with d = 48 is too small")
def plan_of_at_most_48_layers(dollars, price, speed):
    flops = dollars / price * 3600 * speed
    d = min(range(1, 49), key=lambda d: predicted_loss(weights(d), flops / _cost(d)))
    return d, flops / _cost(d)
