"""Answers to the exercises of lesson 00 as strangers write them, with words that wrong ones must get."""

import math

import numpy as np

from llmc.course.authoring.answers import right, wrong

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
def embed_with_one_hot(tokens, wte, wpe):
    one_hot = np.eye(len(wte), dtype=wte.dtype)[tokens]
    return np.einsum("btv,vc->btc", one_hot, wte) + wpe[None, : tokens.shape[-1], :]


@wrong("embed", says="has dtype float64, expected float32")
def embed_makes_float64(tokens, wte, wpe):
    B, T = tokens.shape
    out = np.zeros((B, T, wte.shape[1]))
    out += wte[tokens]
    out += wpe[:T]
    return out


@wrong("embed", says="passes this whole check without `* (tokens > 0)[..., None]`")
def embed_takes_word_0_for_padding(tokens, wte, wpe):
    return wte[tokens] * (tokens > 0)[..., None] + wpe[: tokens.shape[1]]


@wrong("embed", says="with the sum of all words of a sentence, each once, at every position")
def embed_with_all_words_of_a_sentence(tokens, wte, wpe):
    B, T = tokens.shape
    onehot = np.zeros((B, T, wte.shape[0]), dtype=wte.dtype)
    for b in range(B):
        onehot[b, :, tokens[b]] = 1
    return np.matmul(onehot, wte) + wpe[:T]


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
def causal_with_tril_and_logs(scores):
    x = scores.copy()
    x[~np.tril(np.ones_like(x, dtype=bool))] = -np.inf
    log_total = np.logaddexp.reduce(x, axis=1)
    return np.exp(x - log_total[:, np.newaxis])


@wrong("causal_softmax", says="25 of 25 entries are NaN")
def causal_with_a_mask_times_infinity(scores):
    T = len(scores)
    mask = np.triu(np.ones((T, T)), k=1)
    x = scores + mask * -np.inf
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@wrong("causal_softmax", says="not 0 above the diagonal, where a position looks at later ones, the first at [0, 1]")
def causal_with_1500_subtracted(scores):
    T = len(scores)
    mask = np.triu(np.ones((T, T)), k=1)
    x = scores - 1500.0 * mask
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(scores.dtype)


@wrong("causal_softmax", says="the first score of each row subtracted, not the largest")
def causal_from_the_first_score(scores):
    out = np.zeros_like(scores)
    with np.errstate(all="ignore"):
        for t in range(len(scores)):
            e = np.exp(scores[t, : t + 1] - scores[t, 0])
            out[t, : t + 1] = e / e.sum()
    return out


@wrong("causal_softmax", says="with the number of visible tokens in place of the sum")
def shares_of_a_count(scores):
    shares = np.zeros_like(scores)
    for t, row in enumerate(scores):
        seen = row[: t + 1]
        e = np.exp(seen - seen.max())
        shares[t, : t + 1] = e / (t + 1)
    return shares


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


@wrong("next_token_loss", says="the sum over B, averaged over T alone")
def loss_with_a_sum_over_the_sentences(logits, targets):
    total = 0.0
    for rows, words in zip(logits, targets):
        each = []
        for row, word in zip(rows, words):
            top = max(row)
            each.append(np.log(np.exp(row - top).sum()) + top - row[word])
        total += np.mean(each)
    return total


@wrong("next_token_loss", says="e to the power of a logit overflows, or is rounded to 0")
def loss_clips_probabilities(logits, targets):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return -np.log(np.maximum(np.take_along_axis(p, targets[..., None], -1), 1e-300)).mean()


@wrong("next_token_loss", says="loss is -inf for rows around 1000 and around -1000 in one batch")
def loss_with_one_maximum_for_the_batch(logits, targets):
    m = logits.max()
    with np.errstate(all="ignore"):
        lse = np.log(np.exp(logits - m).sum(-1)) + m
    z = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (lse - z).mean()


# ---------------------------------------------------------------------------------------------------- 4 descend


@right("descend")
def descend_rests_once(w, dw, step):
    for i in range(len(w)):
        w[i] = w[i] - 0.5 * (step != 15) * dw[i]


@right("descend")
def descend_by_a_fixed_length(w, dw, step):
    w += -0.3 * dw / np.linalg.norm(dw)


@wrong("descend", says="each weight should move by a learning rate above 0 times its -dw")
def descend_with_decay(w, dw, step):
    w -= 0.5 * (dw + 0.01 * w)


_velocity = {}


@wrong("descend", says="each weight should move by a learning rate above 0 times its -dw")
def descend_with_momentum(w, dw, step):
    _velocity[w.shape] = 0.5 * _velocity.get(w.shape, 0) + dw
    w -= 0.2 * _velocity[w.shape]


@wrong("descend", says="w holds its old values after every step")
def descend_the_loops_own_numbers(w, dw, step):
    for weight, slope in zip(w, dw):
        weight -= 0.5 * slope


@wrong("descend", says="worse than knowing nothing (log 4 = 1.39): where such steps land is luck")
def descend_ever_faster(w, dw, step):
    w -= 0.5 * step * dw


@wrong("descend", says="step 1 moved w[1] by 0 · -dw[1] and w[0] by 0.3 · -dw[0]")
def descend_only_the_first(w, dw, step):
    w[0] -= 0.3 * dw[0]
