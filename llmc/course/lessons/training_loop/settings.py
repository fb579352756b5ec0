"""Lesson 10, exercise 6: which settings are none, and why a run did not reach the goal.

Whether a learning rate is too high is not read off a curve: the run is made again with another one.
"""

from numbers import Integral, Real

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe, listed
from llmc.course.lessons.training_loop.tried import not_the_least

GOAL, GAIN = 0.26, 0.03  # nats below the given settings' loss; nats that make a difference
RUNS = 3  # that are made to find the reason
# learning rates up to this one: by which factor another one is tried, in words
RATES = (1e-4, 100, "100 times"), (4e-3, 4, "4 times"), (0.1, 1 / 4, "a quarter of"), (np.inf, 1 / 100, "1/100 of")
RATE_AND_BATCH = "learning_rate", "batch_size"
RANGES = {  # name: (type, condition, what it must be)
    "batch_size": (Integral, lambda x: 2 <= x <= 64, "a whole number from 2 to 64"),
    "learning_rate": (Real, lambda x: 0 < x < float("inf"), "a number above 0"),
    "warmup": (Integral, lambda x: x >= 0, "a whole number of steps, 0 or more"),
    "schedule": (str, lambda x: x in ("cosine", "linear", "constant", "wsd"), "cosine, linear, constant or wsd"),
    "weight_decay": (Real, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    "beta2": (Real, lambda x: 0 <= x < 1, "a number from 0 to below 1"),
    "clip": (Real, lambda x: x > 0, "a number above 0"),
}


def completed(settings, given) -> dict:
    """All settings of a run; WrongAnswer if these cannot run. given: those that are not set."""
    told = f"return a dict like {{'batch_size': 8, …}}, not {describe(settings)}"
    told = refused(settings, RANGES, given) if isinstance(settings, dict) else told
    if told:
        raise WrongAnswer(told)
    return given | settings


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


def judge_run(c, loss, losses, given_loss, given, chosen, train, runs=()):
    """WrongAnswer, which says why, unless the loss of a run is GOAL nats below given_loss.

    losses: of its training. given, chosen: settings. train(*settings) makes another run, for the reason.
    runs: those of the learner's function, as `noted` gives them.
    """
    if loss < given_loss - GOAL:
        return
    changed, steps = [name for name in given if chosen[name] != given[name]], len(losses)
    valued = listed([f"{name} {chosen[name]}" for name in changed or RATE_AND_BATCH], many=len(given))
    reached = f"{loss:.3f} nats per letter after {steps} steps"
    as_given = f"you returned the given settings, {valued}: they reach {reached}"
    reached = f"{reached} with {valued}, and the given settings reach {given_loss:.3f}" if changed else as_given
    rose = ", and the loss rose far above where it began" * (not max(losses) <= losses[0] + 0.5)  # or is NaN
    warmup = f"warmup lasts {chosen['warmup']} steps and the run only {steps}, so it never reached its learning rate"
    why = not_the_least(runs, chosen.values(), "loss") or warmup * (chosen["warmup"] > steps)
    why = why or (_of_other_runs(loss, chosen, {name: given[name] for name in changed}, train) if c.explains else "")
    told = f"{reached}{rose}. The goal is below {given_loss - GOAL:.3f}: {why or 'see the hints'}"
    raise WrongAnswer(told, look=c.exercise.look_for())


def _of_other_runs(loss, chosen, given, train) -> str:
    """The reason that other runs show: with another learning rate, a smaller batch, or some settings as given."""
    rate, batch = (chosen[name] for name in RATE_AND_BATCH)
    given = {name: value for name, value in given.items() if name not in RATE_AND_BATCH}
    factor, words = next((factor, words) for most, factor, words in RATES if rate <= most)
    tries = [(given, f"the given {listed(given)}")] * bool(given)
    tries += [({"batch_size": batch // 4}, "a quarter of the batch size")] * (batch >= 8)
    first = 0 if not 1.5e-3 < rate <= 1e-2 else RUNS  # a usual one is not tried first
    tries.insert(first, ({"learning_rate": factor * rate}, f"{words} the learning rate"))
    for change, words in tries[:RUNS]:
        again, _ = train(*(chosen | change).values())
        if again < loss - GAIN or np.isfinite(again) > np.isfinite(loss):
            return f"with {words} and all else as it is, the run ends at {again:.3f}"
    return ""


Exercise("best_settings", "10", look="9 · The learning-rate sweep")
