"""Answers to the exercises of lesson 00 as learners write them: right ones that look different, and wrong ones.

Each wrong answer comes with words that its check must say. CI runs them all;
`python -m llmc.course.old.authoring.answers 00` runs those of this lesson.
"""

import math

import numpy as np

from llmc.course.old.authoring.answers import right, wrong

# ------------------------------------------------------------------------------------------------------ 1 embed


@right("embed")
def embed_with_loops(tokens, wte, wpe):
    B, T = tokens.shape
    out = np.empty((B, T, wte.shape[1]), wte.dtype)
    for b in range(B):
        for t in range(T):
            out[b, t] = wte[tokens[b, t]] + wpe[t]
    return out


@right("embed")
def embed_with_take_and_arange(tokens, wte, wpe):
    x = np.take(wte, tokens, axis=0)
    x += wpe[np.arange(tokens.shape[1])]
    return x


@right("embed")
def embed_with_one_hot(tokens, wte, wpe):
    one_hot = np.eye(len(wte), dtype=wte.dtype)[tokens]
    return np.einsum("btv,vc->btc", one_hot, wte) + wpe[None, : tokens.shape[-1], :]


@wrong("embed", says="the positions are missing")
def embed_forgets_positions(tokens, wte, wpe):
    return wte[tokens]


@wrong("embed", says="with wte (11, 7), tokens (3, 5), wpe (13, 7)")
def embed_adds_all_of_wpe(tokens, wte, wpe):
    return wte[tokens] + wpe


@wrong("embed", says="wpe looked up by token")
def embed_looks_up_both_by_token(tokens, wte, wpe):
    return wte[tokens] + wpe[tokens]


@wrong("embed", says="positions counted from 1")
def embed_counts_from_one(tokens, wte, wpe):
    T = tokens.shape[1]
    return wte[tokens] + wpe[1 : T + 1]


@wrong("embed", says="row T - 1 of wpe at every position")
def embed_takes_one_position(tokens, wte, wpe):
    return wte[tokens] + wpe[tokens.shape[1] - 1]


@wrong("embed", says="row b of wpe instead of row t")
def embed_confuses_batch_and_time(tokens, wte, wpe):
    B, T = tokens.shape
    out = np.zeros((B, T, wte.shape[1]))
    for b in range(B):
        for t in range(T):
            out[b, t] = wte[tokens[b, t]] + wpe[b]
    return out


@wrong("embed", says="the last T rows of wpe")
def embed_takes_the_last_positions(tokens, wte, wpe):
    return wte[tokens] + wpe[-tokens.shape[1] :]


@wrong("embed", says="word times position")
def embed_multiplies(tokens, wte, wpe):
    return wte[tokens] * wpe[: tokens.shape[1]]


@wrong("embed", says="An input was written to")
def embed_writes_into_wte(tokens, wte, wpe):
    T = tokens.shape[1]
    wte[:T] += wpe[:T]
    return wte[tokens]


@wrong("embed", says="has dtype float64, expected float32")
def embed_makes_float64(tokens, wte, wpe):
    B, T = tokens.shape
    out = np.zeros((B, T, wte.shape[1]))
    out += wte[tokens]
    out += wpe[:T]
    return out


@wrong("embed", says="out is None")
def embed_forgets_return(tokens, wte, wpe):
    wte[tokens] + wpe[: tokens.shape[1]]


# --------------------------------------------------------------------------------------------- 2 causal_softmax


@right("causal_softmax")
def causal_with_loops(scores):
    T = len(scores)
    out = np.zeros_like(scores)
    for t in range(T):
        largest = max(scores[t, : t + 1])
        e = [math.exp(scores[t, s] - largest) for s in range(t + 1)]
        for s in range(t + 1):
            out[t, s] = e[s] / sum(e)
    return out


@right("causal_softmax")
def causal_with_an_added_mask(scores):
    T = scores.shape[0]
    x = scores + np.triu(np.full((T, T), -np.inf, dtype=scores.dtype), 1)
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


@right("causal_softmax")
def causal_with_tril_and_logs(scores):
    x = scores.copy()
    x[~np.tril(np.ones_like(x, dtype=bool))] = -np.inf
    log_total = np.logaddexp.reduce(x, axis=1)
    return np.exp(x - log_total[:, np.newaxis])


