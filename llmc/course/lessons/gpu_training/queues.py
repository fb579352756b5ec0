"""Lesson 17, exercise 3: what the training loop should give, and how often it may wait."""

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe, listed

LATER, DECIDED = "4.3 · Where waits hide", "5.2 · What changes must lie in memory"


def runs(c):
    """w (C,), batches [(x (B, C), y (B,)), …], lr, max_norm: to be clipped, or not (C = 2); a single step."""
    for count, B, C in ((9, 5, 3), (4, 7, 2), (6, 3, 5), (1, 4, 3)):
        batches = [(c.random(B, C), c.random(B)) for _ in range(count)]
        yield c.random(C), batches, c.rng.uniform(0.001, 0.01), c.rng.uniform(5, 40) if C != 2 else 1e6


def trained(w, batches, lr, max_norm):
    """losses, norms (steps,) before clipping, and the weights (C,) after the last step."""
    losses, norms = [], []
    for x, y in batches:
        error = x @ w - y  # (B,)
        gradient = 2 * error @ x / len(x)  # (C,)
        losses.append((error**2).mean())
        norms.append(np.sqrt((gradient**2).sum()))
        w = w - lr * min(1.0, max_norm / norms[-1]) * gradient
    return np.array(losses), np.array(norms), w


def judge_run(c, queue, model, results, w, batches, lr, max_norm):
    """WrongAnswer unless losses, norms and weights are right, and the host has waited once, at the end."""
    losses, norms, last = trained(w, batches, lr, max_norm)
    look, steps = c.exercise.look_for(), len(batches)
    got = two_lists(results, steps)
    early = [name for name in queue.calls if name in ("norm", "backward")][:2] == ["norm", "backward"]
    if early and not np.any(got[1]):
        told = "all norms are 0: each step launches `norm` before `backward`, when the gradients are 0"
        raise WrongAnswer(told, look=look)
    for c.comparing, mine, right in zip(("losses", "norms"), got, (losses, norms)):
        compare(f"the list of {c.comparing}", np.array(mine, float), right, look=look)
    c.comparing = ""
    known = {"what it was before the last step": trained(w, batches[:-1], lr, max_norm)[2]}
    compare("model.w after the last step", model.w, last, known=known, look=c.exercise.place(DECIDED))
    if model.grads.any():
        raise WrongAnswer("model.grads is not 0 after the last step", look=look)
    waits_once(queue, steps, look)


def two_lists(results, steps):
    """The losses and the norms; WrongAnswer unless they are two lists of numbers, as many as there are steps."""
    if not isinstance(results, tuple | list) or len(results) != 2:
        raise WrongAnswer(f"return two lists, losses and norms, not {describe(results)}", Kind.SHAPE)
    for name, numbers in zip(("losses", "norms"), results):
        if not isinstance(numbers, list | tuple | np.ndarray) or len(numbers) != steps:
            wanted = f"a list of {name}, one for each of {steps} steps"
            raise WrongAnswer(f"{wanted}, is expected, not {describe(numbers)}", Kind.SHAPE)
        other = next((x for x in numbers if not isinstance(x, float | int | np.floating)), None)
        if other is not None:
            raise WrongAnswer(f"the list of {name} holds a {type(other).__name__}, not a float", Kind.SHAPE)
    return results


def waits_once(queue, steps, look):
    """WrongAnswer if the loop waited before its end, or took numbers that a GPU would not have had yet.

    queue: the exercise's pretend GPU, whose `calls` are the names of what was launched, and "wait".
    """
    calls, times = queue.calls, f"{queue.waits} times in {steps} step{'s' * (steps > 1)}"
    if queue.waits == 0:
        told = "the numbers are right, but the host never waited for them: on a GPU they would not be there yet"
        raise WrongAnswer(told, more=["Read a Number with float(…), after the loop."], look=look)
    if queue.waits > 1:
        first, last = calls.index("wait"), len(calls) - 1 - calls[::-1].index("wait")
        between = listed(f"`{name}`" for name in dict.fromkeys(calls[first:last]) if name != "wait")
        why = "A float(…) waits, and so does a comparison of a Number, as in an `if`."
        more = [why, f"Between the first wait and the last it launched {between}."]
        told = f"right, but the host waited {times}; once is enough, after the last launch"
        raise WrongAnswer(told, Kind.DEMAND, more=more, look=look)
    if later := calls[calls.index("wait") + 1 :]:
        told = "right, with a single wait, but it comes too early: after it the host launched"
        raise WrongAnswer(f"{told} {listed(f'`{name}`' for name in later)}", Kind.DEMAND, look=look)


Exercise(
    "train_ahead",
    "17",
    returns="losses norms",
    cases=runs,
    look=LATER,
    mistakes=rf"""
        with the number of the last step for every step: `forward` overwrites it | forward(x, y).copy() => forward(x, y)
        with the number of the last step for every step: `norm` overwrites it | norm().copy() => norm()
        [{DECIDED}] without clipping | model.clip(max_norm) => pass
        [{DECIDED}] with the norms after clipping, not before it
            | norms.append(model.norm().copy()) => model.clip(max_norm); norms.append(model.norm().copy())
            ;; model.clip(max_norm)\n => pass\n
        = what the first weights give in every step: no update comes in between
            | losses, norms = [], [] => losses, norms = [model.forward(x, y).copy() for x, y in batches], []
            ;; losses.append(model.forward(x, y).copy()) => pass
        with updates by the gradients of the step before
            | model.backward() => model.update(lr); model.backward() ;; model.update(lr)\n => pass\n
        without zeroing the gradients, which add up from step to step | model.update(lr) => model.w -= lr * model.grads
        without updates | model.update(lr) => model.grads[...] = 0
    """,
)
