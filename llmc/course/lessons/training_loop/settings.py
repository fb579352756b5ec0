"""Lesson 10, a tuned run: which settings are none, and why a run did not reach the goal.

Whether a learning rate is too high is not read off a curve: the run is made again with another one.
"""

import time
from numbers import Integral, Real

import numpy as np

from llmc.course.lessons.training_loop.tried import not_the_least, noted  # noqa: F401, for the check
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer, describe, listed

GOAL = 0.26  # nats below the given settings' loss
USUAL = 1.5e-3, 1e-2  # learning rates between which another of them is not tried first
FAR = 1e-4, 0.1  # outside of these, one four times as high or low would not tell
RATE_AND_BATCH = "learning_rate", "batch_size"
GAIN, SECONDS = 0.03, 12.0  # nats that make a difference; processor time after which no other run is begun
RANGES = {  # name: (type, condition, what it must be)
    "batch_size": (Integral, lambda x: 2 <= x <= 64, "a whole number from 2 to 64"),
    "learning_rate": (Real, lambda x: 0 < x < float("inf"), "a number above 0"),
    "warmup": (Integral, lambda x: x >= 0, "a whole number of steps, 0 or more"),
    "schedule": (str, lambda x: x in ("cosine", "linear", "constant", "wsd"), "cosine, linear, constant or wsd"),
    "weight_decay": (Real, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    "beta2": (Real, lambda x: 0 <= x < 1, "a number from 0 to below 1"),
    "clip": (Real, lambda x: x > 0, "a number above 0"),
}


def explain_settings(settings, given):
    """What is wrong with a dict of settings, as a sentence; None when it can run."""
    if isinstance(settings, tuple) and len(settings) == 2 and isinstance(settings[1], list):
        return "that is what train_letters returns: a loss and losses. Return the settings with which you called it"
    if not isinstance(settings, dict):
        return f"return a dict like {{'batch_size': 8, …}}; you returned {describe(settings)}"
    return refused(settings, RANGES, given)


def refused(settings, ranges, given) -> str | None:
    """A sentence about the first setting that does not exist or is out of range; None without one.

    ranges: {name: (its type, does a value fit?, in words)}. given: the names that a sentence lists.
    """
    for name, value in settings.items():
        if name not in ranges:
            return f"{name!r} cannot be set; the settings are {', '.join(given)}"
        kind, holds, what = ranges[name]
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_) or not holds(value):
            return f"{name} must be {what}, not {value!r}"
    return None


def judge_run(loss, losses, given_loss, given, chosen, train, runs=()):
    """Raise WrongAnswer, which says why, if the loss of a run is not GOAL nats below given_loss.

    losses: of its training. given, chosen: settings. train(*settings) makes another run, for the reason.
    runs: those of the learner's function, as `noted` gives them.
    """
    if loss < given_loss - GOAL:
        return
    reached = f"{loss:.3f} nats per letter after {len(losses)} steps"
    others = [name for name in given if chosen[name] != given[name]]
    if others:
        reached += f" with {_valued(others, chosen)}, and the given settings reach {given_loss:.3f}"
    else:
        reached = f"you returned the given settings, {_valued(RATE_AND_BATCH, given)}: they reach {reached}"
    why = not_the_least(runs, chosen.values(), "loss")
    why = why or _of_the_warmup(losses, chosen) or _of_other_runs(loss, given, chosen, train)
    rose = not np.isfinite(loss) or max(losses) > losses[0] + 0.5
    reached += ", and the loss rose far above where it began" * rose
    raise WrongAnswer(f"{reached}. The goal is below {given_loss - GOAL:.3f}: {why}.", explained=True)


def _valued(names, settings) -> str:
    """Names with their values, as in "batch_size 16 and learning_rate 0.001"."""
    return listed([f"{name} {settings[name]}" for name in names], many=len(names))


def _of_the_warmup(losses, chosen) -> str:
    """A sentence on a warmup that is longer than the run, else ""."""
    warmup, steps = chosen["warmup"], len(losses)
    told = f"warmup lasts {warmup} steps and the run only {steps}, so it never reached its learning rate"
    return told if warmup > steps else ""


def _others(given, chosen) -> list:
    """Names of what is not as given, besides the learning rate and the batch size."""
    return [name for name in given if name not in RATE_AND_BATCH and chosen[name] != given[name]]


def _of_other_runs(loss, given, chosen, train) -> str:
    """The reason that other runs show: with another learning rate, a smaller batch, or the given settings elsewhere."""
    rate, batch = chosen["learning_rate"], chosen["batch_size"]
    others = _others(given, chosen)
    times, word = (100, "a hundred") if rate < FAR[0] else (4, "four")
    low = {"learning_rate": times * rate}, f"{word} times the learning rate"
    part, word = (100, "a hundredth") if rate > FAR[1] else (4, "a quarter")
    high = {"learning_rate": rate / part}, f"{word} of the learning rate"
    small = {"batch_size": batch // 4}, "a quarter of the batch size"
    tries = [high] * (rate > USUAL[1]) + [low] * (rate < USUAL[0])
    tries += [({name: given[name] for name in others}, f"the given {listed(others)}")] * bool(others)
    tries += [small] * (batch >= 8) + [each for each in (low, high) if each not in tries]
    end = time.thread_time() + SECONDS
    for change, words in tries if is_explaining() else ():
        again, _ = train(*(chosen | change).values())
        if again < loss - GAIN or np.isfinite(again) > np.isfinite(loss):
            return f"with {words} and all else as it is, the run ends at {again:.3f}"
        if time.thread_time() > end:
            break
    return "see the hints"
