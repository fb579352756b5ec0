"""Lesson 17: what the training loop of exercise 3 should give, what known mistakes give, and how often it may wait."""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons.gpu_training.places import DECIDED, LATER
from llmc.course.old.checks.contrast import listed
from llmc.course.old.checks.explain import WrongAnswer, describe


class Trained(NamedTuple):
    """losses, norms: (steps,). w: (C,)."""

    losses: np.ndarray
    norms: np.ndarray
    w: np.ndarray


def trained(w, batches, lr, max_norm, clip=True, cleared=True) -> Trained:
    """The losses and norms (before clipping) of every step, and the weights after the last."""
    w, losses, norms, gradient = w.copy(), [], [], np.zeros_like(w)
    for x, y in batches:
        error = x @ w - y  # (B,)
        losses.append((error**2).mean())
        gradient = 2 * error @ x / len(x) + (0 if cleared else gradient)  # (C,)
        norms.append(np.sqrt((gradient**2).sum()))
        gradient = gradient * (min(1.0, max_norm / norms[-1]) if clip else 1.0)
        w = w - lr * gradient
    return Trained(np.array(losses), np.array(norms), w)


def _a_step_late(w, batches, lr, max_norm):
    """The losses (steps,) where update comes between forward and backward: it takes the gradient of the step before."""
    losses, gradient = [], np.zeros_like(w)
    for batch in batches:
        step = trained(w, [batch], 1.0, max_norm)
        losses += [*step.losses]
        w, gradient = w - lr * gradient, w - step.w
    return np.array(losses)


def mistakes(w, batches, lr, max_norm) -> dict:
    """Known wrong losses, norms and weights."""
    right, free = trained(w, batches, lr, max_norm), trained(w, batches, lr, max_norm, clip=False)
    first, steps = trained(w, batches, 0.0, max_norm), len(batches)
    before_last = trained(w, batches[:-1], lr, max_norm).w
    last = "the last step's, everywhere"
    after = "the norms AFTER clipping, not before it"
    late = np.append(right.losses[1:], right.losses[-1:])  # (steps,)
    return {
        "losses": {
            last: (np.full(steps, right.losses[-1]), LATER),
            "the losses of a run that was never clipped": (free.losses, DECIDED),
            "the losses of the first weights": (first.losses, LATER),
            "the losses of the steps that follow": (late, LATER),
            "the losses with updates by the gradients of the step before": (
                _a_step_late(w, batches, lr, max_norm),
                LATER,
            ),
        },
        "norms": {
            last: (np.full(steps, right.norms[-1]), LATER),
            "the norms of the first weights": (first.norms, LATER),
            after: (np.minimum(right.norms, max_norm), DECIDED),
            "the norms of a run that was never clipped": (free.norms, DECIDED),
        },
        "w": {
            "those of a run that was never clipped": (free.w, DECIDED),
            "those before the first step": (w, LATER),
            "those before the last step": (before_last, LATER),
        },
    }


def norm_before_backward(queue, results):
    """A function of nothing, for `compare`: a sentence if each norm was 0, and asked for before `backward`; or None."""
    calls = [name for name in queue.calls if name in ("norm", "backward")]
    early = calls == ["norm", "backward"] * (len(calls) // 2) and not np.any(np.array(results[1], float))
    said = "norms are 0: each step launches `norm` before `backward`, when the gradients are 0"
    return lambda: said if early else None


def two_lists(results, steps):
    """The losses and the norms; WrongAnswer unless they are two lists of numbers, as many as there are steps."""
    if not isinstance(results, tuple | list) or len(results) != 2:
        raise WrongAnswer(f"return two lists, losses and norms, not {describe(results)}.")
    for name, numbers in zip(("losses", "norms"), results):
        if not isinstance(numbers, list | tuple | np.ndarray):
            raise WrongAnswer(f"{name} should be a list of floats, not {describe(numbers)}.")
        if len(numbers) != steps:
            raise WrongAnswer(f"{name} has {len(numbers)} numbers, but there were {steps} steps: one for each of them.")
        other = next((x for x in numbers if not isinstance(x, float | int | np.floating)), None)
        if other is not None:
            kind = type(other).__name__
            raise WrongAnswer(f"{name} holds a {kind}, not a float.")
    return results


def _in_every_step(calls, steps) -> bool:
    """Is there a wait after each forward pass, before the next?"""
    per_step = " ".join(calls).split("forward")[1:]
    return len(per_step) == steps and all("wait" in step for step in per_step)


def _between_the_waits(calls) -> str:
    first, last = calls.index("wait"), len(calls) - 1 - calls[::-1].index("wait")
    names = dict.fromkeys(name for name in calls[first:last] if name != "wait")
    return f"Between the first wait and the last it launched {listed(f'`{name}`' for name in names)}."


def waits_once(queue, steps, where):
    """WrongAnswer if the loop waited before its end, or took numbers that a GPU would not have had yet.

    queue: the exercise's pretend GPU, whose `calls` are the names of what was launched, and "wait".
    """
    if queue.waits == 0:
        raise WrongAnswer(
            "the numbers are right, but the host never waited for them: on a GPU they would not be there yet. Read a "
            f"Number with float(…), after the loop.\n→ Where to look: {where}."
        )
    if queue.waits > 1:
        each = " (that is in every step)" if steps > 1 and _in_every_step(queue.calls, steps) else ""
        early = "" if each else f"\n{_between_the_waits(queue.calls)}"
        raise WrongAnswer(
            f"right, but the host waited {queue.waits} times in {steps} step{'s' * (steps > 1)}{each}; once is enough, "
            f"after the last launch.\nA float(…) waits, and so does a comparison of a Number, as in an if."
            f"{early}\n→ Where to look: {where}."
        )
    k = queue.calls.index("wait")
    if later := queue.calls[k + 1 :]:
        raise WrongAnswer(
            f"the numbers are right, and there is a single wait, but it comes too early: after the host had waited, it "
            f"launched {listed(f'`{name}`' for name in later)}. Wait once, after the last launch.\n"
            f"Before the wait it had launched {listed([f'`{name}`' for name in queue.calls[:k]][-2:])}.\n"
            f"→ Where to look: {where}."
        )
