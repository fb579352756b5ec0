"""Answers to the exercises of lesson 05 as strangers write them, with words that wrong ones must get."""

import math
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from llmc.course.authoring.answers import right, wrong


@right("softmax")
def softmax_with_loops(z):
    p = np.empty_like(z)
    for index in np.ndindex(z.shape[:-1]):
        m = max(float(value) for value in z[index])
        e = [math.exp(float(value) - m) for value in z[index]]
        p[index] = [value / sum(e) for value in e]
    return p


@right("softmax")
def softmax_through_logsumexp(z):
    lse = np.logaddexp.reduce(z, axis=-1, keepdims=True)
    return np.exp(z - lse)


@wrong("softmax", says="a small number is added to exp(z) or to its sum")
def softmax_with_a_tiny_eps_below(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / (e.sum(axis=-1, keepdims=True) + 1e-12)


@wrong("softmax", says="p is above 0 where z is -inf")
def softmax_of_logits_from_a_billion_below(z):
    shifted = np.clip(z, -1e9, None)
    shifted = shifted - shifted.max(-1)[..., None]
    return np.exp(shifted) / np.exp(shifted).sum(-1)[..., None]


@wrong("softmax", says="with `total = e.sum()` in place of `total += e.sum()`")
def softmax_never_starts_its_sum_again(z):
    rows = z.reshape(-1, z.shape[-1])
    p, total = np.empty_like(rows), 0
    for i, row in enumerate(rows):
        e = np.exp(row - row.max())
        total += e.sum()
        p[i] = e / total
    return p.reshape(z.shape)


@right("cross_entropy_forward")
def loss_with_loops(logits, targets):
    B, T, V = logits.shape
    losses, lse = np.zeros((B, T), logits.dtype), np.zeros((B, T), logits.dtype)
    for b in range(B):
        for t in range(T):
            row = [float(value) for value in logits[b, t]]
            lse[b, t] = max(row) + math.log(sum(math.exp(value - max(row)) for value in row))
            losses[b, t] = lse[b, t] - row[targets[b, t]]
    return losses, lse


@right("cross_entropy_forward")
def loss_with_flat_rows(logits, targets):
    B, T, V = logits.shape
    z = logits.reshape(B * T, V)
    m = np.max(z, axis=1)
    lse = np.log(np.sum(np.exp(z - m[:, None]), axis=1)) + m
    return (lse - z[np.arange(B * T), targets.reshape(-1)]).reshape(B, T), lse.reshape(B, T)


def _lse(z):
    """Log-sum-exp as it should be: these answers go wrong elsewhere."""
    m = z.max(axis=-1)
    return m + np.log(np.exp(z - m[..., None]).sum(axis=-1))


@wrong("cross_entropy_forward", says="or keeps it above 0")
def loss_of_a_clipped_p(logits, targets):
    p = np.exp(logits - _lse(logits)[..., None])
    return -np.log(np.maximum(np.take_along_axis(p, targets[..., None], -1)[..., 0], 1e-12)), _lse(logits)


@wrong("cross_entropy_forward", says="the reference with a sum of exp(z - the largest so far)")
def cross_entropy_with_a_sum_of_several_maxima(logits, targets):
    lse, at = np.empty_like(logits[..., 0]), np.empty_like(logits[..., 0])
    for place, target in np.ndenumerate(targets):
        most, total = logits[place][0], logits.dtype.type(1)
        for z in logits[place][1:]:
            most = max(most, z)
            total = total + np.exp(z - most)
        lse[place], at[place] = most + np.log(total), logits[place][target]
    return lse - at, lse


@wrong("cross_entropy_forward", says="where the model is sure and right, the loss is 0")
def loss_never_below_a_thousandth(logits, targets):
    peak = logits.max(axis=-1)
    total = peak + np.log(np.exp(logits - peak[..., None]).sum(axis=-1))
    z_target = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return np.maximum(total - z_target, 1e-3).astype(logits.dtype), total


@right("fresh_loss")
def fresh_with_math(V, C, std=0.02):
    variance = sum(std * std for _ in range(C))
    return math.log(V) + variance / 2


@right("fresh_loss")
def fresh_as_minus_log_p(V, C, std=0.02):
    s = std * C**0.5
    return -np.log(1 / V) + 0.5 * s**2


@wrong("fresh_loss", says="where `std` is not given, it should be 0.02")
def fresh_loss_other_default(V, C, std=0.2):
    return np.log(V) + 0.5 * C * np.square(std)


@wrong("fresh_loss", says="with `C / 2` in place of `C // 2`")
def fresh_with_half_of_the_channels(V, C, std=0.02):
    return np.log(V) + (C // 2) * std**2


@wrong("fresh_loss", says="with `V * np.exp(s2 / 2)` in place of `V + np.exp(s2 / 2)`")
def fresh_adds_the_mean_power_once(V, C, std=0.02):
    # the mean of exp(z) for a normal z with variance s² is exp(s²/2)
    s2 = C * std**2
    return np.log(V + np.exp(s2 / 2))


@right("softmax_backward")
def backward_with_loops(dp, p):
    dz = np.zeros_like(p)
    for index in np.ndindex(p.shape[:-1]):
        s = sum(float(a) * float(b) for a, b in zip(dp[index], p[index]))
        dz[index] = [float(b) * (float(a) - s) for a, b in zip(dp[index], p[index])]
    return dz


@right("softmax_backward")
def backward_with_einsum(dp, p):
    return p * dp - p * np.einsum("...i,...i->...", dp, p)[..., None]


@wrong("softmax_backward", says="with `dp.sum` in place of `(dp * p).sum`")
def backward_with_two_letters(dp, p):
    return p * dp - p * np.einsum("...k,...n->...", dp, p)[..., None]


@wrong("softmax_backward", says="MB for two rows: the Jacobian need not be built")
def backward_with_the_jacobian(dp, p):
    jacobian = p[..., None] * np.eye(p.shape[-1], dtype=p.dtype) - p[..., None] * p[..., None, :]
    return (dp[..., None, :] @ jacobian)[..., 0, :]


_tables = {}


@wrong("softmax_backward", says="MB in `_tables` from one call to the next")
def backward_keeps_the_jacobian(dp, p):
    n = p.shape[-1]
    if n not in _tables:
        _tables[n] = np.empty((n, n), p.dtype)
    J, dz = _tables[n], np.empty_like(p)
    for row, above, out in zip(p.reshape(-1, n), dp.reshape(-1, n), dz.reshape(-1, n)):
        np.multiply(-row[:, None], row, out=J)
        J[np.arange(n), np.arange(n)] += row
        np.matmul(J, above, out=out)
    return dz


@right("fused_classifier")
def fused_with_loops(losses, logits, targets, dloss, V):
    B, T, Vp = logits.shape
    for b in range(B):
        for t in range(T):
            row = logits[b, t].copy()
            m = row[:V].max()
            total = np.exp(row[:V] - m).sum()
            losses[b, t] = m + np.log(total) - row[targets[b, t]]
            if dloss is not None:
                for v in range(Vp):
                    p = np.exp(row[v] - m) / total if v < V else 0.0
                    logits[b, t, v] = dloss * (p - (v == targets[b, t]))


def _classify(losses, logits, targets, dloss, V):
    z = logits[..., :V] - logits[..., :V].max(axis=-1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=-1, keepdims=True)
    losses[...] = (np.log(total) - np.take_along_axis(z, targets[..., None], axis=-1))[..., 0]
    if dloss is not None:
        logits[..., :V] = (e / total - (np.arange(V) == targets[..., None])) * dloss
        logits[..., V:] = 0


@right("fused_classifier")
def fused_by_a_helper(losses, logits, targets, dloss, V):
    _classify(losses, logits, targets, dloss, V)


@wrong("fused_classifier", says="logits were never written")
def fused_takes_0_for_none(losses, logits, targets, dloss, V):
    _classify(losses, logits, targets, dloss or None, V)


@wrong("fused_classifier", says="the padding, must be 0 afterwards: index 10 is wrong")
def fused_leaves_a_column_of_padding(losses, logits, targets, dloss, V):
    B, T, Vp = logits.shape
    for b in range(B):
        for t in range(T):
            row = logits[b, t]
            m = max(row[:V])
            exps = [np.exp(row[i] - m) for i in range(V)]
            total = sum(exps)
            losses[b, t] = m + np.log(total) - row[targets[b, t]]
            if dloss is None:
                continue
            for i in range(V):
                row[i] = dloss * (exps[i] / total - (i == targets[b, t]))
            for i in range(V, Vp - 1):
                row[i] = 0.0


@wrong("fused_classifier", says="with n = 0, `[..., -n:]` is all of an array")
def classifier_that_clears_from_the_end(losses, logits, targets, dloss, V):
    padding = logits.shape[-1] - V
    real = logits[..., :V]
    y = np.eye(V)[targets]
    shifted = real - real.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    losses[...] = -(log_p * y).sum(axis=-1)
    if dloss is not None:
        real[...] = (np.exp(log_p) - y) * dloss
        logits[..., -padding:] = 0


@right("fast_classifier")
def fast_in_place(losses, logits, targets, dloss, V):
    z, at = logits[..., :V], targets[..., None]
    z -= z.max(-1, keepdims=True)
    z_target = np.take_along_axis(z, at, -1)[..., 0]
    np.exp(z, out=z)
    total = z.sum(-1)
    losses[...] = np.log(total) - z_target
    z *= (dloss / total)[..., None]
    np.put_along_axis(z, at, np.take_along_axis(z, at, -1) - dloss, -1)
    logits[..., V:] = 0


@right("fast_classifier")
def fast_in_two_threads(losses, logits, targets, dloss, V):
    rows, flat, tokens = logits.reshape(-1, logits.shape[-1]), losses.reshape(-1), targets.reshape(-1)

    def work(numbers):
        for n in numbers:
            z = rows[n, :V]
            z -= z.max()
            z_target = z[tokens[n]]
            np.exp(z, out=z)
            total = z.sum()
            flat[n] = np.log(total) - z_target
            z *= dloss / total
            z[tokens[n]] -= dloss
            rows[n, V:] = 0

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, np.array_split(np.arange(len(rows)), 2)))


