"""Lesson 22, the exercise about a budget: which settings can run, and why a run was not good enough."""

from numbers import Integral, Real

import numpy as np

from llmc.course.checks.explain import describe
from llmc.course.lessons.train_gpt2.places import BUDGET

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


def explain_settings(settings, given):
    """What is wrong with a dict of settings, as a sentence; None when it can run."""
    if settings is None:
        return "nothing was returned; is a `return` missing?"
    if not isinstance(settings, dict):
        return f"return a dict like {{'layers': 2, …}}; you returned {describe(settings)}"
    for name, value in settings.items():
        if name not in RANGES:
            return f"{name!r} cannot be set; the settings are {', '.join(given)}"
        kind, holds, what = RANGES[name]
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_) or not holds(value):
            return f"{name} must be {what}, not {value!r}"
    return None


def plain(settings) -> dict:
    """The same settings, NumPy's numbers among them as Python's."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def explain_run(run, given, chosen, standard) -> str:
    """Why a run was not good enough, as far as its numbers show.

    run, given: of the chosen settings and of the given ones, (bits per byte, losses, tokens) · chosen, standard: their
    settings.
    """
    (bits, losses, tokens), (given_bits, given_losses, given_tokens) = run, given
    n = len(losses)
    lines = [
        f"{bits:.3f} bits per byte after {n:,} steps and {tokens:,} letters; the given settings reach {given_bits:.3f} "
        f"after {len(given_losses):,} steps and {given_tokens:,} letters, and the goal is {GOAL:g} less than that"
    ]
    if not np.isfinite(bits) or np.max(losses) > losses[0] + 0.5:
        lines.append("the loss rose far above where it began: too high a learning rate does that, or beta2 near 0")
    elif chosen == standard:
        lines.append("these are the given settings")
    elif tokens < 2 * given_tokens:
        times = "as many" if tokens == given_tokens else f"{tokens / given_tokens:.2g} times as many"
        lines.append(
            f"the run saw {times} letters as the given one: in the same budget, a smaller model sees more, and nothing "
            "else gains so much"
        )
    elif n < 300:
        lines.append(f"{n} steps are few: a smaller batch makes more steps of the same letters")
    elif n >= 40 and np.mean(losses[-n // 2 : -n // 4]) - np.mean(losses[-n // 4 :]) > 0.08:
        lines.append("the loss was still falling in the last quarter: try more steps, or a higher learning rate")
    else:
        lines.append("the learning rate is the next thing to try, up and down by a factor of 3")
    return ". ".join([lines[0], lines[1][0].upper() + lines[1][1:]]) + f".\n→ Where to look: {BUDGET}"
