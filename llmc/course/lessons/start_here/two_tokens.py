"""Lesson 00: what its first three exercises should give, in float64, and what each known mistake gives instead.

Mistakes are {sentence after "out equals ": (array, where to look)}.
"""

import numpy as np

from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.explain import listed

LOOKUP = "lesson 00, step 1"
SHARES = "lesson 00, step 4: first the mask, then the softmax of each row"
LOSS = "lesson 00, step 8"
LOSS_SUM = "the formula in the task, which has the logarithm of a sum, and no probability"

# ------------------------------------------------------------------------------------------------------ embed


def embed(tokens, wte, wpe):
    """(B, T, C): row tokens[b, t] of wte plus row t of wpe."""
    return wte[tokens] + wpe[: tokens.shape[1]]  # (B, T, C)


def embed_mistakes(tokens, wte, wpe) -> dict:
    """Known wrong results; wpe (maxT, C) with maxT > T."""
    B, T = tokens.shape
    word = wte[tokens]  # (B, T, C)
    each_once = np.stack([wte[np.unique(sentence)].sum(axis=0) for sentence in tokens])[:, None]  # (B, 1, C)
    wrong = {
        "wte[tokens]: the positions are missing": word,
        "wpe alone: the words are missing": np.broadcast_to(wpe[:T], word.shape),
        "the reference with row 0 of wpe at every position": word + wpe[0],
        "the reference with row T of wpe at every position": word + wpe[T],
        "the reference with row T - 1 of wpe at every position": word + wpe[T - 1],
        "the reference with positions counted from 1: the first is 0": word + wpe[1 : T + 1],
        "the reference with the last T rows of wpe: positions count from the beginning": word + wpe[-T:],
        "the reference with positions in reverse": word + wpe[:T][::-1],
        "the reference with the sum of all words of a sentence, each once, at every position": each_once + wpe[:T],
        "word times position, not their sum": word * wpe[:T],
        "the reference with the sum of all rows of wpe": word + wpe.sum(axis=0),
        "word minus position, not their sum": word - wpe[:T],
        "the reference with wte[tokens - 1]: the words are counted from 0": wte[tokens - 1] + wpe[:T],
        "the reference with words times √C": word * np.sqrt(wte.shape[1]) + wpe[:T],
    }
    if len(wpe) > tokens.max():
        wrong["the reference with wpe looked up by token, not by position"] = word + wpe[tokens]
    if len(wpe) >= B:
        wrong["the reference with row b of wpe instead of row t"] = word + wpe[:B, None]
    return {text: (array, LOOKUP) for text, array in wrong.items()}


# --------------------------------------------------------------------------------------------- causal_softmax


