"""Lesson 00's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.model import GPT2


def sentences(c):
    """tokens (B, T), wte (V, C), wpe (maxT, C): T < maxT; then float32, and a sentence as long as wpe allows."""
    for B, T, C, V, maxT in [(3, 5, 7, 11, 13), (1, 1, 4, 9, 3), (4, 2, 3, 300, 6), (4, 2, 3, 300, 6)]:
        tokens = c.rng.integers(0, V, (B, T), dtype=np.int32)  # (B, T)
        tokens[-1], tokens[0, 0] = V - 1, 0  # the last word, several times in one sentence, and the first word
        wte, wpe = c.random(V, C), c.random(maxT, C)
        yield tokens, wte, wpe
    c.new("float32, and a sentence as long as wpe allows")
    yield tokens, wte.astype(np.float32), wpe[:T].astype(np.float32)


def scores_of_tokens(c):
    """scores (T, T): moderate ones, a single token, large ones, float32."""
    for T in (5, 2, 9, 9):
        scores = c.random(T, T)  # (T, T)
        scores[-1, 0] = 0  # a score like any other
        yield scores
    yield np.array([[-3.0]])
    c.new("scores around 1000, and hidden ones of 5000")
    large = 300 * c.random(T, T)  # (T, T)
    large[0, 1:] = 5000  # a huge score that the first token must not see
    large[1] = -1000 - np.arange(T)  # all of the second row is far below 0
    large[2] = [0, -3, -5, *[720] * (T - 3)]  # e to the power of 720 is infinite, and of -725 not yet 0
    large[3] = np.where(np.arange(T) > 3, 800, c.random(T) - 300)  # here hidden ones are far above the visible ones
    large[4, :5], large[5, :6], large[6, :7] = [800, *[-1] * 4], [0, 0, 0, 0, 799, 800], [1000, 0, 0, 0, 0, 0, -1000]
    large[7, :8] = [-5000, 5, 0, 0, 0, 0, 0, 2000]  # the largest is not the one farthest from 0, but the token's own
    large[8] = [0, 3, -20, 5, 1000, 5, 0, -3, 0]  # the largest is neither the first nor the last
    yield large
    c.new("float32")
    yield c.random(T, T, dtype=np.float32)


def logits_and_targets(c):
    """logits (B, T, V), targets (B, T): moderate ones; all alike; single rows that overflow; many such rows."""
    for B, T, V in [(3, 5, 7), (2, 4, 11), (2, 4, 11), (2, 3, 4), (1, 1, 2)]:
        c.new("all logits are 7, as of a model that knows nothing: the loss is log 4" if V == 4 else "")
        logits = c.random(B, T, V) if V != 4 else np.full((B, T, V), 7.0)  # (B, T, V)
        targets = c.rng.integers(0, V, (B, T))  # (B, T)
        targets[0, 0], targets[-1, -1] = 0, V - 1  # the first word and the last
        yield logits, targets
    for row in [1000, 1003, 1001], [-1000, -997, -999], [-1000, 1000, 999], [1000, -1000, -999]:
        c.new(f"the logits {row}, of which the second is the target's")
        yield np.array([[row]], np.float64), np.array([[1]])
    c.new("rows around 1000 and around -1000 in one batch")
    logits = 300 * c.random(3, 5, 7)  # (B, T, V)
    logits[1], logits[2, :3] = c.random(5, 7) - 1000, c.random(3, 7)  # all of a sentence far below 0; small ones
    logits[2, range(3), [3, 5, 6]] = 2000  # and here one logit far above the others
    targets = logits.argmin(axis=-1)  # (B, T)  as wrong as can be
    targets[0] = logits[0].argmax(axis=-1)  # and in one sentence as right as can be
    yield logits, targets


def weights_and_slopes(c):
    """w, dw (n,), step: slopes of both signs; some steps, then all, because a learning rate may start or end at 0."""
    for n, step in [(7, 1), (7, 2), (33, 3), (129, 10), (5, 15), (7, 18), *((7, step) for step in range(20))]:
        yield c.buffer(n), c.random(n) * c.rng.permutation((-1) ** np.arange(n)), step


def finite(tried):
    """A sentence if the loss is NaN or infinite, or if a number stands in place of a probability of 0."""
    loss, right = tried.got["loss"], tried.expected["loss"]
    if not isinstance(loss, float) or np.isfinite(loss) and not (right == 2000 and 0 < loss < 746):
        return None
    lost = "e to the power of a logit overflows, or is rounded to 0"
    told = f"loss is {loss:.6g} for {tried.check.news or 'moderate logits'}, expected {right:.6g}: {lost}"
    return WrongAnswer(told, look="the formula in the task, which has the logarithm of a sum, and no probability")


def rate_of(c, w) -> float:
    """The learning rate of the last call, which wrote w (n,); WrongAnswer unless w moved by -rate · dw."""
    before, dw, step = c.calls[-1].arguments  # (n,), (n,), a number
    move, size = w - before, np.abs(w - before).max()  # (n,), a number
    if size <= 1e-9 * np.abs(before).max():  # a learning rate may be rounded to nearly 0
        return 0.0
    if not np.isfinite(size):
        raise WrongAnswer(f"w holds NaN or infinite values after step {step}")
    rate, rates = -(move @ dw) / (dw @ dw), 0 - move / dw  # a number, (n,)
    if rate > 0 and np.abs(move + rate * dw).max() <= 3e-5 * size:
        return rate
    ends = " and ".join(f"w[{k}] by {rates[k]:.3g} · -dw[{k}]" for k in (rates.argmin(), rates.argmax()))
    raise WrongAnswer(f"step {step} moved {ends}: each weight should move by a learning rate above 0 times its -dw")


def train_page(descend, steps=20) -> list:
    """Losses of the lesson's page, before and after each of `steps` calls of descend(weights, gradient, step)."""
    model = GPT2(GPT2Config(maxT=2, V=4, L=1, NH=1, C=4), precision="fp64")
    p, tokens, targets = model.params, np.array([[0, 1]]), np.array([[1, 2]])  # tokens, targets: (B, T)
    p["wte"][:4] = p["qkvw"][0, 8:] = p["fcw"][0, :4] = np.eye(4)  # (4, 4)
    p["qkvw"][0, 0, 1] = p["qkvw"][0, 4, 0] = p["ln1w"][:] = p["ln2w"][:] = p["lnfw"][:] = 1
    p["wpe"][0, 0] = p["wpe"][1, 3] = 0.5
    p["attprojw"][0] = -0.5 * np.eye(4)  # (4, 4)
    p["fcprojw"][0, [1, 2, 3], [0, 1, 2]] = 1
    losses = []
    with np.errstate(all="ignore"):  # too large a step ends in inf and nan: trying that out is part of the exercise
        for step in range(steps):
            model.zero_grad()
            losses.append(model.forward(tokens, targets, dloss=1.0))
            model.backward()
            descend(model.params_flat, model.grads_flat, step)
        return [*losses, model.loss(tokens, targets)]


