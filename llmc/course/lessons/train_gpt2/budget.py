"""Lesson 22, the exercise about a budget: which settings can run, and why a run was not good enough."""

from numbers import Integral, Real

import numpy as np

from llmc.course.lessons.train_gpt2.places import BUDGET
from llmc.course.lessons.training_loop.settings import refused
from llmc.course.lessons.training_loop.tried import not_the_least, noted  # noqa: F401, for the check
from llmc.course.old.checks.contrast import listed
from llmc.course.old.checks.explain import WrongAnswer, describe

GOAL = 0.7  # bits per byte that must be won

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


TRIED = 0.2  # of the budget: what a run may cost that only looks for a reason
FEW = 300  # steps: in a fifth of them hardly anything is learnt that tells settings apart
HELPS = 0.05  # bits per byte
FACTORS = 0.1, 0.3, 3.0  # by which another learning rate is tried


def restore(given, before):
    """Give GIVEN its values again; WrongAnswer if they were others than before the call."""
    changed = [name for name in {**before, **given} if given.get(name) != before.get(name)]
    given.clear()
    given.update(before)
    if changed:
        raise WrongAnswer(
            f"your function changes GIVEN itself: {listed(changed)} {'was' if len(changed) == 1 else 'were'} not as "
            "given any more. Return a dict of what differs, or change a copy, GIVEN.copy(). GIVEN has its values again "
            "now.",
            explained=True,
        )


def explain_settings(settings, given):
    """What is wrong with a dict of settings, as a sentence; None when it can run."""
    if settings is None:
        return "nothing was returned"
    if isinstance(settings, tuple) and len(settings) == 3 and isinstance(settings[1], list):
        return "that is what train_letters returns: bits, losses, letters. Return the settings with which you called it"
    if not isinstance(settings, dict):
        return f"return a dict like {{'layers': 2, …}}; you returned {describe(settings)}"
    return refused(settings, RANGES, given)


def plain(settings) -> dict:
    """The same settings, NumPy's numbers among them as Python's."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def _other_settings(chosen, standard, again) -> str:
    """What short runs reach whose settings differ from the chosen ones in one thing."""
    rate, channels, rows = (chosen[name] for name in ("learning_rate", "channels", "batch_size"))
    tries = {f"learning_rate {factor * rate:.2g}": {"learning_rate": factor * rate} for factor in FACTORS}
    others = [
        name
        for name in ("learning_rate", "warmup", "schedule", "weight_decay", "beta2")
        if chosen[name] != standard[name]
    ]
    tries |= {f"the given {name}": {name: standard[name]} for name in others}
    smaller = {"channels": max(8, channels // 8 * 4), "batch_size": max(4, rows // 2), "layers": 1}
    tries |= {f"{name} {n}": {name: n} for name, n in smaller.items() if n < chosen[name]}
    bits, *found = (again(**chosen | change, share=TRIED)[0] for change in ({}, *tries.values()))
    said = ", ".join(f"{each:.2f} with {what}" for what, each in zip(tries, found))
    best = min(((each, what) for each, what in zip(found, tries) if np.isfinite(each)), default=(np.inf, ""))
    helps = "none of these" if best[0] > bits - HELPS else best[1]
    return f"in a fifth of the budget these settings reach {bits:.2f} bits, {said}: what helps is {helps}"


def _with_more_steps(bits, steps, chosen, again) -> str:
    """A sentence if a smaller batch, or shorter rows where it is as small as may be, reach fewer bits; else ""."""
    rows, length = chosen["batch_size"], chosen["length"]
    name, n = ("batch_size", max(4, rows // 4)) if rows > 4 else ("length", max(8, length // 4))
    found, losses, _ = again(**chosen | {name: n})
    if not found < bits - HELPS:
        return ""
    made = f"{len(losses)} steps and not {steps}"
    return f"with {name} {n} and all else as it is there are {made}, for {found:.2f} bits"


def demand(run, given, chosen, standard, again, runs=()):
    """WrongAnswer unless the run is better than the given one by GOAL; arguments as of `explain_run`."""
    if not run[0] < given[0] - GOAL:  # NaN, too
        raise WrongAnswer(explain_run(run, given, chosen, standard, again, runs), explained=True)


def explain_run(run, given, chosen, standard, again, runs=()) -> str:
    """Why a run was not good enough, as far as its numbers show, and what others give that are tried for this.

    run, given: of the chosen settings and of the given ones, (bits per byte, losses, tokens) · chosen, standard: their
    settings · again(**settings, share=…): such a run, of that share of the budget · runs: those of the learner's
    function, as `noted` gives them.
    """
    (bits, losses, tokens), (given_bits, given_losses, given_tokens) = run, given
    lines = [
        f"{bits:.3f} bits per byte after {len(losses):,} steps and {tokens:,} letters; the given settings reach "
        f"{given_bits:.3f} after {len(given_losses):,} steps and {given_tokens:,} letters, and the goal is {GOAL:g} "
        "less than that"
    ]
    far = not np.isfinite(bits) or np.max(losses) > losses[0] + 0.5
    rose = ["the loss rose far above where it began"] if far else []
    better = not_the_least(runs, chosen.values(), "number of bits")
    if better:
        lines.append(better)
    elif chosen == standard:
        lines.append("these are the given settings")
    elif tokens < 2 * given_tokens:
        times = "as many" if tokens == given_tokens else f"{tokens / given_tokens:.2g} times as many"
        theirs = listed([f"{name} {value}" for name, value in chosen.items() if value != standard[name]])
        lines += rose
        lines.append(
            f"with {theirs}, the run saw {times} letters as the given one: in the same budget, a smaller model sees "
            "more"
        )
    elif len(losses) < FEW and (more := _with_more_steps(bits, len(losses), chosen, again)):
        lines += [*rose, more]
    else:
        lines += [*rose, _other_settings(chosen, standard, again)]
    lines = [lines[0], *(f"{line[0].upper()}{line[1:]}" for line in lines[1:])]
    return ". ".join(lines) + f".\n→ Where to look: {BUDGET}"
