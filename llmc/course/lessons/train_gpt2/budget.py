"""Lesson 22, exercise 3: which settings can run, and why a run with them was not good enough."""

from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe, listed
from llmc.course.lessons.training_loop.settings import not_the_least, noted, refused  # noqa: F401, for the check cell

GOAL = 0.7  # bits per byte that must be gained
RANGES = {  # name: (type, condition, what it must be)
    "layers": (Integral, lambda x: 1 <= x <= 8, "a whole number from 1 to 8"),
    "channels": (Integral, lambda x: 8 <= x <= 256 and x % 4 == 0, "a whole number from 8 to 256, and a multiple of 4"),
    "length": (Integral, lambda x: 8 <= x <= 128, "a whole number from 8 to 128"),
    "batch_size": (Integral, lambda x: 4 <= x <= 64, "a whole number from 4 to 64"),
    "learning_rate": (Real, lambda x: 0 < x < float("inf"), "a number above 0"),
    "warmup": (Real, lambda x: 0 <= x <= 1, "a share of the steps, from 0 to 1"),
    "schedule": (str, lambda x: x in ("cosine", "linear", "constant", "wsd"), "cosine, linear, constant or wsd"),
    "weight_decay": (Real, lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    "beta2": (Real, lambda x: 0 <= x < 1, "a number from 0 to below 1"),
}


@contextmanager
def unchanged(given):
    """Give GIVEN its values back after the block; WrongAnswer if they had changed."""
    before = given.copy()
    try:
        yield
    finally:
        changed = [name for name in before | given if given.get(name) != before.get(name)]
        given.clear()
        given.update(before)
    if changed:
        were = f"{listed(changed)} {'was' if len(changed) == 1 else 'were'} no longer as given"
        do = "Return a dict of what differs, or change a copy, GIVEN.copy(). GIVEN has its values again now."
        raise WrongAnswer(f"your function changes GIVEN itself: {were}", more=[do])


def completed(settings, given) -> dict:
    """All settings of a run, NumPy's numbers as Python's; WrongAnswer if these cannot run."""
    if not isinstance(settings, dict):
        got = "nothing was returned" if settings is None else f"you returned {describe(settings)}"
        raise WrongAnswer(f"{got}: return a dict of settings like {{'layers': 2, …}}")
    if told := refused(settings, RANGES, given):
        raise WrongAnswer(told)
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    return given | plain


def judge_run(c, run, given_run, chosen, given, runs=()):
    """WrongAnswer, which says why, unless the run reaches GOAL bits per byte less than the given one.

    run, given_run: (bits per byte, losses, letters) with the settings `chosen` and `given`. runs: those of the
    learner's function, as `noted` gives.
    """
    (bits, losses, letters), (least, given_losses, usual) = run, given_run
    if bits < least - GOAL:
        return
    told = f"{bits:.3f} bits per byte after {len(losses):,} steps and {letters:,} letters; the given settings reach "
    told += f"{least:.3f} after {len(given_losses):,} steps and {usual:,} letters; the goal is {GOAL:g} less than that"
    why = []
    if not np.isfinite(bits) or max(losses, default=0) > (losses or [0])[0] + 0.5:
        why.append("The loss rose far above where it began.")
    if better := not_the_least(runs, chosen.values(), "number of bits"):
        why.append(f"O{better[1:]}.")  # of …
    elif letters < 2 * usual:
        why.append(f"It saw {letters / usual:.2g} times as many letters as the given run: a smaller model sees more.")
    raise WrongAnswer(told, more=why, look=c.exercise.look_for())


Exercise("best_budget", "22", look="1 · What fits into three minutes?")
