"""Lesson 22, the exercise about logs: which run has which broken setting, and what is wrong with the answers."""

from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from llmc.course.lessons.train_gpt2.conditions import AS_WELL, told
from llmc.course.lessons.train_gpt2.logs import BROKEN, FILE, SETTINGS, as_log
from llmc.course.lessons.train_gpt2.places import LOGS, SICK
from llmc.course.old.checks.explain import WrongAnswer, describe


class Run(NamedTuple):
    """One log. setting: what is broken, None for a healthy run; value: what it was given by mistake."""

    setting: str | None
    value: str
    log: str
    rows: np.ndarray  # (steps, 3) loss, learning rate, norm
    val: np.ndarray  # (validations,)


@lru_cache
def runs() -> list[Run]:
    """All runs of the file, the healthy ones first."""
    found = []
    with np.load(FILE) as file:
        for key in (name.removesuffix("/rows") for name in file.files if name.endswith("/rows")):
            setting, value, _ = key.split("/")
            rows, val = file[f"{key}/rows"].astype(np.float64), file[f"{key}/val"].astype(np.float64)
            found.append(Run(None if setting == "none" else setting, value, as_log(rows, val), rows, val))
    return found


def healthy() -> str:
    """The log of a healthy run that is none of the cases."""
    return runs()[0].log


def cases(rng) -> list[Run]:
    """Every broken run, and the healthy ones but the first, in any order."""
    found = runs()[1:]
    return [found[k] for k in rng.permutation(len(found))]


def explain(tried, function):
    """WrongAnswer unless every answer is right. tried: [(Run, answer)] of the learner's function."""
    for _, answer in tried:
        if answer is not None and (not isinstance(answer, str) or answer not in BROKEN):
            known = ", ".join(map(repr, BROKEN))
            raise WrongAnswer(f"return one of {known}, or None for a healthy run; you returned {describe(answer)}.")
    wrong = [(run, answer) for run, answer in tried if answer != run.setting]
    if not wrong:
        return
    run, answer, shown = _shown(tried, wrong, function)
    lines = [
        f"{_named(run)}, and your answer is {answer!r}.",
        *shown,
        *_pattern(tried, wrong),
        _of_rates(run),
        f"→ Where to look: {SICK}, and {LOGS}",
        "",
    ]
    raise WrongAnswer("\n".join([*lines, *_measured(run), *_others(wrong, len(tried))]), explained=bool(shown))


def _shown(tried, wrong, function):
    """(run, answer, sentences) of the wrong answer that is shown: the first, or one that two conditions compete for."""
    answers = {answer for _, answer in tried}
    with_words = ((run, answer, told(function, (run.log, healthy()), run.setting, answers)) for run, answer in wrong)
    first = next(with_words)
    return next((each for each in chain([first], with_words) if AS_WELL in " ".join(each[2])), first)


def _named(run) -> str:
    if run.setting is None:
        return "nothing was broken in one of the runs"
    return f"the broken setting was {run.setting!r} ({run.value} instead of {SETTINGS[run.setting]})"


def _pattern(tried, wrong):
    """What the wrong answers have in common, as far as they show it."""
    answers = {answer for _, answer in tried}
    if len(answers) == 1:
        yield f"All {len(tried)} logs got the same answer."
        return
    kinds = {run.setting for run, _ in wrong}
    if kinds == {None}:
        yield f"Only healthy runs are wrong{'' if None in answers else ': your function never answers None'}."
    elif len(kinds) == 1:
        (kind,) = kinds
        values = {run.value for run, _ in wrong}
        right = [run.value for run, answer in tried if run.setting == kind and answer == kind]
        if right and not values & set(right):
            yield f"With {kind} at {', '.join(sorted(set(right)))} the answer is right."
        elif not right:
            yield f"All other kinds are right; {kind!r} never is."
    elif all(answer is None for _, answer in wrong):
        yield "All the wrong answers are None: these runs were taken for healthy ones."


def _of_rates(run) -> str:
    """What the learning rates of a run are beside those of the healthy one, as its log has them."""
    rates, good = (log.rows[:, 1].round(6) for log in (run, runs()[0]))
    if np.array_equal(rates, good):
        return "Its learning rates are those of the healthy log, in every step."
    if np.array_equal(rates[:40], good[:40]):
        return "Its learning rates are those of the healthy log in the first 40 steps, and others after them."
    factors, top = rates[1:300] / good[1:300], int(rates.argmax())
    if np.allclose(factors, factors[0], rtol=0.05):
        return f"All of its learning rates, from the first on, are {factors.mean():.2g} times those of the healthy log."
    return f"Its highest learning rate is that of step {top}; in the healthy log it is that of step {good.argmax()}."


def _measured(run):
    """Numbers of this log beside those of the healthy one."""
    good = runs()[0]
    yield f"    {'in the log':<46}{'this run':>10}{'healthy':>10}"
    for words, number in NUMBERS.items():
        yield f"    {words:<46}{number(run):>10.3g}{number(good):>10.3g}"


NUMBERS = {
    "learning rate, first step": lambda run: run.rows[0, 1],
    "learning rate, step 40": lambda run: run.rows[40, 1],
    "learning rate, step 120": lambda run: run.rows[120, 1],
    "learning rate, last step": lambda run: run.rows[-1, 1],
    "training loss, mean of the last 100 steps": lambda run: run.rows[-100:, 0].mean(),
    "its noise: std of neighbours' differences / √2": lambda run: np.diff(run.rows[-100:, 0]).std() / 2**0.5,
    "last validation loss": lambda run: run.val[-1],
}


def _others(wrong, count):
    if len(wrong) > 1:
        yield f"    ({len(wrong)} of {count} logs got a wrong answer)"
