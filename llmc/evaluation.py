"""How good is a model? Its mean loss on held-out tokens, also in bits per byte, and baselines for it to beat.

The loss depends on the tokenizer (longer tokens cost more nats each); bits per byte do not, so you can compare them
across vocabularies.
"""

from math import log

import numpy as np

from llmc.errors import UserError

BASELINE_TOKENS = 10_000_000  # counts are taken from at most this many tokens of the training data
PRIOR_STRENGTHS = np.geomspace(0.01, 1e5, 50)  # that are tried to smooth the baselines


def evaluate(model, loader, batches=None) -> float:
    """Mean cross-entropy (nats per token) over the loader's first `batches` batches, or over all of them if None.

    Starts from the loader's first batch, so that two calls measure the same tokens. Raises UserError if there is no
    batch.
    """
    losses = list(batch_losses(model, loader, batches))
    return sum(losses) / len(losses)


def batch_losses(model, loader, batches=None):
    """Yield the loss of each batch that `evaluate` averages, so that a long evaluation can be interrupted."""
    return (model.loss(x, y) for x, y in first_batches(loader, batches))


def first_batches(loader, batches=None):
    """Yield (x, y), both (B, T) int32, for the loader's first `batches` batches, or for all of them if None."""
    count = loader.num_batches if batches is None else min(batches, loader.num_batches)
    if count < 1:
        raise UserError(
            "there is too little data for even one batch; use a smaller batch, a shorter sequence or more data."
        )
    loader.reset()
    for _ in range(count):
        yield loader.next_batch()


def token_losses(model, x, y) -> np.ndarray:
    """(B, T) cross-entropy (nats) of each token of y (B, T) after its context in x (B, T), in the model's dtype.

    Their mean is model.loss(x, y), which raises UserError for ids and lengths that the model does not support.
    """
    model.loss(x, y)
    return np.array(model.backend.to_numpy(model.losses))  # (B, T), a copy: the next batch overwrites the model's


def bits_per_byte(loss, tokens, token_lengths) -> float:
    """The loss (mean nats per token) on `tokens`, as bits per byte of their text.

    tokens: (n,) the ids that were predicted · token_lengths: (V,) bytes of each id (0 for end-of-text, whose cost
    counts but whose length does not). The whole text costs loss · n / ln 2 bits, which are divided by its length in
    bytes.
    Example: bits_per_byte(ln 2, [0, 0], [4]) == 0.25.
    """
    tokens = np.asarray(tokens).reshape(-1)  # (n,)
    size = int(np.asarray(token_lengths)[tokens].sum(dtype=np.int64))
    if size == 0:
        raise UserError("these tokens contain no text, so bits per byte cannot be computed.")
    return float(loss) * tokens.size / log(2) / size


def baselines(train, val, V) -> dict:
    """Cross-entropy (nats per token) on `val` of three models that only count: {"uniform", "unigram", "bigram"}.

    train, val: (n,) token ids below V. uniform knows nothing: ln V. unigram knows how often each token occurs in train;
    bigram knows how often it follows the token before it: p(b|a) = (count(a, b) + k·p(b)) / (count(a) + k), Dirichlet
    smoothing towards the unigram (MacKay & Peto 1995). Each smoothing strength is the best one on val itself. No other
    strength makes a stronger baseline, so a model that beats it has learned more than pairs.
    """
    train = np.asarray(train[:BASELINE_TOKENS], dtype=np.int64)  # (n,)
    val = np.asarray(val[:BASELINE_TOKENS], dtype=np.int64)  # (m,)
    if train.size < 2 or val.size < 2:
        raise UserError("baselines need at least two training and two validation tokens.")
    counts = np.bincount(train, minlength=V)  # (V,)
    uni, p = _unigram(counts, val[1:])
    return {"uniform": log(V), "unigram": uni, "bigram": _bigram(train, val, counts, p)}


def _unigram(counts, targets):
    """(nats per target, p (V,)) for relative frequencies, smoothed towards uniform with the best strength."""
    V, n = counts.size, counts.sum()
    candidates = []
    for k in PRIOR_STRENGTHS:
        p = (counts + k / V) / (n + k)  # (V,)
        candidates.append((float(-np.log(p[targets]).mean()), p))
    return min(candidates, key=lambda candidate: candidate[0])


def _bigram(train, val, counts, p):
    """Nats per target for the smoothed bigram. Pairs are stored as sorted codes a·V + b, never as a (V, V) table."""
    V = counts.size
    seen, times = np.unique(train[:-1] * V + train[1:], return_counts=True)  # (pairs,) each
    codes = val[:-1] * V + val[1:]  # (m - 1,)
    place = np.minimum(np.searchsorted(seen, codes), seen.size - 1)  # (m - 1,)
    together = np.where(seen[place] == codes, times[place], 0)  # (m - 1,)
    before = np.bincount(train[:-1], minlength=V)[val[:-1]]  # (m - 1,): count(a), as the first of a pair
    prior = p[val[1:]]  # (m - 1,)
    return min(float(-np.log((together + k * prior) / (before + k)).mean()) for k in PRIOR_STRENGTHS)
