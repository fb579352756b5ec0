"""Lesson 20: what a learner's find_bug makes of runs that are invented, one property of real ones at a time.

Real runs with a bug differ from the healthy one in several ways at once; which of them is overlooked is tried here.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.contrast import listed, outcome

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
SIZES = (2, 3, 5, 8)
LAST = 100  # steps
SMALL = 0.06  # nats: by how much the least of the bugs shows
PLAIN = (
    "a run with the bug lies 1 nat above the healthy one at every step, and a run without it is the healthy one itself"
)


class Trial(NamedTuple):
    """Of these suspects, one has the bug; asked: what each run was asked for."""

    suspects: list
    bug: str
    asked: list
    answer: object


def left_after(suspects, bug, asked) -> list:
    """The suspects that can have the bug before the first run and after each."""
    left = [list(suspects)]
    for exact in asked:
        left.append([name for name in left[-1] if (name in exact) == (bug in exact)])
    return left


def needless(suspects, bug, asked, allowed) -> str | None:
    """A sentence about the first run whose outcome was known before; None if more than `allowed` others are left."""
    left = left_after(suspects, bug, asked)
    if sum(len(before) > len(after) for before, after in pairwise(left)) > allowed:
        return None
    for k, exact in enumerate(asked):
        if len(left[k]) == len(left[k + 1]):
            before = f"after run {k}" if k else "at the start"
            if len(left[k]) == 1:
                return f"Run {k + 1} shows nothing new: {before} the bug can only be in {left[k][0]}."
            some = f"{listed(left[k], 'or')}, {'none' if not set(left[k]) & set(exact) else 'all'} of them exact in it"
            return f"Run {k + 1} shows nothing new: {before} the bug can be in {some}."
    return None


def overlooked(function, healthy) -> str | None:
    """A sentence about what the search is right without, and wrong with; None if there is nothing of that kind."""
    if _first_wrong(function, healthy, lambda seed: healthy, healthy + 1) is not None:
        return None
    late, nan = healthy.copy(), healthy.copy()
    late[-LAST:] += 1
    nan[-LAST:] = np.nan
    ill = {
        "the bug makes the losses 1 nat lower": healthy - 1,
        f"the bug makes the losses only {SMALL} nats higher": healthy + SMALL,
        f"the bug shows in the last {LAST} steps alone": late,
        f"the bug makes the last {LAST} losses NaN": nan,
    }
    found = [words for words, losses in ill.items() if _first_wrong(function, healthy, lambda seed: healthy, losses)]
    noise = 0.002 * np.random.default_rng(0).standard_normal((4, healthy.size))  # (4, steps)
    if _first_wrong(function, healthy, lambda seed: healthy + noise[seed % 4], healthy + 1):
        found.append("a run without the bug differs from the healthy one by thousandths of a nat")
    if not found:
        return None
    return f"With invented runs your function is right where {PLAIN}. It is wrong where {' or where '.join(found)}."


def wrong_search(function, healthy) -> str | None:
    """A sentence about the smallest search that is wrong though each run tells plainly what it is; None if none is."""
    trial = _first_wrong(function, healthy, lambda seed: healthy, healthy + 1)
    return trial and _of_the_search(trial)


def _first_wrong(function, healthy, fine, ill) -> Trial | None:
    """The smallest Trial with a wrong answer; None if all are right, or if one stops with an error."""
    for n in SIZES:
        for bug in NAMES[:n]:
            asked = []

            def train(exact, bug=bug, asked=asked):
                asked.append(list(exact))
                return (fine(len(asked)) if bug in exact else ill).copy()

            answer = outcome(function, train, list(NAMES[:n]), healthy.copy())
            if isinstance(answer, Exception):
                return None
            if answer != bug:
                return Trial(list(NAMES[:n]), bug, asked, answer)
    return None


def _of_the_search(trial) -> str:
    """What the runs of a trial leave, and what the answer was."""
    left = left_after(trial.suspects, trial.bug, trial.asked)[-1]
    runs = ", then ".join(f"{exact}: {'' if trial.bug in exact else 'un'}like the healthy one" for exact in trial.asked)
    leave = f"leave {listed(left)}" if trial.answer not in left else f"leave {listed(left, 'or')}, more than one"
    return (
        f"It is wrong with invented runs, too, where {PLAIN}. Of the suspects {listed(trial.suspects)}, it asks for "
        f"exact = {runs or 'no run'}. These {leave}, and it answers {trial.answer!r}."
    )
