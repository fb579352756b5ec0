"""Lesson 22, exercise 2: logs of runs, each with one broken setting or with none, and what is wrong with answers."""

import linecache
import sys
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.course.lessons.train_gpt2.logs import BROKEN, FILE, SETTINGS, as_log


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


def some_order(c):
    """Every broken run, and the healthy ones but the first, in any order."""
    found = runs()[1:]
    yield from (found[k] for k in c.rng.permutation(len(found)))


def judge_answers(c, function, tried):
    """WrongAnswer unless every answer is right. tried: [(Run, answer)] of the learner's function."""
    for _, answer in tried:
        if answer is not None and (not isinstance(answer, str) or answer not in BROKEN):
            known = ", ".join(map(repr, BROKEN))
            raise WrongAnswer(f"return one of {known}, or None for a healthy run; you returned {describe(answer)}")
    wrong = [(run, answer) for run, answer in tried if answer != run.setting]
    if not wrong:
        return
    run, answer = min(wrong, key=lambda each: each[0].setting is None)  # a broken run, where there is one
    broken = f"the broken setting was {run.setting!r} ({run.value} instead of {SETTINGS.get(run.setting)})"
    told = f"{broken if run.setting else 'nothing was broken in one of the runs'}, and your answer is {answer!r}"
    table = [f"{len(wrong)} of {len(tried)} logs got a wrong answer. This one, beside a healthy one:"]
    rates, losses = ([each.rows[:, k] for each in (run, runs()[0])] for k in (1, 0))  # two (steps,) each
    listed = {f"learning rate, step {k}": [each[k] for each in rates] for k in (0, 40, 120, 399)}
    listed["last 100 losses, mean"] = [each[-100:].mean() for each in losses]
    listed["last 100 losses, noise"] = [np.diff(each[-100:]).std() / 2**0.5 for each in losses]
    listed["last validation loss"] = [each.val[-1] for each in (run, runs()[0])]
    table += [f"    {words:<28}{this:>10.3g}{good:>10.3g}" for words, (this, good) in listed.items()]
    more = [*_in_common(tried, wrong), *_last_line(c, function, run)]
    raise WrongAnswer(told, more=more, look=c.exercise.look_for(), table=table)


def _last_line(c, function, run):
    """A sentence on the line of the learner's function that answered, [] if it cannot be seen. Calls it once more."""
    lines, code, before = [], getattr(function, "__code__", None), sys.gettrace()

    def trace(frame, event, value):
        return lines.append(frame.f_lineno) or trace if frame.f_code is code else None

    sys.settrace(trace)
    try:
        c.call(function, run.log, healthy())
    finally:
        sys.settrace(before)
    text = linecache.getline(code.co_filename, lines[-1]).strip() if lines else ""
    return [f"This answer came from line {lines[-1]}: `{text}`."] if text else []


def _in_common(tried, wrong):
    """What the wrong answers have in common, as far as they show it."""
    answers, kinds = {answer for _, answer in tried}, {run.setting for run, _ in wrong}
    right = {run.value for run, answer in tried if run.setting in kinds and run.setting == answer}
    if len(answers) == 1:
        yield f"All {len(tried)} logs got the same answer."
    elif kinds == {None}:
        yield f"Only healthy runs are wrong{'' if None in answers else ': your function never answers None'}."
    elif len(kinds) == 1 and not right & {run.value for run, _ in wrong}:
        values, kind = ", ".join(sorted(right)), repr(*kinds)
        yield f"With {kind} at {values} the answer is right." if right else f"Only {kind} is wrong, and always."


Exercise("broken_setting", "22", returns="setting", cases=some_order, look="9.1 · Three logs side by side")