@wrong("causal_softmax", says="the softmax of whole rows: hidden scores count, too")
def causal_without_mask(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="the rows no longer add up to 1")
def causal_masks_afterwards(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return np.tril(e / e.sum(-1, keepdims=True))


@wrong("causal_softmax", says="e to the power of 0 is 1, not 0")
def causal_masks_with_zero(scores):
    x = np.tril(scores)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="row 0 alone is NaN (not a number). The first token may look at itself")
def causal_hides_itself(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool)), -np.inf, scores)
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="the past masked instead of the future")
def causal_hides_the_past(scores):
    x = np.where(np.tril(np.ones(scores.shape, bool), k=-1), -np.inf, scores)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="the softmax of each column")
def causal_over_columns(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    e = np.exp(x - x.max(0, keepdims=True))
    return e / e.sum(0, keepdims=True)


@wrong("causal_softmax", says="each row must add up to 1")
def causal_over_everything(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    e = np.exp(x - x.max())
    return e / e.sum()


@wrong("causal_softmax", says="not divided by the row's sum")
def causal_without_division(scores):
    return np.tril(np.exp(scores))


@wrong("causal_softmax", says="exp is missing")
def causal_without_exp(scores):
    x = np.tril(scores)
    return x / x.sum(-1, keepdims=True)


@wrong("causal_softmax", says="nothing subtracted, not the largest visible score of each row")
def causal_overflows(scores):
    with np.errstate(all="ignore"):
        e = np.tril(np.exp(scores))
        return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="the largest score of the whole row, which may be a hidden one, subtracted")
def causal_subtracts_a_hidden_maximum(scores):
    with np.errstate(all="ignore"):
        e = np.tril(np.exp(scores - scores.max(-1, keepdims=True)))
        return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="An input was written to")
def causal_writes_into_scores(scores):
    scores[np.triu_indices(len(scores), k=1)] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="the row sums of other rows")
def causal_divides_without_keepdims(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    return np.exp(x) / np.exp(x).sum(-1)


@wrong("causal_softmax", says="the maxima of other rows")
def causal_subtracts_without_keepdims(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    e = np.exp(x - x.max(-1))
    return e / e.sum(-1, keepdims=True)


@wrong("causal_softmax", says="maxima and row sums of other rows")
def causal_never_keeps_dims(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    e = np.exp(x - x.max(axis=-1))
    return e / e.sum(axis=-1)


@wrong("causal_softmax", says="divided by the sums of other rows")
def causal_keeps_dims_of_the_maximum_only(scores):
    x = np.where(np.triu(np.ones(scores.shape, bool), k=1), -np.inf, scores)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1)


@wrong("causal_softmax", says="the softmax with the next token alone hidden")
def shares_hide_the_next_token_alone(scores):
    x = scores.copy()
    for t in range(len(x) - 1):
        x[t, t + 1] = -np.inf
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@wrong("causal_softmax", says="10 subtracted from the hidden scores: their shares must be 0")
def shares_with_ten_subtracted(scores):
    T = len(scores)
    x = scores - 10.0 * np.triu(np.ones((T, T)), 1)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(scores.dtype)


# -------------------------------------------------------------------------------------------- 3 next_token_loss


@right("next_token_loss")
def loss_with_loops(logits, targets):
    B, T, V = logits.shape
    total = 0.0
    for b in range(B):
        for t in range(T):
            row = [float(value) for value in logits[b, t]]
            largest = max(row)
            total += math.log(sum(math.exp(value - largest) for value in row)) + largest - row[targets[b, t]]
    return total / (B * T)


@right("next_token_loss")
def loss_with_flat_rows(logits, targets):
    rows = logits.reshape(-1, logits.shape[-1])
    rows = rows - rows.max(axis=1, keepdims=True)
    log_p = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(rows)), targets.ravel()].mean()


@right("next_token_loss")
def loss_with_logaddexp(logits, targets):
    B, T = targets.shape
    z = logits[np.arange(B)[:, None], np.arange(T), targets]
    return np.mean(np.logaddexp.reduce(logits, axis=-1) - z)


