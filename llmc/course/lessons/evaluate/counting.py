"""Lesson 24: bits per byte of documents with padding, and what known mistakes give instead.

Mistakes are {sentence after "the result equals ": (number, where to look)}.
"""

import numpy as np

from llmc.course.lessons.evaluate.places import NAMES, TOKENIZERS
from llmc.course.old.checks.contrast import outcome


def documents(rng, n, T, V):
    """losses (n, T) float32, targets (n, T) int32 with -1 behind each document's end, lengths (V,) int32.

    Token 0 is end-of-text, of no bytes. Losses behind the end are large numbers that mean nothing.
    """
    lengths = rng.integers(2, 9, V).astype(np.int32)  # (V,)
    lengths[0] = 0
    losses = rng.gamma(2.0, 1.5, (n, T)).astype(np.float32)
    targets = rng.integers(1, V, (n, T)).astype(np.int32)
    for row, size in enumerate(rng.permutation(np.linspace(2, T, n).astype(int))):
        targets[row, size - 1] = 0
        targets[row, size:] = -1
        losses[row, :size] *= rng.uniform(0.5, 2.0)  # some documents are harder
        losses[row, size:] += 10
    return losses, targets, lengths


def right(losses, targets, lengths) -> float:
    """The cost of all tokens in bits over their bytes."""
    real = targets >= 0  # (n, T)
    return float(losses[real].sum(dtype=np.float64) / np.log(2) / lengths[targets[real]].sum())


def mistakes(losses, targets, lengths) -> dict:
    real, end = targets >= 0, targets == 0  # (n, T) each
    padded = ~real.all(axis=1, keepdims=True)  # (n, 1)
    wide = losses.astype(np.float64)
    nats, size = wide[real].sum(), lengths[targets[real]].sum()
    count = real.sum()
    per_row = [(wide[r, real[r]].sum(), lengths[targets[r, real[r]]].sum(), real[r].sum()) for r in range(len(losses))]
    bits = 1 / np.log(2)
    behind, ahead = wide[:, :-1][real[:, 1:]].sum(), wide[:, 1:][real[:, :-1]].sum()  # losses one place off
    with np.errstate(all="ignore"):
        found = {
            "the nats per byte: divide by ln 2 for bits": nats / size,
            "the nats times ln 2: a bit is ln 2 nats, so divide": nats * np.log(2) / size,
            "the cost in powers of ten: divide the nats by ln 2": nats / np.log(10) / size,
            "the mean of the documents' bits per byte: add up costs and bytes of all of them, and divide once": np.mean(
                [bits * a / b for a, b, _ in per_row]
            ),
            "the mean of the documents' losses over the mean of their bytes per token: they differ in length, so add"
            " up costs and bytes": bits
            * np.mean([a / k for a, _, k in per_row])
            / np.mean([b / k for _, b, k in per_row]),
            "the number without the rows that have no padding: they count, too": bits
            * wide[padded & real].sum()
            / max(1, lengths[targets[padded & real]].sum()),
            "the mean of the documents' bits per byte, weighted by their tokens: add up costs and bytes of all of them,"
            " and divide once": bits * np.average([a / b for a, b, _ in per_row], weights=[k for *_, k in per_row]),
            "the bits per bit of the text: divide by its bytes, not by eight times as many": bits * nats / (8 * size),
            "eight times as much: bits per byte are bits over bytes": 8 * bits * nats / size,
            "the perplexity of a byte": np.exp(min(nats / size, 700.0)),
            "the cost with that of the padding: leave out where the target is -1": bits * wide.sum() / size,
            "the cost over bytes that include the padding's: `lengths[-1]` is the length of the last token": bits
            * nats
            / lengths[targets].sum(),
            "the number with the padding in cost and bytes: leave out where the target is -1": bits
            * wide.sum()
            / lengths[targets].sum(),
            "the cost without end-of-text: it counts as a cost, though not as bytes": bits
            * wide[real & ~end].sum()
            / size,
            "the number without end-of-text and with the padding: end-of-text's cost counts, and -1 is no token": bits
            * wide[~end].sum()
            / lengths[targets[~end]].sum(),
            "the cost over bytes in which end-of-text counts as one: its length is 0": bits * nats / (size + end.sum()),
            "the bits per token: divide by the bytes, not by the number of tokens": bits * nats / count,
            "the loss, nats per token": nats / count,
            "the perplexity": np.exp(min(nats / count, 700.0)),
            "the bytes per bit: divide the other way round": size / nats / bits,
            "the loss in bits over the mean length of all tokens of the vocabulary: what counts are the bytes of these"
            " tokens": bits * nats / count / lengths.mean(),
            "the mean cost times all places of the array: the padding is no token": bits
            * nats
            / count
            * targets.size
            / size,
            "log2 of each loss, added up: a loss is a logarithm already, so divide it by ln 2": np.log2(
                wide[real]
            ).sum()
            / size,
            "log2 of the whole cost: losses are logarithms already, so divide by ln 2": np.log2(nats) / size,
            "the number in which each loss is taken for that of the next target: losses[:, t] is that of targets[:, t] "
            "already": bits * behind / lengths[targets[:, 1:][real[:, 1:]]].sum(),
            "the number in which each loss is taken for that of the target before: losses[:, t] is that of "
            "targets[:, t] already": bits * ahead / lengths[targets[:, :-1][real[:, :-1]]].sum(),
            "the number of the first document alone": bits * per_row[0][0] / per_row[0][1],
            "the number of the last document alone": bits * per_row[-1][0] / per_row[-1][1],
            "the sum of the documents' own bits per byte: add up costs and bytes, and divide once": bits
            * sum(a / b for a, b, _ in per_row),
            "the mean of each token's bits over its bytes: add up costs and bytes, and divide once": bits
            * (wide[real & ~end] / lengths[targets[real & ~end]]).mean(),
        }
        single = list(found.values())
        more = _both_wrong(wide, targets, lengths)
        found |= {words: number for words, number in more.items() if not np.isclose(number, single, rtol=1e-9).any()}
    where = {words: NAMES for words in found}
    where |= {words: TOKENIZERS for words in found if "documents" in words}
    expected = right(losses, targets, lengths)
    return {
        words: (np.float64(number), where[words])
        for words, number in found.items()
        if not np.isclose(number, expected, rtol=1e-4)
    }


