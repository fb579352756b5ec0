"""What a model makes of HellaSwag: the cost of each ending after its context, in nats; the cheapest is its choice.

An ending's cost is the sum of -ln p(token | all before) over its tokens. That sum grows with the length, so a short
ending is favoured; the length-normalised accuracy, which llm.c and most papers report, compares means per token.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from llmc.errors import UserError
from llmc.evaluation import token_losses

AT_ONCE = 2048  # tokens of a batch, about
STEP = 16  # lengths of batches are multiples of this, so that few shapes occur


class Scores(NamedTuple):
    """Costs of all endings. sums, means: (examples, 4) float64, nats of each ending, in all and per token · labels:
    (examples,) · cut: how many examples were shortened to fit the model."""

    sums: np.ndarray
    means: np.ndarray
    labels: np.ndarray
    cut: int = 0

    @property
    def accuracy(self) -> float:
        """Share of the examples whose real ending costs least."""
        return float((self.sums.argmin(1) == self.labels).mean())

    @property
    def accuracy_norm(self) -> float:
        """Share of the examples whose real ending costs least per token."""
        return float((self.means.argmin(1) == self.labels).mean())

    @property
    def standard_error(self) -> float:
        """Of `accuracy_norm`, as an estimate for all such texts: sqrt(p (1 - p) / examples)."""
        p = self.accuracy_norm
        return sqrt(p * (1 - p) / len(self.labels))


def rows_of(example, window: int):
    """(tokens (4, n) int32, mask (4, n) bool, cut?) of an example: context and ending in each row, zeros behind.

    mask: which tokens belong to the ending. window: the longest sequence of the model, so n ≤ window + 1, as the last
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
    """(sums, means), both (rows,) float64: the cost in nats of the tokens under the mask, in all and per token.

    tokens: (rows, n) ids, padded at the end with any · mask: (rows, n), true where a token counts; never at the first,
    which nothing predicts. Raises UserError for ids and lengths that the model does not have, and when a row of the
    mask has no token.
    """
    tokens, counted = np.asarray(tokens), np.asarray(mask, bool)  # (rows, n) both
    if tokens.shape != counted.shape or tokens.ndim != 2 or counted[:, :1].any() or not counted.any(1).all():
        raise UserError("a mask must have the shape of its tokens, and in each row at least one token after the first.")
    losses = token_losses(model, tokens[:, :-1], tokens[:, 1:])  # (rows, n - 1)
    sums = np.where(counted[:, 1:], losses, 0).sum(1, dtype=np.float64)  # (rows,)
    return sums, sums / counted.sum(1)


def score_examples(model, examples, window=None, at_once=AT_ONCE, progress=None) -> Scores:
    """The Scores of a list of examples, in batches of about `at_once` tokens.

    Examples of similar length share a batch. What stands behind an ending cannot change its cost, as a token sees only
    those before it. window: the longest sequence to give to the model (default: its maxT) · progress(n): called when
    n more examples are scored. Raises UserError when costs are not finite numbers, and for ids that the model does not
    have.
    """
    window = model.config.maxT if window is None else window
    model.config.check_sequence_length(window)
    prepared = [rows_of(example, window) for example in examples]
    lengths = np.array([tokens.shape[1] for tokens, _, _ in prepared])  # (examples,)
    sums = np.empty((len(examples), len(examples[0].endings)))  # (examples, 4)
    means = np.empty_like(sums)  # (examples, 4)
    for chosen, n in _batches(lengths, window, at_once // sums.shape[1]):
        tokens, mask = (np.concatenate([_wide(prepared[i][part], n) for i in chosen]) for part in (0, 1))
        both = score(model, tokens, mask)  # (4·chosen,) both
        for out, values in zip((sums, means), both):
            out[chosen] = values.reshape(len(chosen), -1)
        if progress:
            progress(len(chosen))
    if not np.isfinite(sums).all():
        raise UserError("this model's losses are not numbers: its training diverged; give another one.")
    return Scores(sums, means, np.array([e.label for e in examples]), sum(cut for _, _, cut in prepared))


def _batches(lengths, window, at_once):
    """Yield (numbers of examples, columns): the longest first, so that memory that suffices for one is enough."""
    order = np.argsort(-lengths, kind="stable")  # (examples,)
    while order.size:
        T = -(-(int(lengths[order[0]]) - 1) // STEP) * STEP  # what the model sees: all but the last column
        T = min(T, window)
        take = max(1, at_once // T)
        yield order[:take], T + 1
        order = order[take:]


def _wide(rows, n):
    """(4, n): rows (4, fewer) with zeros behind."""
    out = np.zeros((len(rows), n), rows.dtype)  # (4, n)
    out[:, : rows.shape[1]] = rows
    return out