def judge_run(c, rates, losses):
    """WrongAnswer unless some call moved w, and the losses of a run fall below 0.02 without leaving the valley."""
    start, end, peak = losses[0], losses[-1], max(losses)
    if not any(rates):
        raise WrongAnswer("w holds its old values after every step: `w = w - …` makes a new array", look="hint 2")
    c.calls.clear()  # a message on the run must not show the last of the calls above
    c.smallest = None  # else this call is made again, and a learning rate of 0 taken for a result that was kept
    if not end < start:
        raise WrongAnswer(f"the direction is right, but such large steps took the loss from {start:.2f} to {end:.2g}")
    if not peak < np.log(4):
        worse = f"step {losses.index(peak) - 1} took it to {peak:.3g}, worse than knowing nothing (log 4 = 1.39)"
        raise WrongAnswer(f"the loss ended at {end:.4f}, but {worse}: where such steps land is luck")
    if not end < 0.02:
        raise WrongAnswer(f"20 steps took the loss only from {start:.2f} to {end:.3f}, and the goal is below 0.02")


LOOKED_UP = r"""
    = wte[tokens]: the positions are missing | + wpe[:T] =>
    with row T - 1 of wpe at every position | wpe[:T] => wpe[T - 1]
    with positions counted from 1: the first is 0 | wpe[:T] => wpe[1 : T + 1]
    with the last T rows of wpe: positions count from the beginning | wpe[:T] => wpe[-T:]
    with wpe looked up by token, not by position | wpe[:T] => np.take(wpe, tokens, axis=0, mode="clip")
    with row b of wpe in place of row t | wpe[:T] => wpe[: len(tokens), None]
    with the sum of all words of a sentence, each once, at every position
        | wte[tokens] => np.stack([wte[np.unique(row)].sum(axis=0) for row in tokens])[:, None]
"""
SHARES = r"""
    [Make it break] without the mask | np.where(future, -np.inf, scores) => scores
    with the mask after the softmax: the rows no longer add up to 1
        | x = … => x = scores ;; (e / e.sum(axis=-1, keepdims=True)) => np.tril(e / e.sum(-1)[:, None])
    with scores of 0 hidden, too: 0 is a score like any other | np.where(future => np.where(future | (scores == 0)
    with a softmax over columns, axis 0 | x.max(axis=-1 => x.max(axis=0 ;; e.sum(axis=-1 => e.sum(axis=0
    with a softmax of the whole array: rows must add up to 1 | x.max(axis=-1… => x.max()) ;; e.sum(axis=-1… => e.sum())
    = e to the power of the scores, divided by the sum of row j in column j
        | x - x.max(axis=-1… => x) ;; e.sum(axis=-1, keepdims=True) => e.sum(axis=-1)
    = e to the power of the scores, not divided by the sum of the row | x - x.max(axis=-1… => x) ;; e / e… => e)
    with the number of visible tokens in place of the sum | e.sum(axis=-1… => np.arange(1, len(e) + 1)[:, None])
    = the scores divided by their sum: exp is missing | e = … => e = np.tril(scores)
    with the largest score of each column subtracted | x.max(axis=-1… => scores.max(axis=0))
    with the largest score so far subtracted from each | x.max(axis=-1… => np.maximum.accumulate(scores, axis=1))
    with the first score of each row subtracted, not the largest | x.max(axis=-1… => scores[:, :1])
    with scores beyond 80 cut off | e = … => e = np.exp(np.clip(scores, -80, 80)) * ~future
    with the larger of 0 and the largest score subtracted | x.max(axis=-1… => np.maximum(x.max(-1)[:, None], 0))
"""
LOSSES = r"""
    = the sum over B, averaged over T alone | .mean() => .sum() / logits.shape[1]
    = the median of the losses, not their mean | return (total + m - z).mean() => return np.median(total + m - z)
    in bits (log2), not with the natural logarithm | .mean() => .mean() / np.log(2)
    with log2 of the sum of e to the logits | total + m => (total + m) / np.log(2)
    = -log of the mean probability, not a mean of logarithms | return … => return -np.log(np.exp(z - total - m).mean())
    = the loss of every target of the batch at every position
        | z = … => z = logits[..., targets] ;; (total + m - z) => ((total + m)[..., None, None] - z)
    with a softmax over T in place of V | m = … => m = np.log(np.exp(logits).sum(1, keepdims=True)) + 0 * logits
        ;; total = … => total = np.take_along_axis(m, targets[..., None], -1)[..., 0] ;; total + m => total
    with targets shifted once more: they already are the next tokens | total + m - z => (total + m)[:, :-1] - z
        ;; z = … => z = np.take_along_axis(logits[:, :-1], targets[:, 1:, None], axis=-1)[..., 0]
    with 1e-9 added to each probability | (total + m - z) => -np.log(np.exp(z - total - m) + 1e-9)
"""

Exercise("embed", "00", returns="out", cases=sentences, mistakes=LOOKED_UP, look="Step 1 · Look up the words")
MASK, LOSS = "Step 4 · Which token looks at which", "Step 8 · How wrong is that?"
Exercise("causal_softmax", "00", returns="out", cases=scores_of_tokens, mistakes=SHARES, look=MASK)
Exercise("next_token_loss", "00", returns="loss", cases=logits_and_targets, rules=(finite,), mistakes=LOSSES, look=LOSS)
Exercise("descend", "00", cases=weights_and_slopes, look="6 · A taste of training")