def _both_wrong(wide, targets, lengths) -> dict:
    """Bits per byte with a mistake in the cost and another one in what it is divided by; means of ratios."""
    real, end = targets >= 0, targets == 0  # (n, T) each
    own, filled = lengths[targets[real]], np.maximum(lengths, 1)[targets]  # (tokens,), (n, T)
    costs = {
        "the padding's cost counts, too": wide.sum(),
        "end-of-text costs nothing": wide[real & ~end].sum(),
        "the cost is a mean over all tokens": wide[real].mean(),
        "the cost is a mean over all places, padding included": wide.mean(),
        "the cost is that of the padding alone": wide[~real].sum(),
    }
    sizes = {
        "the padding's bytes count, too": lengths[targets].sum(),
        "end-of-text counts as one byte": filled[real].sum(),
        "end-of-text and padding count as one byte each": np.where(real, filled, 1).sum(),
        "the bytes are a mean over the vocabulary": lengths.mean(),
        "the bytes are a mean over the vocabulary without end-of-text": lengths[1:].mean(),
        "the bytes are a mean over the tokens other than end-of-text": own[own > 0].mean(),
        "the bytes are those of each token of the vocabulary once": lengths.sum(),
        "the bytes are those of each kind of token once": lengths[np.unique(targets[real])].sum(),
        "the tokens are counted, not their bytes": real.sum(),
    }
    both = {f"a cost over bytes in which {a}, and {b}": c / size for a, c in costs.items() for b, size in sizes.items()}
    nats = wide[real].sum()
    both |= {f"the cost over bytes in which {b}": nats / size for b, size in sizes.items()}
    both["the mean of each token's bits over its bytes, of which end-of-text has one: add both up, and divide once"] = (
        wide[real] / filled[real]
    ).mean()
    return {words: number / np.log(2) for words, number in both.items()}


def what_counts(function, losses, targets, lengths):
    """A sentence on which losses and lengths the learner's function counts that it should not, or leaves out; or None.

    One of them is changed at a time, in arguments of the check.
    """

    def changed(part, *where, more=1.0):
        """Does the result change with some entries of losses (0) or lengths (1)?"""
        others = [losses.copy(), lengths.copy()]
        others[part][where] += np.asarray(more, others[part].dtype)
        return not np.isclose(result(*others), before, rtol=1e-6)

    def result(losses, lengths):
        found = outcome(function, losses, targets.copy(), lengths)
        return float(found) if np.isscalar(found) or np.ndim(found) == 0 and isinstance(found, np.ndarray) else np.nan

    before = result(losses, lengths)
    if not np.isfinite(before):
        return None
    said, unused = [], np.setdiff1d(np.arange(1, len(lengths)), targets)
    if changed(0, targets < 0, more=10):
        said.append("it changes with the losses of the padding, which mean nothing")
    if not changed(0, targets == 0):
        said.append("it does not change with the losses of end-of-text, whose cost counts")
    if not changed(1, np.unique(targets[targets > 0]), more=3):
        said.append("it does not change with the lengths of the tokens")
    elif unused.size and changed(1, unused, more=3):
        last = not changed(1, unused[unused < len(lengths) - 1], more=3)  # nothing but the last of all lengths counts
        index = " (-1 as an index is the last entry)" * last
        said.append(f"it changes with the lengths of tokens that no document has{index}")
    rows = [r for r in range(len(losses)) if not changed(0, r, targets[r] > 0)]
    if rows and len(rows) < len(losses):
        said.append(f"it does not change with the losses of row {rows[0]}")
    return f"One thing changed at a time: {'; '.join(said)}" if said else None


def mean_of_ratios(losses, targets, lengths) -> float:
    """The mean of the documents' own bits per byte: what one should not compute."""
    rows = (right(losses[r : r + 1], targets[r : r + 1], lengths) for r in range(len(losses)))
    return float(np.mean(list(rows)))


def number(value):
    """A number as float64, of whatever precision it is; anything else as it is."""
    return np.float64(value) if isinstance(value, np.floating) else value
