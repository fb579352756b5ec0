"""Lesson 10: what accumulation and validation should give, in float64, and what each known mistake gives.

Mistakes are {sentence after "x equals ": (array, where to look)}. Resuming and saving, which are right or wrong rather
than near or far, have modules of their own: `resuming.py`, `saving.py`. So have z-scores: `instruments.py`.
"""

from math import log

import numpy as np

from llmc.course.lessons.training_loop.instruments import (  # noqa: F401, for the check
    INSTRUMENTS,
    taken_for_flat,
    wrong_far_from_0,
    wrong_start,
    z_mistakes,
    z_scores,
)

# where to look; a test compares these titles with the headings of notebooks/10_training_loop.ipynb
ACCUMULATE = 'lesson 10, section "5.1 · By hand"'
WEIGHTED = 'lesson 10, section "3.2 · Validation"'
BITS = 'lesson 10, section "3.3 · Against what?"'


def _at(where, wrong) -> dict:
    """The same place to look for all of them."""
    return {sentence: (array, where) for sentence, array in wrong.items()}


def log_softmax(W):
    """(V, V) log-probabilities: row x holds those of what follows token x."""
    z = np.asarray(W, np.float64)
    z = z - z.max(axis=-1, keepdims=True)  # (V, V)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


# ----------------------------------------------------------------------------------------------------- accumulation


def bigram_loss(W, x, y) -> float:
    """Mean loss (nats) of the table W (V, V) for tokens x, followed by y; any shape, 0 for no tokens."""
    return float(-log_softmax(W)[x, y].mean()) if np.size(x) else 0.0


def bigram_gradient(W, x, y):
    """Its gradient (V, V): p - onehot(y[n]) for row x[n], averaged over n."""
    p, dW = np.exp(log_softmax(W)), np.zeros(W.shape)  # (V, V) each
    for token, target in zip(np.ravel(x), np.ravel(y)):
        dW[token] += p[token]
        dW[token, target] -= 1
    return dW / np.size(x)


def shares(batches):
    """(n,) share of all tokens that each batch holds."""
    sizes = np.array([x.size for x, _ in batches])  # (n,)
    return sizes / sizes.sum()


def accumulated(W, batches):
    """(mean loss over all tokens of the batches, its gradient (V, V))."""
    share = shares(batches)  # (n,)
    loss = sum(s * bigram_loss(W, *batch) for s, batch in zip(share, batches))
    return loss, sum(s * bigram_gradient(W, *batch) for s, batch in zip(share, batches))


def gradient_parts(W, batches, before) -> dict:
    """{name: (V, V)} of what the gradient at the update may be a sum of."""
    return {f"gradient {k}": bigram_gradient(W, *batch) for k, batch in enumerate(batches)} | {"the old buffer": before}