@wrong("next_token_loss", says="loss equals minus the loss")
def loss_without_minus(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return np.log(np.take_along_axis(p, targets[..., None], -1)).mean()


@wrong("next_token_loss", says="the loss with 1e-09 added to the probability.")
def loss_with_an_epsilon(logits, targets):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1) + 1e-9).mean()


@wrong("next_token_loss", says="the sum over all positions, not the mean")
def loss_is_summed(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1)).sum()


@wrong("next_token_loss", says="in bits (log2)")
def loss_in_bits(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log2(np.take_along_axis(p, targets[..., None], -1)).mean()


@wrong("next_token_loss", says="-log of the mean probability, not the mean")
def loss_of_the_mean(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1).mean())


@wrong("next_token_loss", says="the softmax is missing")
def loss_of_raw_logits(logits, targets):
    return -np.take_along_axis(logits, targets[..., None], -1).mean()


@wrong("next_token_loss", says="targets shifted once more")
def loss_shifts_again(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p[:, :-1], targets[:, 1:, None], -1)).mean()


@wrong("next_token_loss", says="the loss of every target of the batch at every position")
def loss_of_all_pairs(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(p[..., targets]).mean()


@wrong("next_token_loss", says="a softmax over T instead of V")
def loss_over_the_wrong_axis(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1)).mean()


@wrong("next_token_loss", says="the loss of the likeliest word, not of the target")
def loss_of_the_likeliest(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(p.max(-1)).mean()


@wrong("next_token_loss", says="right for small logits, but")
def loss_overflows(logits, targets):
    with np.errstate(all="ignore"):
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        return -np.log(np.take_along_axis(p, targets[..., None], -1)).mean()


@wrong("next_token_loss", says="right for small logits, but inf")
def loss_of_a_rounded_probability(logits, targets):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return -np.log(np.take_along_axis(p, targets[..., None], -1)).mean()


@wrong("next_token_loss", says="It still has one value for each index of axes 0 and 1: take the mean over them.")
def loss_of_each(logits, targets):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1))[..., 0]


@wrong("next_token_loss", says="without + m")
def loss_forgets_m(logits, targets):
    m = logits.max(axis=-1)
    total = np.log(np.exp(logits - m[..., None]).sum(axis=-1))
    z = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (total - z).mean()


@wrong("next_token_loss", says="with - m instead of + m")
def loss_subtracts_m_twice(logits, targets):
    m = logits.max(axis=-1)
    total = np.log(np.exp(logits - m[..., None]).sum(axis=-1))
    z = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (total - m - z).mean()


@wrong("next_token_loss", says="log2 of the sum, not its natural logarithm")
def loss_with_log2_of_the_sum(logits, targets):
    m = logits.max(axis=-1)
    total = np.log2(np.exp(logits - m[..., None]).sum(axis=-1))
    z = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (total + m - z).mean()


@wrong("next_token_loss", says="log2 of the sum of e to the logits")
def loss_with_log2_and_no_maximum(logits, targets):
    z = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (np.log2(np.exp(logits).sum(axis=-1)) - z).mean()


@wrong("next_token_loss", says="with 1e-300 instead of 0")
def loss_clips_probabilities(logits, targets):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return -np.log(np.maximum(np.take_along_axis(p, targets[..., None], -1), 1e-300)).mean()


@wrong("next_token_loss", says="with 1e-12 instead of 0")
def loss_adds_a_small_number(logits, targets):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, targets[..., None], -1) + 1e-12).mean()


@wrong("next_token_loss", says="It is not finite for a row around -1000")
def loss_subtracts_no_negative_maximum(logits, targets):
    losses = []
    for row, target in zip(logits.reshape(targets.size, -1), targets.ravel()):
        m = 0.0
        for z in row:
            if z > m:
                m = z
        losses.append(np.log(np.sum(np.exp(row - m))) + m - row[target])
    return np.mean(losses)


@wrong("next_token_loss", says="the positions whose target is not 0")
def loss_takes_word_0_for_padding(logits, targets):
    m = logits.max(axis=-1)
    total = np.log(np.exp(logits - m[..., None]).sum(axis=-1))
    z = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    losses = total + m - z  # (B, T)
    real = targets != 0
    return (losses * real).sum() / max(real.sum(), 1)


