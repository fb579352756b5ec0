"""Lesson 22, exercise 3: which settings can run, and why a run with them was not good enough."""

from contextlib import contextmanager
from numbers import Integral, Real

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe, listed
from llmc.course.lessons.training_loop.settings import refused
from llmc.course.lessons.training_loop.tried import not_the_least, noted  # noqa: F401, for the check cell

GOAL, HELPS = 0.7, 0.05  # bits per byte that must be won; that make a difference
FEW, SHARE = 300, 0.2  # steps, of which a shorter run would learn hardly anything; of the budget: such a shorter run
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
    """Give GIVEN its values again after the block; WrongAnswer if they were others."""
    before = given.copy()
    try:
        yield
    finally:
        changed = [name for name in before | given if given.get(name) != before.get(name)]
        given.clear()
        given.update(before)
    if changed:
        were = f"{listed(changed)} {'was' if len(changed) == 1 else 'were'} not as given any more"
        do = "Return a dict of what differs, or change a copy, GIVEN.copy(). GIVEN has its values again now."
        raise WrongAnswer(f"your function changes GIVEN itself: {were}", more=[do])


def completed(settings, given) -> dict:
    """All settings of a run, NumPy's numbers as Python's; WrongAnswer if these cannot run."""
    if isinstance(settings, tuple) and len(settings) == 3 and isinstance(settings[1], list):
        told = "that is what train_letters returns: bits, losses, letters. Return the settings with which you called it"
    elif not isinstance(settings, dict):
        got = "nothing was returned" if settings is None else f"you returned {describe(settings)}"
        told = f"{got}: return a dict like {{'layers': 2, …}}"
    else:
        told = refused(settings, RANGES, given)
    if told:
        raise WrongAnswer(told)
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    return given | plain


def judge_run(c, run, given_run, chosen, given, train, runs=()):
    """WrongAnswer, which says why, unless the run reaches GOAL bits per byte less than the given one.

    run, given_run: (bits per byte, losses, letters) with the settings `chosen` and `given`. train(**settings, share=…):
    another run, of that share of the budget, for the reason. runs: those of the learner's function, as `noted` gives.
    """
    (bits, losses, letters), (least, _, usual) = run, given_run
    if bits < least - GOAL:
        return
    told = f"{bits:.3f} bits per byte after {len(losses):,} steps and {letters:,} letters; the given settings reach "
    told += f"{least:.3f} after {len(given_run[1]):,} steps and {usual:,} letters; the goal is {GOAL:g} less than that"
    rose = not np.isfinite(bits) or max(losses, default=0) > (losses or [0])[0] + 0.5
    better, why = not_the_least(runs, chosen.values(), "number of bits"), ""
    if better:
        why = f"O{better[1:]}."  # of …
    elif chosen == given:
        why = "These are the given settings."
    elif letters < 2 * usual:
        times = "as many" if letters == usual else f"{letters / usual:.2g} times as many"
        theirs = listed([f"{name} {value}" for name, value in chosen.items() if value != given[name]], many=len(given))
        why = f"With {theirs}, the run saw {times} letters as the given one: a smaller model sees more."
    elif c.explains:
        why = _of_others(len(losses), chosen, given, train)
    more = ["The loss rose far above where it began."] * bool(rose)
    raise WrongAnswer(told, more=[*more, *[why] * bool(why)], look=c.exercise.look_for())


def _of_others(steps, chosen, given, train) -> str:
    """What runs reach whose settings differ from the chosen ones in one thing: short ones, if these have many steps."""
    smaller = {"batch_size": chosen["batch_size"] // 4, "length": chosen["length"] // 4}
    tries = [(name, max(n, 4 if name == "batch_size" else 8)) for name, n in smaller.items()]
    tries = [(name, n) for name, n in tries if n < chosen[name]]
    few = steps < FEW and bool(tries)
    if not few:
        tries += [("learning_rate", factor * chosen["learning_rate"]) for factor in (0.1, 0.3, 3.0)]
        tries += [(name, given[name]) for name in [*given][4:] if given[name] != chosen[name]]
        tries += [("layers", 1)] * (chosen["layers"] > 1)
    share, part = (1, "whole") if few else (SHARE, "fifth of the")
    bits, *found = (train(**chosen | dict([one]), share=share)[0] for one in (("layers", chosen["layers"]), *tries))
    words = [f"{name} {value if isinstance(value, int | str) else format(value, '.2g')}" for name, value in tries]
    said = ", ".join(f"{each:.2f} with {what}" for what, each in zip(words, found))
    best = min(((each, what) for each, what in zip(found, words) if np.isfinite(each)), default=(np.inf, ""))
    helps = "none of these" if best[0] > bits - HELPS else best[1]
    return (
        f"In {'the' if few else 'a'} {part} budget these settings reach {bits:.2f} bits, {said}: what helps is {helps}."
    )


Exercise("best_budget", "22", look="1 · What fits into three minutes?")