@wrong("fast_classifier", says="the goal is at least 1.5 times as fast")
def fast_in_a_loop_over_the_tokens(losses, logits, targets, dloss, V):
    z, top = logits[..., :V], logits[..., :V].max(axis=-1)
    total = np.zeros_like(top)
    for v in range(V):
        total += np.exp(z[..., v] - top)
    losses[...] = top + np.log(total) - np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]
    for v in range(V):
        z[..., v] = np.exp(z[..., v] - top) / total * dloss - dloss * (targets == v)
    logits[..., V:] = 0


@wrong("fast_classifier", says="part of losses is as it was before the call: 1 of 15 entries")
def fast_in_two_halves(losses, logits, targets, dloss, V):
    rows = logits.reshape(-1, logits.shape[-1])
    flat_losses, flat_targets = losses.reshape(-1), targets.reshape(-1)
    share = len(rows) // 2

    def work(thread):
        for n in range(thread * share, (thread + 1) * share):
            z = rows[n, :V]
            z -= z.max()
            correct = z[flat_targets[n]]
            np.exp(z, out=z)
            total = z.sum()
            flat_losses[n] = np.log(total) - correct
            z *= dloss / total
            z[flat_targets[n]] -= dloss
            rows[n, V:] = 0

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))


@numba.njit
def _classify_row(z, target, dloss):
    top = z.max()
    total = np.float32(1)
    for value in z:
        total += np.exp(value - top)
    loss = np.log(total) + top - z[target]
    for i in range(z.size):
        z[i] = dloss * (np.exp(z[i] - top) / total - (i == target))
    return loss


@wrong("fast_classifier", says="with `np.log1p(total)` in place of `np.log(total)`")
def fast_with_a_sum_that_starts_at_one(losses, logits, targets, dloss, V):
    for b, t in np.ndindex(losses.shape):
        losses[b, t] = _classify_row(logits[b, t, :V], targets[b, t], np.float32(dloss))
    logits[..., V:] = 0