def softmax(x, axis=-1):
    """Softmax that does not overflow, any shape."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def causal_softmax(scores):
    """(T, T): row t is the softmax of scores[t, : t + 1], and 0 after it."""
    out = np.zeros(scores.shape)  # (T, T)
    for t, row in enumerate(scores.astype(np.float64)):
        out[t, : t + 1] = softmax(row[: t + 1])
    return out.astype(scores.dtype)


def causal_softmax_mistakes(scores) -> dict:
    """Known wrong results; moderate scores only, so that nothing overflows."""
    T = len(scores)
    seen = np.tril(np.ones((T, T), bool))  # (T, T)
    hidden = np.where(seen, scores, -np.inf)  # (T, T)
    shares = causal_softmax(scores)  # (T, T)
    e = np.where(seen, np.exp(scores), 0.0)  # (T, T)
    stable = np.exp(hidden - hidden.max(axis=-1, keepdims=True))  # (T, T)
    wrong = {
        "the softmax of whole rows: hidden scores count, too": softmax(scores),
        "the softmax of whole rows, masked afterwards: the rows no longer add up to 1": np.where(
            seen, softmax(scores), 0.0
        ),
        "the softmax with 0 instead of the masked scores: e to the power of 0 is 1, not 0": softmax(
            np.where(seen, scores, 0.0)
        ),
        "the softmax with scores of 0 hidden, too: 0 is a score like any other": softmax(
            np.where(seen & ((scores != 0) | np.eye(T, dtype=bool)), scores, -np.inf)
        ),
        "the softmax with a mask that begins one column too late: each token sees the next": softmax(
            np.where(np.tri(T, k=1, dtype=bool), scores, -np.inf)
        ),
        "the softmax with the next token alone hidden: all later tokens must be": softmax(
            np.where(np.eye(T, k=1, dtype=bool), -np.inf, scores)
        ),
        **{
            f"the softmax with {how} hidden scores: their shares must be 0": softmax(np.where(seen, scores, masked))
            for n in (1, 10, 100)
            for how, masked in ((f"-{n} in place of", -n), (f"{n} subtracted from the", scores - n))
        },
        "the softmax with the past masked instead of the future": softmax(np.where(seen.T, scores, -np.inf)),
        "the softmax over the tokens before its own, from the second row on: a token may look at itself": softmax(
            np.where(np.tril(seen, -1) | (np.arange(T * T).reshape(T, T) == 0), scores, -np.inf)
        ),
        "the softmax of each column, not of each row": softmax(hidden, axis=0),
        "the reference divided by the row sums of other rows: that of row j is under column j": (e / e.sum(axis=-1)),
        "the reference with the maxima of other rows: that of row j is subtracted from column j": softmax(
            hidden - hidden.max(axis=-1)
        ),
        "the reference with maxima and row sums of other rows: those of row j are used in column j": (
            _without_keepdims(hidden)
        ),
        "the reference divided by the sums of other rows: that of row j is under column j": (
            stable / stable.sum(axis=-1)
        ),
        "the softmax over the whole array: each row must add up to 1": e / e.sum(),
        "e to the power of the scores, divided by the number of visible tokens, not by their sum": stable
        / np.arange(1, T + 1)[:, None],
        "e to the power of the scores, not divided by the row's sum": e,
        "the softmax of the scores minus the largest of each column (axis 0): a row needs one number": softmax(
            hidden - scores.max(axis=0)
        ),
        "the softmax of the scores minus the largest visible of each column: a row needs one number": softmax(
            hidden - hidden.max(axis=0)
        ),
        "the softmax with the row's largest score so far subtracted from each score: a row needs one number": _divided(
            np.where(seen, np.exp(scores - np.maximum.accumulate(scores, axis=1)), 0.0)
        ),
        "the softmax of the transposed scores": causal_softmax(scores.T),
        "the masked scores divided by their row's sum: exp is missing": np.where(seen, scores, 0.0)
        / np.where(seen, scores, 0.0).sum(axis=-1, keepdims=True),
        "the logarithm of the shares": np.log(np.where(seen, shares, 1.0)),
        "the softmax of the scores divided by √T": softmax(hidden / np.sqrt(T)),
        "the softmax of minus the scores: a larger score means a larger share": softmax(
            np.where(seen, -scores, -np.inf)
        ),
        "the softmax with powers of 2 instead of powers of e": softmax(hidden * np.log(2)),
        "e to the power of the scores, divided by the root of the sum of squares, not by their sum": stable
        / np.sqrt(np.square(stable).sum(axis=-1, keepdims=True)),
        "equal shares for all visible tokens: the scores must decide": seen / seen.sum(axis=-1, keepdims=True),
    }
    return {text: (array, SHARES) for text, array in wrong.items()}


def sees_nothing(out) -> bool:
    """Is the first row of out NaN, and no other? So it is if the diagonal is masked: then it has no score to share."""
    return np.ndim(out) == 2 and bool(np.isnan(out[0]).any()) and not np.isnan(out[1:]).any()


def hidden_scores_matter(function, scores) -> str | None:
    """A sentence if out is right once the hidden scores are as low as the lowest visible one of their row; or None."""
    seen = np.tril(np.ones(scores.shape, bool))  # (T, T)
    lowest = np.where(seen, scores, np.inf).min(axis=-1, keepdims=True)  # (T, 1)
    low = np.where(seen, scores, lowest)  # (T, T)
    right = causal_softmax(low)  # (T, T)
    out = outcome(function, low.copy())
    if np.shape(out) != right.shape or not np.allclose(out, right, rtol=1e-6, atol=1e-9):
        return None
    return "out is right for these scores once the hidden ones are low: hidden scores must not matter, however large"


def cut_off(function) -> str | None:
    """A sentence if the scores beyond some bound, at most 1000 from 0, have equal shares; or None."""
    for sign, beyond in ((1, "more"), (-1, "less")):
        for n in range(1, 1001):
            scores = np.array([[0.0, 0.0], [sign * n, sign * (n + 1)]])  # (2, 2)
            out, right = outcome(function, scores.copy()), causal_softmax(scores)  # (2, 2)
            if np.shape(out) != right.shape or not np.allclose(out, right):
                break
        if n > 1 and np.shape(out) == right.shape and np.allclose(out[1], 0.5):
            pair = f"a row of {sign * n} and {sign * (n + 1)} gives the shares 0.5 and 0.5"
            return f"scores of {sign * n} and {beyond} count alike: {pair}"
    return None


def large_mistakes(scores) -> dict:
    """Known wrong results that show only where scores are large: they overflow, or all of a row becomes 0."""
    seen = np.tril(np.ones(scores.shape, bool))  # (T, T)
    visible = np.where(seen, scores, -np.inf)  # (T, T)
    largest = visible.max(axis=-1, keepdims=True)  # (T, 1)
    subtracted = {
        "nothing": 0,
        "the largest score of the whole row, which may be a hidden one,": scores.max(axis=-1, keepdims=True),
        "the largest score of all rows": scores.max(),
        "the largest visible score of all rows": visible.max(),
        "the largest score of each column (axis 0)": scores.max(axis=0),
        "the largest visible score of each column (axis 0)": visible.max(axis=0),
        "the largest score of the rows so far, down its column (axis 0),": (
            np.maximum.accumulate(scores, axis=0).diagonal()[:, None]
        ),
        "the largest of the visible scores and 0": np.maximum(largest, 0),
        "the largest visible score by its size, without its sign,": np.where(seen, np.abs(scores), 0).max(-1)[:, None],
        "each row's own score on the diagonal": scores.diagonal()[:, None],
        "each row's first score": scores[:, :1],
        "the mean of each row's visible scores": np.where(seen, scores, 0).sum(-1, keepdims=True)
        / seen.sum(-1)[:, None],
    }
    with np.errstate(all="ignore"):
        wrong = {}
        for what, m in subtracted.items():
            e = np.where(seen, np.exp(scores - m), 0.0)  # (T, T)
            wrong[f"the softmax with {what} subtracted, not the largest visible score of each row"] = _divided(e)
        e = np.exp(scores - largest) * seen  # (T, T)
        wrong["the softmax whose hidden powers of e are multiplied by 0: inf · 0 is NaN"] = _divided(e)
        for n in (100, 500, 1000, 2000):
            low = f"the softmax with -{n} in place of hidden scores: visible ones can be as low"
            wrong[low] = softmax(np.where(seen, scores, -n))
    return {text: (array, SHARES) for text, array in wrong.items()}


def _divided(e):
    """(T, T): each row of e divided by its sum."""
    return e / e.sum(axis=-1, keepdims=True)


def _without_keepdims(x):
    """A softmax in which both reductions drop their axis: x is square, so NumPy does not complain."""
    e = np.exp(x - x.max(axis=-1))  # (T, T)
    return e / e.sum(axis=-1)


# -------------------------------------------------------------------------------------------- next_token_loss


def losses(logits, targets):
    """(B, T) -log of the probability of each target."""
    z = logits.astype(np.float64)  # (B, T, V)
    peak = z.max(axis=-1)  # (B, T)
    total = np.log(np.exp(z - peak[..., None]).sum(axis=-1))  # (B, T)
    return total + peak - np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]  # (B, T)


def next_token_loss(logits, targets):
    """The mean of `losses`, a number."""
    return losses(logits, targets).mean()


def next_token_loss_mistakes(logits, targets) -> dict:
    """Known wrong results; moderate logits only."""
    each = losses(logits, targets)  # (B, T)
    p = np.exp(-each)  # (B, T) probability of each target
    peak = logits.max(axis=-1)  # (B, T)
    total = np.log(np.exp(logits - peak[..., None]).sum(axis=-1))  # (B, T)
    at_target = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]  # (B, T)
    B, T, V = logits.shape
    with np.errstate(divide="ignore"):
        refused = np.log1p(-np.where(np.arange(V) == targets[..., None], 0, softmax(logits)))  # (B, T, V)
    every = [np.take_along_axis(x, targets[..., None], axis=-1) for x in (softmax(logits, 1), softmax(logits, 0))]
    wrong = {
        "minus the loss": -each.mean(),
        "the sum over all positions, not the mean": each.sum(),
        "the sum over T, averaged over B alone": each.sum() / B,
        "the loss in bits (log2), not with the natural logarithm": each.mean() / np.log(2),
        "the reference with log2 of the sum, not its natural logarithm": (total / np.log(2) + peak - at_target).mean(),
        "the reference with log2 of the sum of e to the logits, not its natural logarithm": (
            (total + peak) / np.log(2) - at_target
        ).mean(),
        "the reference without + m, the largest logit": (total - at_target).mean(),
        "the reference with - m instead of + m, the largest logit": (total - peak - at_target).mean(),
        "the loss with log10, not with the natural logarithm": each.mean() / np.log(10),
        "the mean probability of the targets: the logarithm is missing": p.mean(),
        "1 minus the mean probability of the targets": 1 - p.mean(),
        "-log of the mean probability, not the mean of -log of each": -np.log(p.mean()),
        "minus the mean logit of the targets: the softmax is missing": -at_target.mean(),
        "the mean of -log over all V words, not over the targets alone": -np.log(softmax(logits)).mean(),
        "the loss of the likeliest word, not of the target": -np.log(softmax(logits).max(-1)).mean(),
        **{
            f"the loss with {10.0**-n:.0e} added to the probability": -np.log(p + 10.0**-n).mean() for n in range(5, 11)
        },
        "the mean over the positions whose target is not 0: word 0 is a word like any other": each[targets != 0].sum()
        / max((targets != 0).sum(), 1),
        "the reference with 0 where the target is 0: word 0 is a word like any other": each[targets != 0].sum()
        / targets.size,
        "the sum over B, averaged over T alone": each.sum() / T,
        "the median of the losses, not their mean": np.median(each),
        "-log(p) of the target and -log(1 - p) of all other words: the targets' alone count": (
            each.sum() - refused.sum()
        )
        / targets.size,
        "the loss at the last position only": each[:, -1].mean(),
        "the loss at the first position only": each[:, 0].mean(),
        "the loss of the first sentence only": each[0].mean(),
        "e to the power of the loss": np.exp(each.mean()),
        "the sum over all positions divided by B·T·V, not by B·T": each.sum() / logits.size,
        "the reference with the largest logit in place of the logarithm of the sum": (peak - at_target).mean(),
        "the reference with the mean of e to the logits in place of their sum": (total + peak - at_target).mean()
        - np.log(V),
        "the loss with a softmax over T instead of V": -np.log(every[0]).mean(),
        "the loss with a softmax over B instead of V": -np.log(every[1]).mean(),
        "the loss of every target of the batch at every position": -np.log(softmax(logits)[..., targets]).mean(),
    }
    if T > 1:
        shifted = losses(logits[:, :-1], targets[:, 1:])  # (B, T - 1)
        wrong["the loss with targets shifted once more: they already are the next tokens"] = shifted.mean()
    return {text: (value, LOSS) for text, value in wrong.items()}


ROWS = {  # kinds of rows (3,) that a loss must be finite for, with the target
    "a row around 1000": ([1000.0, 1003.0, 1001.0], 1),
    "a row around -1000": ([-1003.0, -1000.0, -1002.0], 1),
    "a target of 1000 among logits of -1000": ([-1000.0, 1000.0, -999.0], 1),
    "a target of -1000 beside a logit of 1000": ([-1000.0, 1000.0, -999.0], 0),
}


def not_finite(function, loss) -> str:
    """What to say of a loss that is NaN or infinite for large logits: for which rows, alone, the function fails."""
    said = f"right for small logits, but {loss} for large ones"
    alone = [_alone(function, *row) for row in ROWS.values()]
    fails = [kind for kind, loss in zip(ROWS, alone) if not np.isfinite(loss)]
    if not fails:
        return f"{said}, in a batch; for a row alone, around 1000 or -1000, it is finite"
    high, low, *_ = (kind in fails for kind in ROWS)
    fact = ""
    if high and low:
        fact = ". np.exp(1000) is infinite, and np.exp(-1000) is 0"
    elif low and not np.isclose(alone[0], -np.log(softmax(np.array([1000.0, 1003.0, 1001.0]))[1])):
        fact = ". For a row around 1000 it is finite, but wrong"
    elif low:
        fact = ". The largest logit of a row around -1000 is negative"
    elif not high:
        fact = ". np.exp(2000) is infinite, and np.exp(-2000) is 0"
    return f"{said}. It is not finite for {listed(fails)}{fact}"


def _alone(function, row, target) -> float:
    """The loss of this row of logits, the only one of its batch; NaN if it is no number."""
    loss = np.asarray(outcome(function, np.array([[row]]), np.array([[target]])))
    return float(loss) if loss.ndim == 0 and loss.dtype.kind in "fiu" else np.nan


def rounded_losses(logits, targets) -> dict:
    """Wrong losses of huge logits: the targets' probabilities are rounded to 0, and a small number replaces 0."""
    p = np.exp(-losses(logits, targets))  # (B, T) many of them are 0
    sentence = "-log of probabilities that are rounded to 0, with {:g} instead of 0"
    smallest = (1e-300, 1e-100, 1e-45, 1e-38, *(10.0**-n for n in range(30, 4, -1)), np.finfo(np.float64).tiny)
    return {sentence.format(least): (-np.log(np.maximum(p, least)).mean(), LOSS_SUM) for least in smallest}