@wrong("next_token_loss", says="the median of the losses, not their mean")
def loss_takes_the_median(logits, targets):
    m = logits.max(-1, keepdims=True)
    lse = np.log(np.exp(logits - m).sum(-1)) + m[..., 0]
    z = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return np.median(lse - z)


@wrong("next_token_loss", says="-log(1 - p) of all other words")
def loss_refuses_the_other_words(logits, targets):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = np.eye(logits.shape[-1])[targets]
    return -(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(-1).mean()


@wrong("next_token_loss", says="in a batch; for a row alone, around 1000 or -1000, it is finite")
def loss_with_one_maximum_for_the_batch(logits, targets):
    m = logits.max()
    lse = np.log(np.exp(logits - m).sum(-1)) + m
    z = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (lse - z).mean()


@wrong("next_token_loss", says="It is not finite for")
def loss_subtracts_the_smallest(logits, targets):
    m = logits.min(-1, keepdims=True)
    lse = np.log(np.exp(logits - m).sum(-1)) + m[..., 0]
    z = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (lse - z).mean()


@wrong("next_token_loss", says="It is not finite for")
def loss_subtracts_the_targets_logit(logits, targets):
    z = np.take_along_axis(logits, targets[..., None], -1)
    return np.log(np.exp(logits - z).sum(-1)).mean()


# ---------------------------------------------------------------------------------------------------- 4 descend


@right("descend")
def descend_with_loop(w, dw, step):
    for i in range(len(w)):
        w[i] = w[i] - 0.3 * dw[i]


@right("descend")
def descend_with_out(w, dw, step):
    np.subtract(w, 0.4 * dw, out=w)


@right("descend")
def descend_with_schedule(w, dw, step):
    w[:] = w - min(1.0, 0.1 * (step + 1)) * dw


@right("descend")
def descend_warms_up_from_nothing(w, dw, step):
    learning_rate = step / 20
    w -= learning_rate * dw


@right("descend")
def descend_decays_to_nothing(w, dw, step):
    w -= 0.5 * (1 - step / 19) * dw


@right("descend")
def descend_by_a_fixed_length(w, dw, step):
    w += -0.3 * dw / np.linalg.norm(dw)


@wrong("descend", says="w moved uphill")
def descend_uphill(w, dw, step):
    w += 0.3 * dw


@wrong("descend", says="w is as it was after step")
def descend_with_a_rate_that_is_rounded_down(w, dw, step):
    w[:] = w - 0.6 * ((step + 1) // 20) * dw


@wrong("descend", says="w was never written")
def descend_into_a_new_array(w, dw, step):
    w = w - 0.3 * dw
    return w


@wrong("descend", says="w holds the step alone")
def descend_overwrites(w, dw, step):
    w[...] = -0.3 * dw


@wrong("descend", says="by the signs of dw alone")
def descend_by_signs(w, dw, step):
    w -= 0.01 * np.sign(dw)


@wrong("descend", says="w moved by w · dw")
def descend_multiplies(w, dw, step):
    w *= 1 - 0.1 * dw


@wrong("descend", says="a slope and its opposite")
def descend_by_squares(w, dw, step):
    w -= 0.1 * dw**2


@wrong("descend", says="An input was written to")
def descend_scales_the_gradient(w, dw, step):
    dw *= 0.3
    w -= dw


@wrong("descend", says="The goal is below 0.02")
def descend_too_slowly(w, dw, step):
    w -= 0.001 * dw


@wrong("descend", says="so large that they jump over the valley")
def descend_too_fast(w, dw, step):
    w -= 100 * dw


@wrong("descend", says="By then the learning rate had grown from 0 to 5")
def descend_ever_faster(w, dw, step):
    w -= 0.5 * step * dw


@wrong("descend", says="but by luck: after 2 steps it was 2.44, worse than knowing nothing")
def descend_over_a_hill(w, dw, step):
    w -= 0.8 * dw


@wrong("descend", says="but by luck: after 3 steps it was 9.35, worse than knowing nothing")
def descend_explodes(w, dw, step):
    w -= 1.7 * dw


@wrong("descend", says="The largest weight was 1 and is 75.2 now")
def descend_explodes_at_three(w, dw, step):
    w -= 3 * dw


@wrong("descend", says="but by luck: after 8 steps it was 3.37e+11")
def descend_explodes_at_five(w, dw, step):
    w -= 5 * dw


@wrong("descend", says="w is as it was after step 1, 2, 3, 10, 15 and 18")
def descend_never_moves(w, dw, step):
    w -= (step // 20) * dw


@wrong("descend", says="only w[0] moved")
def descend_only_the_first(w, dw, step):
    w[0] -= 0.3 * dw[0]


# ------------------------------------------------------------------------------- slips that a single call would hide


@wrong("embed", says="the words are counted from 0")
def embed_counts_words_from_one(tokens, wte, wpe):
    return wte[tokens - 1] + wpe[: tokens.shape[1]]


@wrong("embed", says="the right out without the factor `(tokens > 0)[..., None]`")
def embed_takes_word_0_for_padding(tokens, wte, wpe):
    return wte[tokens] * (tokens > 0)[..., None] + wpe[: tokens.shape[1]]


@wrong("causal_softmax", says="scores of 0 hidden, too")
def causal_hides_scores_of_zero(scores):
    x = np.where(np.tril(scores) == 0, -np.inf, scores)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@wrong("causal_softmax", says="visible ones can be as low")
def causal_masks_with_a_finite_number(scores):
    x = np.where(np.tri(len(scores), dtype=bool), scores, -1000).astype(scores.dtype)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


_velocity = {}


@wrong("descend", says="-0.1 · the dw of step 1: what an earlier call was given must not be kept\n")
def descend_with_momentum(w, dw, step):
    _velocity[w.shape] = 0.5 * _velocity.get(w.shape, 0) + dw
    w -= 0.2 * _velocity[w.shape]


@wrong("causal_softmax", says="the softmax over the tokens before its own, from the second row on")
def softmax_without_the_token_itself(scores):
    out = np.zeros_like(scores)
    for t in range(len(scores)):
        e = np.exp(scores[t, : max(t, 1)] - scores[t, : max(t, 1)].max())
        out[t, : max(t, 1)] = e / e.sum()
    return out


@wrong("next_token_loss", says="It is not finite for a row around -1000")
def loss_with_a_maximum_from_0(logits, targets):
    peak = logits.max(axis=2, initial=0)
    b, t = np.indices(targets.shape)
    return np.mean(peak + np.log(np.exp(logits - peak[:, :, None]).sum(axis=2)) - logits[b, t, targets])


@right("descend")
def descend_with_a_rest(w, dw, step):
    w -= (0.0 if step == 10 else 0.5) * dw


@wrong("descend", says="along dw, and not along -dw. At step 15, that is: at step 1, 2, 3")
def descend_with_a_rate_that_turns(w, dw, step):
    w += (0.05 * step - 0.6) * dw


@wrong("descend", says="w was never written: it still holds its old values")
def descend_elsewhere(w, dw, step):
    lower = w - 0.5 / (1 + step) * dw
    w = lower  # noqa: F841


@wrong("causal_softmax", says="the softmax with each row's first score subtracted, not the largest visible score")
def causal_from_the_first_score(scores):
    out = np.zeros_like(scores)
    with np.errstate(all="ignore"):
        for t in range(len(scores)):
            e = np.exp(scores[t, : t + 1] - scores[t, 0])
            out[t, : t + 1] = e / e.sum()
    return out


@wrong("causal_softmax", says="hidden powers of e are multiplied by 0: inf · 0 is NaN")
def causal_with_a_mask_of_zeros(scores):
    seen = np.tri(*scores.shape)
    top = np.array([row[: t + 1].max() for t, row in enumerate(scores)])
    with np.errstate(all="ignore"):
        e = seen * np.exp((scores.T - top).T)
        return e / e.sum(axis=1)[:, None]


@wrong("causal_softmax", says="the scores minus the largest of each column (axis 0)")
def causal_with_the_maxima_of_columns(scores):
    with np.errstate(all="ignore"):
        e = np.exp(scores - np.amax(scores, axis=0, keepdims=True))
        e = np.where(np.tri(len(e), dtype=bool), e, 0)
        return e / np.sum(e, axis=1, keepdims=True)


@wrong("causal_softmax", says="the largest of the visible scores and 0 subtracted")
def causal_with_maxima_of_zeros(scores):
    seen = np.tri(len(scores), dtype=bool)
    top = np.max(scores * seen, axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        e = seen * np.exp(np.where(seen, scores - top, 0))
        return e / e.sum(axis=1, keepdims=True)


@wrong("descend", says="w moved along -dw, but not all of it: w[0] did not move")
def descend_from_the_second(w, dw, step):
    for i in range(1, len(w)):
        w[i] -= 0.5 * dw[i]


@wrong("descend", says="the weights whose dw is")
def descend_only_down(w, dw, step):
    w -= 0.5 * np.maximum(dw, 0)


@wrong("descend", says="`weight -= 0.5 * slope` changes the number `weight` alone, a copy of an entry of `w`")
def descend_the_loops_own_numbers(w, dw, step):
    for weight, slope in zip(w, dw):
        weight -= 0.5 * slope


@wrong("descend", says="write into the array, with `w[i] = …`")
def descend_a_number_taken_out(w, dw, step):
    for k in range(len(w)):
        weight = w[k]
        weight = weight - 0.5 * dw[k]


@wrong("descend", says="w moved by 0.5 · -dw, and besides by -0.005 · w: that does not belong")
def descend_with_decay(w, dw, step):
    w -= 0.5 * (dw + 0.01 * w)


@wrong("descend", says="and besides by 0.01 everywhere")
def descend_with_a_shift(w, dw, step):
    w[:] = w - 0.5 * dw + 0.01


@wrong("descend", says="w[i] moved by the slope dw[i + 1]")
def descend_by_the_neighbours_slope(w, dw, step):
    w[:-1] -= 0.5 * dw[1:]


@wrong("descend", says="here it is 0.0714 for w[6], and 0.5 for w[0]")
def descend_ever_shorter_along_w(w, dw, step):
    w -= 0.5 * dw / np.arange(1, len(w) + 1)


@wrong("next_token_loss", says="the sum over B, averaged over T alone.")
def loss_with_a_sum_over_the_sentences(logits, targets):
    total = 0.0
    for rows, words in zip(logits, targets):
        each = []
        for row, word in zip(rows, words):
            top = max(row)
            each.append(np.log(np.exp(row - top).sum()) + top - row[word])
        total += np.mean(each)
    return total


@wrong("causal_softmax", says="makes NaN of an infinity: 0 · inf")
def causal_with_a_mask_times_infinity(scores):
    T = len(scores)
    mask = np.triu(np.ones((T, T)), k=1)
    x = scores + mask * -np.inf
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@wrong("causal_softmax", says="right for these scores once the hidden ones are low")
def causal_with_1500_subtracted(scores):
    T = len(scores)
    mask = np.triu(np.ones((T, T)), k=1)
    x = scores - 1500.0 * mask
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(scores.dtype)


@wrong("descend", says="NaN or infinite values after one step. At step 0, that is: at 19 other steps")
def descend_by_the_root_of_the_step(w, dw, step):
    w -= 0.5 / np.sqrt(step) * dw


@wrong("descend", says="w moved uphill, along dw, and not along -dw. At step 0")
def descend_uphill_at_first(w, dw, step):
    if step == 0:
        w += 0.5 * dw
    else:
        w -= 0.1 * dw


@right("descend")
def descend_with_a_rate_that_ends_at_0(w, dw, step):
    w -= 0.5 * np.cos(np.pi / 2 * max(step - 15, 0) / 4) * dw


@right("descend")
def descend_with_a_warmup(w, dw, step):
    w -= min(step / 2, 1) * 0.3 * dw


@wrong("causal_softmax", says="the softmax with the row's largest score so far subtracted from each score")
def causal_softmax_with_a_running_maximum(scores):
    visible = np.tri(len(scores), dtype=bool)
    x = np.where(visible, scores, -np.inf)
    largest = np.maximum.accumulate(x, axis=1)
    e = np.where(visible, np.exp(x - largest), 0)
    return (e / e.sum(axis=1, keepdims=True)).astype(scores.dtype)


@wrong("causal_softmax", says="scores of 80 and more count alike: a row of 80 and 81 gives the shares 0.5 and 0.5")
def causal_softmax_of_clipped_scores(scores):
    e = np.exp(np.clip(scores, -80, 80))
    e[np.triu_indices(len(scores), 1)] = 0
    return e / e.sum(axis=-1, keepdims=True)


@wrong("causal_softmax", says="scores of 700 and more count alike")
def causal_softmax_of_scores_up_to_700(scores):
    e = np.tril(np.exp(np.minimum(scores, 700)))
    return e / e.sum(axis=-1, keepdims=True)


@wrong("descend", says="w moved, but not along -dw")
def descend_by_clipped_slopes(w, dw, step):
    w -= 0.5 * np.clip(dw, -0.5, 0.5)


@wrong("next_token_loss", says="For a row around 1000 it is finite, but wrong")
def loss_of_logits_up_to_700(logits, targets):
    p = np.exp(np.minimum(logits, 700))
    p /= p.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        return -np.log(np.take_along_axis(p, targets[..., None], axis=-1)).mean()


@wrong("next_token_loss", says="with 1 in place of 2 in `logits[..., ::2]`")
def loss_with_the_maximum_of_every_second_logit(logits, targets):
    top = logits[..., ::2].max(axis=-1)
    with np.errstate(all="ignore"):
        total = np.log(np.exp(logits - top[..., None]).sum(axis=-1)) + top
    return (total - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]).mean()


@wrong("causal_softmax", says="1 of 81 entries that are NaN or infinite, first at [7, 7]")
def causal_with_the_maximum_of_earlier_scores(scores):
    out = np.zeros_like(scores)
    with np.errstate(all="ignore"):
        for t in range(len(scores)):
            e = np.exp(scores[t, : t + 1] - scores[t, : max(t, 1)].max())
            out[t, : t + 1] = e / e.sum()
    return out


@wrong("causal_softmax", says="or in what goes into it (`total += np.exp(scores[t, s] - biggest)`)")
def softmax_whose_running_sum_is_never_rescaled(scores):
    out = np.zeros_like(scores)
    for t in range(len(scores)):
        biggest, total = scores[t, 0], 0.0
        for s in range(t + 1):
            biggest = max(biggest, scores[t, s])
            total += np.exp(scores[t, s] - biggest)
        for s in range(t + 1):
            out[t, s] = np.exp(scores[t, s] - biggest) / total
    return out


@wrong("causal_softmax", says="NaN or infinite, first at [8, 4]")
def softmax_relative_to_the_first_or_the_own_score(scores):
    out = np.zeros_like(scores)
    for t in range(len(scores)):
        e = np.exp(scores[t, : t + 1] - max(scores[t, 0], scores[t, t]))
        out[t, : t + 1] = e / e.sum()
    return out


@wrong("embed", says="with the sum of all words of a sentence, each once, at every position")
def embed_with_all_words_of_a_sentence(tokens, wte, wpe):
    B, T = tokens.shape
    onehot = np.zeros((B, T, wte.shape[0]), dtype=wte.dtype)
    for b in range(B):
        onehot[b, :, tokens[b]] = 1
    return np.matmul(onehot, wte) + wpe[:T]


@wrong("causal_softmax", says="e to the power of the scores, divided by the number of visible tokens")
def shares_of_a_count(scores):
    shares = np.zeros_like(scores)
    for t, row in enumerate(scores):
        seen = row[: t + 1]
        e = np.exp(seen - seen.max())
        shares[t, : t + 1] = e / (t + 1)
    return shares


@wrong("next_token_loss", says="np.exp(2000) is infinite, and np.exp(-2000) is 0")
def loss_of_one_hot_times_log_p(logits, targets):
    V = logits.shape[-1]
    z = logits - logits.max(axis=-1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    y = np.eye(V)[targets]
    return -(y * np.log(p)).sum(axis=-1).mean()


@wrong("next_token_loss", says="No line that ran before this one gave `total` a value")
def loss_whose_total_begins_nowhere(logits, targets):
    for row, target in zip(logits, targets):
        shifted = row - row.max()
        log_total = np.log(np.exp(shifted).sum())
        total += log_total - shifted[target]  # noqa: F821
    return total / len(targets)


@wrong("next_token_loss", says="shapes (3,5) (3,5,1)\n    in loss_with_a")
def loss_with_a_maximum_that_kept_its_axis(logits, targets):
    m = logits.max(axis=-1, keepdims=True)
    lse = np.log(np.exp(logits - m).sum(axis=-1)) + m
    return np.mean(lse - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0])
