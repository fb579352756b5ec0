"""Lessons 10 and 22: which settings cannot run, which did a learner's function try, and did it return the best?"""

import inspect
from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe, listed

GOAL = 0.26  # nats below the given settings' loss
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


def judge_run(c, loss, given_loss, given, chosen, runs):
    """WrongAnswer unless the loss of a run is GOAL nats below given_loss.

    given, chosen: settings. runs: those of the learner's function, as `noted` gives them.
    """
    if loss < given_loss - GOAL:
        return
    changed = [f"{name} {chosen[name]}" for name in given if chosen[name] != given[name]]
    told = f"{loss:.3f} nats per letter with {listed(changed, many=len(given)) or 'the given settings'}"
    told += f"; the given settings reach {given_loss:.3f}, and the goal is below {given_loss - GOAL:.3f}"
    why = not_the_least(runs, chosen.values(), "loss")
    raise WrongAnswer(f"{told}: {why}" if why else told, look=c.exercise.look_for())


@contextmanager
def noted(c, function, train):
    """Let the learner's function call `train`, and yield a list of ((setting, …), score), one for each such call.

    c: the check. train: a function of the notebook, whose first result is a score; less is better.
    """
    runs, variables, name = [], getattr(function, "__globals__", {}), train.__name__

    def noting(*values, **settings):
        result = train(*values, **settings)
        bound = inspect.signature(train).bind(*values, **settings)
        bound.apply_defaults()
        runs.append((tuple(bound.arguments.values()), float(result[0])))
        return result

    c.may_call(train, noting)
    variables[name] = noting
    try:
        yield runs
    finally:
        variables[name] = train


def not_the_least(runs, chosen, what) -> str:
    """A sentence if the chosen settings were tried, and others that were also tried had a lower score; else "".

    runs: what `noted` gives. chosen: (setting, …), all that come first among the arguments. what: a word for scores.
    """
    n = len(chosen)
    ours = [(settings[n:], score) for settings, score in runs if settings[:n] == tuple(chosen)]
    rest, score = ours[-1] if ours else ((), 0)
    scores = {each[:n]: s for each, s in runs if ours and each[n:] == rest and s == s}  # not NaN
    least = min(scores.values(), default=score)
    if not least < score:
        return ""
    which = f"the largest {what}, {score:.3f}" if score >= max(scores.values()) else f"a {what} of {score:.3f}"
    tried = f"of the {len(scores)} settings that your function tries, it returns those with {which}"
    return f"{tried}, and the smallest is {least:.3f}"


Exercise("best_settings", "10", look="9 · The learning-rate sweep")
