"""Lesson 22: what a learning-rate finder should try and find, and what known mistakes give instead.

Mistakes are {sentence after "x equals ": (array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.checks.explain import describe
from llmc.course.lessons.train_gpt2.places import FINDER

BETA, MARGIN = 0.9, 1.0  # of the smoothing; nats above the least smoothed loss at which the test ends


class Test(NamedTuple):
    """A finder's test: rates and losses (n,) of its steps, the losses smoothed, the rate that it recommends."""

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    best: float


def grown(lowest, highest, steps):
    """(steps,) rates, each the same factor above the one before."""
    return lowest * (highest / lowest) ** (np.arange(steps) / (steps - 1))


def smooth(losses, beta=BETA, corrected=True):
    """(n,) exponential mean of losses (n,), from 0, divided by the weights that it has so far."""
    s, out = 0.0, []
    for k, loss in enumerate(losses):
        s = beta * s + (1 - beta) * loss
        out.append(s / (1 - beta ** (k + 1)) if corrected else s)
    return np.array(out)


def length(smoothed, margin=MARGIN) -> int:
    """How many steps the test makes: up to and with the first whose loss is more than the margin above the least."""
    over = smoothed > np.minimum.accumulate(smoothed) + margin
    return int(np.argmax(over)) + 1 if over.any() else len(smoothed)


def tested(run, lowest, highest, steps, rates=None) -> Test:
    """The right test on a run, which is changed. rates: (steps,) to try in place of the right ones, to their end."""
    whole = grown(lowest, highest, steps) if rates is None else rates
    losses = np.array([run.step(rate) for rate in whole])
    smoothed = smooth(losses)
    n = length(smoothed) if rates is None else steps
    return Test(whole[:n], losses[:n], smoothed[:n], whole[int(np.argmin(smoothed[:n]))] / 10)


def rate_mistakes(lowest, highest, steps) -> dict:
    """Known wrong rates, (steps,) each."""
    k = np.arange(steps)
    wrong = {
        "rates that grow by the same amount: multiply by the same factor instead": np.linspace(lowest, highest, steps),
        "rates that grow to highest in `steps` factors: there are steps - 1 of them between steps rates": (
            lowest * (highest / lowest) ** (k / steps)
        ),
        "rates that grow to highest in steps + 1 factors: there are steps - 1 of them between steps rates": (
            lowest * (highest / lowest) ** (k / (steps + 1))
        ),
        "rates whose first one is already a factor above lowest, and whose last one is above highest": (
            lowest * (highest / lowest) ** ((k + 1) / (steps - 1))
        ),
        "rates whose first one is already a factor above lowest": lowest * (highest / lowest) ** ((k + 1) / steps),
        "the reference in reverse: begin with lowest": grown(lowest, highest, steps)[::-1],
        "the lowest rate in every step: the rate must grow": np.full(steps, lowest),
        "rates that double from step to step: the factor depends on highest and steps": lowest * 2.0**k,
        "rates that are ten times as large from step to step: the factor depends on highest and steps": lowest
        * 10.0**k,
    }
    return {said: (array, FINDER) for said, array in wrong.items()}


def standing_still(run, rates):
    """(n,) losses of a run that is restored after every step."""
    state, losses = run.state(), []
    for rate in rates:
        losses.append(run.step(rate))
        run.restore(state)
    return np.array(losses)


def smooth_mistakes(losses, still) -> dict:
    """Known wrong smoothed losses, (n,). still: what `standing_still` gives."""
    first = [losses[0]]
    for loss in losses[1:]:
        first.append(BETA * first[-1] + (1 - BETA) * loss)
    window = [losses[max(0, k - 9) : k + 1].mean() for k in range(len(losses))]
    raw, k = smooth(losses, corrected=False), np.arange(len(losses))
    with np.errstate(all="ignore"):
        early = [raw / (1 - BETA**at) for at in (np.maximum(k, 1), k)]  # step 0 left out, or divided by 0
    early.append(np.append(raw[:1], early[0][1:]))  # or left as it is
    wrong = {
        "the losses themselves: smooth them": losses,
        "the reference without the correction: divide by 1 - 0.9**(k + 1), because s began at 0": smooth(
            losses, corrected=False
        ),
        "the reference with 0.1 for what is kept and 0.9 for what is new: it is the other way round": smooth(
            losses, 0.1
        ),
        "the reference that begins with the first loss instead of 0": np.array(first),
        "the mean of the last ten losses: the smoothing here is an exponential mean": np.array(window),
        "the reference on a run that is restored after every step: restore it once, at the end": smooth(still),
        "the reference with 0.95 in place of 0.9": smooth(losses, 0.95),
        "the mean of all losses so far": np.cumsum(losses) / (k + 1),
        "the reference with 0.9**(k + 2) in the correction: step k has k + 1 losses": raw / (1 - BETA ** (k + 2)),
        "the reference with 0.1 for what is kept and 0.9 for what is new, and the correction of the right one": (
            smooth(losses, 0.1, corrected=False) / (1 - BETA ** (k + 1))
        ),
        "the least smoothed loss so far: return each step's own": np.minimum.accumulate(smooth(losses)),
    }
    said = "the reference with 0.9**k in the correction: k counts from 0, so step k has k + 1 losses"
    first = ("", ", and step 0 divided by 0", ", and step 0 as it is")
    wrong |= {said + more: array for more, array in zip(first, early)}
    return {said: (array, FINDER) for said, array in wrong.items()}