def accumulated_mistakes(W, batches, before, lr) -> dict:
    """Known wrong losses and gradients. before (V, V): what the gradient buffer held at first. lr: of the update."""
    n, share, tokens = len(batches), shares(batches), sum(x.size for x, _ in batches)  # (n,) shares
    g = [bigram_gradient(W, *batch) for batch in batches]  # n × (V, V)
    each = np.array([bigram_loss(W, *batch) for batch in batches])  # (n,)
    right, equal, total = sum(s * gk for s, gk in zip(share, g)), sum(g) / n, sum(g)
    unequal = "these micro-batches are not all of the same size"
    all_of_them = "those of all add up"
    wrong = {
        "the sum of the micro-batches' gradients: each must count its share of the tokens": total,
        "the sum of the micro-batches' gradients, divided by the number of tokens: each is the mean of its own tokens "
        "already, so it counts its share": total / tokens,
        f"the reference with the share 1/n for each: {unequal}": equal,
        "the reference with the share applied twice": sum(s * s * gk for s, gk in zip(share, g)),
        "the reference with the size of the first micro-batch for each of them: add up their own sizes": right
        * tokens
        / (n * batches[0][0].size),
        "the reference with each size divided by that of the first micro-batch: divide by the size of all": right
        * tokens
        / batches[0][0].size,
        "the reference with each size divided by that of the last micro-batch: divide by the size of all": right
        * tokens
        / batches[-1][0].size,
        "the reference with each micro-batch's rows divided by the number of all tokens: a row holds T of them": right
        / batches[0][0].shape[1],
        "the reference with each micro-batch's tokens divided by the number of all rows: divide by all tokens": right
        * batches[0][0].shape[1],
        "the reference weighted by the number of rows: divide by the number of all rows": right
        * sum(len(x) for x, _ in batches),
        "the reference with x and y exchanged: x is what the model reads, y what follows": sum(
            s * bigram_gradient(W, y, x) for s, (x, y) in zip(share, batches)
        ),
        "each gradient times its micro-batch's loss: dloss is the share of the tokens alone, without the loss": sum(
            s * loss * gk for s, loss, gk in zip(share, each, g)
        ),
        "each gradient times its micro-batch's loss: dloss is the share of the tokens, not the loss": sum(
            loss * gk for loss, gk in zip(each, g)
        ),
        "each gradient times its micro-batch's loss, with the share 1/n: dloss is the share of the tokens": sum(
            loss * gk for loss, gk in zip(each, g)
        )
        / n,
        "the reference divided by n once more: the shares already add up to 1": right / n,
        "the reference with each share of the tokens so far: divide by the number of all tokens, counted before": sum(
            s / so_far * gk for s, so_far, gk in zip(share, np.cumsum(share), g)
        ),
        "the reference weighted by the number of tokens: divide by the number of all tokens": right * tokens,
    }
    for scale, how in (
        (share, ""),
        (np.ones(n), ", and each counts fully"),
        (np.full(n, 1 / n), ", with the share 1/n"),
    ):
        wrong |= {
            f"the gradient of the last micro-batch alone{how}: {all_of_them}": scale[-1] * g[-1],
            f"the gradient of the first micro-batch alone{how}: {all_of_them}": scale[0] * g[0],
        }
    held = {f"what the buffer held before, plus {sentence}": array + before for sentence, array in wrong.items()}
    losses = {
        "the sum of the micro-batches' losses: return the mean over all tokens": each.sum(),
        f"the mean of the micro-batches' losses: {unequal}": each.mean(),
        "the loss of the last micro-batch alone": each[-1],
        "the loss of the first micro-batch alone": each[0],
        "the reference with the share applied twice": (share * share * each).sum(),
        "the reference divided by n once more": (share * each).sum() / n,
        "the loss AFTER the update: return the one before it": accumulated(W - lr * right, batches)[0],
        "the reference times the number of tokens: return the mean": (share * each).sum() * tokens,
    }
    gradients = {
        "what it should be, plus what the buffer held before: call zero_grad before the loop": right + before
    } | wrong
    return {"loss": _at(WEIGHTED, losses), "gradient": _at(ACCUMULATE, gradients | held)}


# ------------------------------------------------------------------------------------------------------- validation


def validation(W, tokens, lengths):
    """(nats per token, bits per byte) of the table W (V, V) on every token but the first."""
    x, y = tokens[:-1], tokens[1:]  # (n,) each
    loss = bigram_loss(W, x, y)
    return loss, loss * y.size / log(2) / lengths[y].sum()


def pieces(tokens, B, T):
    """[(x, y)], (b, t) each: batches of B rows of T, then the rows that are left, then the shorter row."""
    n = len(tokens) - 1
    rows = n // T
    cuts = [*range(0, rows, B), rows]
    spans = [(T * a, T * b, T) for a, b in zip(cuts, cuts[1:])] + [(T * rows, n, n - T * rows)] * (n > T * rows)
    return [(tokens[a:b].reshape(-1, t), tokens[a + 1 : b + 1].reshape(-1, t)) for a, b, t in spans]


