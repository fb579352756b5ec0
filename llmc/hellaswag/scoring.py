"""How a model scores on HellaSwag: the cost of each ending after its context, in nats; the model chooses the cheapest.

An ending's cost is the sum of -ln p(token | all before) over its tokens. That sum grows with the length, which favours
short endings; the length-normalised accuracy, which llm.c and most papers report, compares means per token instead.

Published accuracies are of GPT-2, OpenAI's weights, length-normalised, scored by llm.c's `dev/data/hellaswag.py` (its
`vislog.ipynb` draws them as baselines), and of GPT-3, zero-shot, as in its paper (Brown et al. 2020, table H.1).
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from llmc.errors import UserError
from llmc.evaluation import token_losses

AT_ONCE = 2048  # tokens of a batch, about
STEP = 16  # lengths of batches are multiples of this, so that few shapes occur
CHANCE = 0.25
PUBLISHED = {  # model -> accuracy, length-normalised
    "GPT-2 124M": 0.294463,
    "GPT-2 350M": 0.375224,
    "GPT-2 774M": 0.431986,
    "GPT-2 1558M": 0.488946,
    "GPT-3 125M": 0.337,
    "GPT-3 350M": 0.436,
    "GPT-3 760M": 0.510,
    "GPT-3 1.3B": 0.547,
}


class NoNumbers(UserError):
    """The model's costs are not finite numbers."""


class Scores(NamedTuple):
    """The costs of all endings. sums, means: (examples, 4) float64, nats of each ending, in total and per token ·
    labels: (examples,) · cut: how many examples were shortened to fit the model."""

    sums: np.ndarray
    means: np.ndarray
    labels: np.ndarray
    cut: int = 0

    @property
    def accuracy(self) -> float:
        """The share of examples whose real ending costs least."""
        return float((self.sums.argmin(1) == self.labels).mean())

    @property
    def accuracy_norm(self) -> float:
        """The share of examples whose real ending costs least per token."""
        return float((self.means.argmin(1) == self.labels).mean())

    @property
    def standard_error(self) -> float:
        """The standard error of `accuracy_norm` as an estimate for all such texts: sqrt(p (1 - p) / examples)."""
        p = self.accuracy_norm
        return sqrt(p * (1 - p) / len(self.labels))


def rows_of(example, window: int):
    """(tokens (4, n) int32, mask (4, n) bool, cut?) of an example: each row has the context, one ending, and zeros.

    mask: which tokens belong to the ending. window: the model's longest sequence, so n ≤ window + 1, because the last
    token is only predicted; a context that is too long loses its beginning, an ending its end.
    """
    endings = [ending[:window] for ending in example.endings]
    room = window + 1 - max(map(len, endings))  # ≥ 1
    context = example.context[-room:]
    lengths = np.array([len(context) + len(ending) for ending in endings])  # (4,)
    tokens = np.zeros((len(endings), lengths.max()), np.int32)  # (4, n)
    for row, ending in zip(tokens, endings):
        row[: len(context) + len(ending)] = context + ending
    at = np.arange(tokens.shape[1])  # (n,)
    mask = (at >= len(context)) & (at < lengths[:, None])  # (4, n)
    return tokens, mask, len(context) < len(example.context) or endings != example.endings


def score(model, tokens, mask):
    """(sums, means), both (rows,) float64: the cost in nats of the tokens under the mask, in total and per token.

    tokens: (rows, n) ids, padded at the end with any ids · mask: (rows, n), true where a token counts; never at the
    first token, which nothing predicts. Raises UserError for ids and lengths that the model does not support, and if a
    row of the mask is empty.
    """
    tokens, counted = np.asarray(tokens), np.asarray(mask, bool)  # both (rows, n)
    if tokens.shape != counted.shape or tokens.ndim != 2 or counted[:, :1].any() or not counted.any(1).all():
        raise UserError(
            "a mask must have the same shape as its tokens, and select at least one token after the first in each row."
        )
    losses = token_losses(model, tokens[:, :-1], tokens[:, 1:])  # (rows, n - 1)
    sums = np.where(counted[:, 1:], losses, 0).sum(1, dtype=np.float64)  # (rows,)
    return sums, sums / counted.sum(1)


def score_examples(model, examples, window=None, at_once=AT_ONCE, shape=None, progress=None) -> Scores:
    """The Scores of a list of examples, in batches of about `at_once` tokens.

    Endings of similar length share a batch: other rows and the padding cannot change an ending's cost, because a token
    only sees those before it. window: the longest sequence to give to the model (default: its maxT) · shape: (B, T) of
    all batches instead, so that a model that is being trained keeps its buffers · progress(n): called when n more
    endings have been scored. Raises NoNumbers, and UserError for ids that the model does not have.
    """
    window = (shape[1] if shape else model.config.maxT) if window is None else window
    model.config.check_sequence_length(window)
    prepared = [rows_of(example, window) for example in examples]
    rows = [row for tokens, mask, _ in prepared for row in zip(tokens, mask)]
    lengths = np.array([1 + int(np.flatnonzero(mask)[-1]) for _, mask in rows])  # (4·examples,)
    sums, means = np.empty(len(rows)), np.empty(len(rows))
    for chosen, n in _batches(lengths, window, at_once, shape):
        tokens, mask = (np.stack([_wide(rows[i][part], n) for i in chosen]) for part in (0, 1))  # (B, n)
        sums[chosen], means[chosen] = score(model, tokens, mask)
        if progress:
            progress(np.unique(chosen).size)
    if not np.isfinite(sums).all():
        raise NoNumbers("this model's losses are not numbers, so its training diverged; give another model.")
    labels = np.array([example.label for example in examples])
    return Scores(sums.reshape(-1, 4), means.reshape(-1, 4), labels, sum(cut for _, _, cut in prepared))


def _batches(lengths, window, at_once, shape):
    """Yield (numbers of rows, columns) for each batch, the longest first, so that later ones need no more memory.

    With a shape, the last batch is filled up with copies of one of its rows.
    """
    order = np.argsort(-lengths, kind="stable")  # (rows,)
    while order.size:
        T = min(-(-(int(lengths[order[0]]) - 1) // STEP) * STEP, window)  # what the model sees: all but the last column
        B, T = shape or (max(1, at_once // T), T)
        chosen, order = order[:B], order[B:]
        fill = [chosen[0]] * (B - chosen.size) if shape else []
        yield np.array([*chosen, *fill]), T + 1


def _wide(row, n):
    """(n,): a row, cut where only padding follows, or extended with zeros."""
    out = np.zeros(n, row.dtype)  # (n,)
    out[: row.size] = row[:n]
    return out


def report(scores) -> str:
    """A few lines of text about a model's Scores, next to the accuracy of other models on the validation set."""
    lines = [
        f"HellaSwag     {scores.accuracy_norm:8.2%} ± {scores.standard_error:.2%} of {len(scores.labels):,} examples,"
        " by the mean cost per token",
        f"              {scores.accuracy:8.2%}  by the whole cost of an ending",
        "the whole validation set, by the mean cost per token:",
        *(f"  {name:<12}{accuracy:8.2%}" for name, accuracy in {"a guess": CHANCE, **PUBLISHED}.items()),
    ]
    if scores.cut:
        lines.append(f"{scores.cut:,} examples were longer than the model can read, and were cut short.")
    return "\n".join(lines)