def best_mistakes(test) -> dict:
    """Known wrong recommendations."""
    rates, losses, smoothed, best = test
    k = int(np.argmin(smoothed))
    steepest = int(np.argmin(np.diff(smoothed)))
    wrong = {
        "the rate of the least smoothed loss itself, where the loss is about to rise: take a tenth of it": 10 * best,
        "a tenth of the rate of the least single loss: take the smoothed losses": rates[int(np.argmin(losses))] / 10,
        "the rate of the least single loss: take the smoothed losses, and a tenth of the rate": rates[
            int(np.argmin(losses))
        ],
        "a tenth of the last rate: take that of the least smoothed loss": rates[-1] / 10,
        "the last rate: take a tenth of that of the least smoothed loss": rates[-1],
        "the rate at which the smoothed loss falls most in one step: the task asks for a tenth of that of the least": (
            rates[steepest]
        ),
        "the rate after that at which the smoothed loss falls most in one step": rates[steepest + 1],
        "the least smoothed loss: return a tenth of its RATE": smoothed[k],
        "a tenth of the least smoothed loss: return a tenth of its RATE": smoothed[k] / 10,
        "the number of the step with the least smoothed loss: return a tenth of its rate": float(k),
        "the rate of a tenth of that step's number: a tenth of the rate itself": rates[k // 10],
        "the rate ten steps before that of the least smoothed loss: take a tenth of its rate": rates[k - 10],
        "a tenth of the rate one step later": rates[min(k + 1, len(rates) - 1)] / 10,
        "a tenth of the rate one step earlier": rates[max(k - 1, 0)] / 10,
    }
    return {said: (np.float64(number), FINDER) for said, number in wrong.items()}


def explain_form(found, made):
    """What is wrong with the form of what was returned, as a sentence; None when nothing is. made: steps of the run."""
    if found is None:
        return "nothing was returned; is a `return` missing?"
    if not isinstance(found, tuple | list) or len(found) != 3:
        return f"return three values: `return rates, smoothed, best`; you returned {describe(found)}"
    for name, part in zip(("rates", "smoothed"), found):
        if not isinstance(part, np.ndarray) or part.ndim != 1:
            return f"{name} must be an array (n,), one number for each step that was made, not {describe(part)}"
        if len(part) != made:
            return f"{name} has {len(part)} numbers, and the run made {made} steps: return one for each of them"
    return None


def explain_steps(asked, test, run, lowest, highest, steps):
    """What is wrong with the number of steps that were made, as a sentence; None when nothing is.

    asked: the rates that the run was stepped with, which are right as far as they go · test: the right Test · run: a
    copy of the run as it was, to see what else would have ended there.
    """
    n, right = len(asked), len(test.rates)
    if n == right:
        return None
    whole = tested(run, lowest, highest, steps, grown(lowest, highest, steps))
    single = whole.losses > np.minimum.accumulate(whole.losses) + MARGIN
    beside = whole.losses > np.minimum.accumulate(whole.smoothed) + MARGIN
    first = whole.smoothed > whole.smoothed[0] + MARGIN
    ends = {
        "it went on to the last rate, though the smoothed loss was more than 1 nat above its least": {steps},
        "it ended before the step that goes over, which counts: the test ends after it": {right - 1},
        "it ended where a single loss is 1 nat above the least so far; compare smoothed ones": (
            {_first(single, steps), _first(beside, steps)}
        ),
        "it ended where the smoothed loss is 1 nat above the FIRST one; compare with the least so far": (
            {_first(first, steps)}
        ),
        "it ended where the smoothed loss rises for the first time; noise does that too, so allow 1 nat": (
            {_first(np.diff(whole.smoothed, prepend=np.inf) > 0, steps)}
        ),
        "it ended where the smoothed loss is 1 nat above that of the step before; compare with the least so far": (
            {_first(np.diff(whole.smoothed, prepend=np.inf) > MARGIN, steps)}
        ),
        "it ended where a single loss is 1 nat above that of the step before; compare smoothed ones, with the least": (
            {_first(np.diff(whole.losses, prepend=np.inf) > MARGIN, steps)}
        ),
        "it ended where the smoothed loss is 10% above the least so far: the limit is 1 nat": (
            {_first(whole.smoothed > 1.1 * np.minimum.accumulate(whole.smoothed), steps)}
        ),
        "it ended where the smoothed loss is a tenth of a nat above the least so far: the limit is 1 nat": (
            {_first(whole.smoothed > np.minimum.accumulate(whole.smoothed) + 0.1, steps)}
        ),
        "it ended where the uncorrected mean is 1 nat above its least, which is near 0 at the start": (
            {_first(_over(smooth(whole.losses, corrected=False)), steps)}
        ),
    }
    said = [words for words, where in ends.items() if n in where]
    why = f": {said[0]}" if len(said) == 1 else ""
    made = f"the test made {n} of at most {steps} steps, and should have ended after {right}{why}"
    return f"{made}.\n→ Where to look: {FINDER}"


def _over(smoothed):
    return smoothed > np.minimum.accumulate(smoothed) + MARGIN


def _first(over, steps) -> int:
    return int(np.argmax(over)) + 1 if over.any() else steps


def explain_state(run, before, fresh):
    """What is wrong with the state in which a run was left, as a sentence; None when nothing is.

    run: W and count as they are. before: (W, count) as they were. fresh: a run as it was before, which is changed.
    """
    W, count = before
    changed = not np.array_equal(run.W, W)
    if changed and run.count != count:
        return "the run was not left as it was: take its state before the first step, and restore it after the last"
    if changed:
        for rate in run.asked:
            fresh.step(rate)
        where = "the run's weights are not as they were, though its place in the text is"
        kept = "they are those after the last step. A step changes the array run.W itself: keep a copy of it, as"
        return f"{where}: {kept} run.state() does, and put that back" if np.array_equal(run.W, fresh.W) else where
    if run.count != count:
        return "the run's weights are as they were, but not its place in the text: restore the whole state"
    return None
