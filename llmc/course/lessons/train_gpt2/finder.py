"""Lesson 22: what a learning-rate finder should try and find, and what known mistakes give instead.

Mistakes are {sentence after "x equals ": (array, where to look)}.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons.train_gpt2.places import FINDER
from llmc.course.old.checks.explain import describe

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
        "rates that come one step late, the lowest one twice: step k gets lowest times the k-th power of the factor": (
            grown(lowest, highest, steps)[np.maximum(k - 1, 0)]
        ),
        "the reference in reverse: begin with lowest": grown(lowest, highest, steps)[::-1],
        "the lowest rate in every step: the rate must grow": np.full(steps, lowest),
        "rates from 10**ln(lowest) on: the logarithm and the power need the same base": (
            _powers(10.0, np.log(lowest), np.log(highest), steps)
        ),
        "rates from e**log10(lowest) on: the logarithm and the power need the same base": (
            _powers(np.e, np.log10(lowest), np.log10(highest), steps)
        ),
        "rates from 10**lowest on: lowest is the first rate itself": (_powers(10.0, lowest, highest, steps)),
        "rates from e**lowest on: lowest is the first rate itself": _powers(np.e, lowest, highest, steps),
        "rates whose logarithms keep growing by more: each is the factor above the one before": (
            lowest * (highest / lowest) ** ((k / (steps - 1)) ** 2)
        ),
        "rates that double from step to step: the factor depends on highest and steps": lowest * 2.0**k,
        "rates that are ten times as large from step to step: the factor depends on highest and steps": lowest
        * 10.0**k,
    }
    return {said: (array, FINDER) for said, array in wrong.items()}


def _powers(base, first, last, steps):
    """(steps,) base to the power of numbers from first to last; inf where that overflows."""
    with np.errstate(over="ignore"):
        return base ** np.linspace(first, last, steps)


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
    kept, again, mixed = 0.0, [], [losses[0]]
    for at, loss in enumerate(losses):
        kept = (BETA * kept + (1 - BETA) * loss) / (1 - BETA ** (at + 1))
        again.append(kept)
    for one, loss in zip(losses, losses[1:]):
        mixed.append(BETA * one + (1 - BETA) * loss)
    wrong = {
        "the losses themselves: smooth them": losses,
        "the reference without the correction: divide by 1 - 0.9**(k + 1), because s began at 0": smooth(
            losses, corrected=False
        ),
        "the reference with 0.1 for what is kept and 0.9 for what is new: it is the other way round": smooth(
            losses, 0.1
        ),
        "the reference that begins with the first loss instead of 0": np.array(first),
        "the reference that begins with the first loss instead of 0, and is corrected as if it had begun with 0": (
            np.array(first) / (1 - BETA ** (k + 1))
        ),
        "the mean of the last ten losses: the smoothing here is an exponential mean": np.array(window),
        "the reference on a run that is restored after every step: restore it once, at the end": smooth(still),
        "the reference with 0.95 in place of 0.9": smooth(losses, 0.95),
        "the mean of all losses so far": np.cumsum(losses) / (k + 1),
        "the reference with 0.9**(k + 2) in the correction: step k has k + 1 losses": raw / (1 - BETA ** (k + 2)),
        "the reference with 0.1 for what is kept and 0.9 for what is new, and the correction of the right one": (
            smooth(losses, 0.1, corrected=False) / (1 - BETA ** (k + 1))
        ),
        "the reference with the corrected value kept in s: the next step goes on from the uncorrected one": (
            np.array(again)
        ),
        "the reference with the weights in reverse: the newest loss has the largest one": (
            np.cumsum(BETA**k * losses) / np.cumsum(BETA**k)
        ),
        "0.9 times the loss before + 0.1 times the new one: s keeps all losses so far": np.array(mixed),
        "ten times the uncorrected mean, which is what 0.9 · s + loss gives, and s / (1 - 0.9)": raw / (1 - BETA),
        "the reference without the factor 0.1 before the new loss, corrected": (
            raw / (1 - BETA) / (1 - BETA ** (k + 1))
        ),
        "the reference times 1 - 0.9**(k + 1): divide by it": raw * (1 - BETA ** (k + 1)),
        "the reference with 0.1**(k + 1) in the correction: what is left of the 0 at the start is 0.9**(k + 1)": (
            raw / (1 - (1 - BETA) ** (k + 1))
        ),
        "the reference divided by 0.9**(k + 1): the correction is 1 - 0.9**(k + 1)": raw / BETA ** (k + 1),
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
    steepest, slope = int(np.argmin(np.diff(smoothed))), int(np.argmin(np.gradient(smoothed)))
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
        "a tenth of the rate at which the smoothed loss falls most in one step: take that of the least": (
            rates[steepest] / 10
        ),
        "a tenth of the rate after that at which the smoothed loss falls most in one step: take that of the least": (
            rates[steepest + 1] / 10
        ),
        "the rate at which the smoothed loss falls most steeply: the task asks for a tenth of that of the least": (
            rates[slope]
        ),
        "a tenth of the rate at which the smoothed loss falls most steeply: take that of the least": rates[slope] / 10,
        "the least smoothed loss: return a tenth of its RATE": smoothed[k],
        "a tenth of the least smoothed loss: return a tenth of its RATE": smoothed[k] / 10,
        "the number of the step with the least smoothed loss: return a tenth of its rate": float(k),
        "the rate of a tenth of that step's number: a tenth of the rate itself": rates[k // 10],
        "the rate ten steps before that of the least smoothed loss: take a tenth of its rate": rates[max(k - 10, 0)],
        "a tenth of the rate one step later": rates[min(k + 1, len(rates) - 1)] / 10,
        "a tenth of the rate one step earlier": rates[max(k - 1, 0)] / 10,
    }
    return {said: (np.float64(number), FINDER) for said, number in wrong.items()}


def of_which_step(best, test):
    """A sentence on the step whose rate was recommended, or a tenth of it; None if it is that of no step."""
    rates, _, smoothed, right = test
    least = int(np.argmin(smoothed))
    for what, factor in (("the rate", 1.0), ("a tenth of the rate", 0.1)):
        at = np.flatnonzero(np.isclose(factor * rates, best, rtol=1e-9, atol=0))
        if at.size:
            k = int(at[0])
            where = f"{what} of step {k}, where the smoothed loss is {smoothed[k]:.4g}"
            best_is = f"it is least in step {least}, with {smoothed[least]:.4g}: a tenth of that step's rate is right"
            return f"You recommend {where}; {best_is}"
    return None


def explain_form(found, asked):
    """What is wrong with the form of what was returned, as a sentence; None when nothing is.

    asked: the rates of the run's steps; none where a copy of it was stepped, of which the check sees nothing.
    """
    made = len(asked)
    if found is None:
        return "nothing was returned"
    if not isinstance(found, tuple | list) or len(found) != 3:
        return f"return three values: `return rates, smoothed, best`; you returned {describe(found)}"
    for name, part in zip(("rates", "smoothed"), found):
        if not isinstance(part, np.ndarray) or part.ndim != 1:
            return f"{name} must be an array (n,), one number for each step that was made, not {describe(part)}"
        times = made // max(1, len(part))
        if times > 1 and made == times * len(part) and (np.repeat(asked[::times], times) == asked).all():
            return f"run.step was called {times} times with each rate"
        if made and len(part) != made:
            return f"{name} has {len(part)} numbers, and the run made {made} steps"
    rates, smoothed, _ = found
    if len(rates) != len(smoothed):
        return f"rates has {len(rates)} numbers, and smoothed has {len(smoothed)}"
    if not made and len(np.unique(smoothed)) < 2:
        return "the run made no step, and all numbers in smoothed are the same"
    return None