def validation_mistakes(W, tokens, B, T, lengths) -> dict:
    """Known wrong losses and bits per byte."""
    right, bits = validation(W, tokens, lengths)
    x, y, cut = tokens[:-1], tokens[1:], pieces(tokens, B, T)
    n, whole, full = y.size, y.size // T * T, y.size // (B * T) * B * T
    means = np.array([bigram_loss(W, *piece) for piece in cut])  # (pieces,)
    asked = np.arange(n) % (T + 1) < T  # (n,)   rows of T + 1 tokens that share none
    inside = np.arange(1, n + 1) % T > 0  # (n,)   rows of T tokens that share none
    wrong = {
        "the mean of the batches' means: the last batches are smaller, so weight each by its tokens": means.mean(),
        "the reference without the row that is shorter than T": bigram_loss(W, x[:whole], y[:whole]),
        "the reference without the rows that do not fill a batch": bigram_loss(W, x[:full], y[:full]),
        "the sum over all tokens: divide it by their number": right * n,
        "e to the power of the loss, the perplexity: return the loss itself, in nats": np.exp(right),
        "the sum of the batches' means: weight each by its tokens, and divide by all of them": means.sum(),
        "the reference divided by len(tokens): nothing predicts the first token, so it does not count": right
        * n
        / (n + 1),
        "the loss with y = x: y is shifted by one token": bigram_loss(W, x, x),
        "the loss of the first batch alone": means[0],
        "the loss with x and y exchanged: x is what the model reads, y what follows": bigram_loss(W, y, x),
        "the mean over the targets that have bytes: every target counts, end-of-text too": bigram_loss(
            W, x[lengths[y] > 0], y[lengths[y] > 0]
        ),
        "the loss of the last piece alone": means[-1],
        "the mean of the rows' means: the last row is shorter, so weight each by its tokens": np.mean(
            [bigram_loss(W, x[a : a + T], y[a : a + T]) for a in range(0, n, T)]
        ),
        "the reference without some targets: neighbouring rows share a token, because row r begins at r·T": bigram_loss(
            W, x[asked], y[asked]
        ),
        "the reference without the last target of each whole row: row r needs T + 1 tokens, from r·T on": bigram_loss(
            W, x[inside], y[inside]
        ),
        "the reference without the row that is shorter than T, divided by all tokens nevertheless": (
            bigram_loss(W, x[:whole], y[:whole]) * whole / n
        ),
        "the reference without the rows that do not fill a batch, divided by all tokens nevertheless": (
            bigram_loss(W, x[:full], y[:full]) * full / n
        ),
        "the reference without the rows that do not fill a batch, divided by all tokens; the shorter row is there": (
            right - bigram_loss(W, x[full:whole], y[full:whole]) * (whole - full) / n if whole > full else np.nan
        ),
    }
    size = lengths[y].sum()
    wrong_bits = {
        "nats per byte: divide by ln 2": bits * log(2),
        "the reference multiplied by ln 2 instead of divided by it": bits * log(2) ** 2,
        "bits per token: divide by the bytes per token": right / log(2),
        "the reference with the bytes of x: count the bytes of the targets": right
        * n
        / log(2)
        / max(lengths[x].sum(), 1),
        "the reference with the bytes of all tokens: the first one is not a target": (
            right * n / log(2) / lengths[tokens].sum()
        ),
        "the reference with the mean length of the vocabulary: take the lengths of the tokens in this text": (
            right / log(2) / lengths.mean()
        ),
        "the loss divided by the bytes: the loss is a mean, so multiply it by the number of tokens first": right
        / log(2)
        / size,
        "the reference with at least one byte for every token: end-of-text has none": (
            right * n / log(2) / np.maximum(lengths[y], 1).sum()
        ),
        "the reference without end-of-text in the number of targets: those that have no bytes count, too": (
            right * np.count_nonzero(lengths[y]) / log(2) / size
        ),
        "the reference without the nats of the targets that have no bytes: end-of-text must be predicted, too": (
            bigram_loss(W, x[lengths[y] > 0], y[lengths[y] > 0]) * np.count_nonzero(lengths[y]) / log(2) / size
        ),
    }
    for which, some in (("batches", cut), ("rows", pieces(tokens, 1, T))):
        each = [bigram_loss(W, a, b) * b.size / log(2) / max(lengths[b].sum(), 1) for a, b in some]  # bits per byte
        told = f"the mean of the bits per byte of the {which}"
        wrong_bits[told] = np.mean(each)
        sizes = [b.size for _, b in some]
        wrong_bits[f"{told}, weighted by their tokens: divide all bits by all bytes"] = np.dot(each, sizes) / n
    return {"loss": _at(WEIGHTED, wrong), "bits": _at(BITS, wrong_bits)}


def explain_rows(read, tokens, T, why=lambda: None):
    """Which row of T tokens the model never got as a whole, as a sentence; None when it got all of them, once each.

    read: [(x, y)] of each call of model.forward. A table of pairs gives the same loss for any cut, but a real model
    reads what comes before in the same row. why: looks into what the model got on another text; a sentence, or None.
    """
    n = len(tokens) - 1
    wanted = sorted((*tokens[a : min(a + T, n) + 1].tolist(),) for a in range(0, n, T))
    got = sorted((*x[b].tolist(), int(y[b, -1])) for x, y in read for b in range(len(x)))
    if got == wanted:
        return None
    lengths = sorted({len(row) - 1 for row in got})
    if lengths[-1] < min(T, n):
        what = f"at most {lengths[-1]} tokens"
        return (
            f"the numbers are right, but each row that the model got has {what}, not T = {T}: it would see less context"
        )
    told = why()
    if told:
        return f"the numbers are right, because a table of pairs reads no context; but {told}"
    return f"the numbers are right, but the model did not get the rows that begin at 0, T, 2T, … (T = {T}), each once"
