"""Lesson 22's exercises: what is right, what is tried, and which mistakes have a name."""

import ast
import copy

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.checks.search import ALL, PythonSearch
from llmc.course.lessons.train_gpt2.budget import completed, judge_run, noted, unchanged  # noqa: F401, likewise
from llmc.course.lessons.train_gpt2.logs import healthy, judge_answers  # noqa: F401, for the notebook's cells

MADE = "argument run['made']"  # what the check calls the number of steps
TESTS = (0.1, 1e4, 120), (0.1, 1e4, 120), (1.0, 3e5, 75), (0.02, 20.0, 60), (3.0, 3e4, 12), (5.0, 7e3, 90)


def tests(c):
    """W (27, 27), starts (200, 64), lowest, highest, steps; one of the tests goes on to its last rate."""
    for test in TESTS:
        yield 0.5 * c.rng.normal(size=(27, 27)), c.rng.integers(0, 100_000, (200, 64)), *test


def in_progress(run, c, W, starts):
    """A run of the notebook's class after seven steps, and a dict of how many it has made since: checks see dicts."""

    class Run(run, dict):
        def step(self, rate):
            if "made" in self:  # not where an answer makes a run of its own
                self["made"] += 1
            return super().step(rate)

    c.may_call(Run.step)
    made = Run(W, starts)
    for _ in range(7):
        made.step(2.0)
    made["made"], made["starts"], made.asked = c.buffer(1), starts, []
    made["made"][...] = 0
    return made


class Search(PythonSearch):
    """Without edits that put a list into itself: np.array of such a list never comes to an end."""

    def _edited(self, program, wanted):
        text = ast.unparse(program.tree) if program else ""
        return super()._edited(program, lambda edit: wanted(edit) and f"{edit.new}.append(" not in text)

    def explained_by(self, code, lost=False):
        """A number of steps alone is easily the same by chance: all else must be the same, too."""
        found = super().explained_by(code, lost)
        return found if found == ALL or self.label != MADE else 0


def judge_test(c, found, run, held, lowest, highest, steps):
    """WrongAnswer unless the test of `run` was right, and left it as it was. held: a copy of it, before the call."""
    look, outputs = c.exercise.look_for(), c.calls[-1].outputs
    c.search = lambda array, right: Search(c, c.comparing, outputs[c.comparing], right)
    told = _misformed(found, run.asked, steps)
    if told:
        raise WrongAnswer(told, look=look)
    rates, smoothed, best = found
    whole = lowest * (highest / lowest) ** (np.arange(steps) / (steps - 1))  # (steps,)
    means, right = whole_test(copy.deepcopy(held), whole)  # (steps,), int
    n = len(rates)
    for c.comparing, got, expected in (("rates", rates, whole), ("smoothed", smoothed, means)):
        compare(c.comparing, got, expected[:n], look=look)
    if n != right:
        _explain_end(c, run, n, right, steps, means)
    c.comparing, k = "best", int(np.argmin(means[:n]))
    try:
        compare("the recommended rate", best, whole[k] / 10, look=look)
    except WrongAnswer as error:
        if error.diagnosis.kind is Kind.PLACE:
            told = f"the recommended rate is {best:.4g}; the smoothed loss is least in step {k}, "
            raise WrongAnswer(f"{told}and a tenth of its rate, {whole[k]:.4g}, is right", look=look) from None
        raise
    c.comparing, told = "", _left(run, held, n == steps)
    if told:
        raise WrongAnswer(told, look=look)


def whole_test(run, rates):
    """(smoothed losses (steps,) of steps with all these rates, after how many the test should end). Changes the run."""
    s, smoothed = 0.0, []
    for k, rate in enumerate(rates):
        s = 0.9 * s + 0.1 * run.step(rate)
        smoothed.append(s / (1 - 0.9 ** (k + 1)))
    smoothed = np.array(smoothed)  # (steps,)
    over = np.flatnonzero(smoothed > np.minimum.accumulate(smoothed) + 1)  # (…,)
    return smoothed, int(over[0]) + 1 if over.size else len(rates)


def _misformed(found, asked, steps):
    """A sentence about the form of what was returned; None if it is right. asked: no rates if a copy was stepped."""
    if not isinstance(found, tuple | list) or len(found) != 3:
        got = "nothing was returned" if found is None else f"you returned {describe(found)}"
        return f"{got}: return three values, `return rates, smoothed, best`"
    rates, smoothed, _ = found
    for name, part in (("rates", rates), ("smoothed", smoothed)):
        if not isinstance(part, np.ndarray) or part.ndim != 1:
            return f"{name} must be an array (n,), one number for each step that was made, not {describe(part)}"
    made = len(asked) or len(rates)
    if not len(rates) == len(smoothed) == made <= steps:
        return f"rates has {len(rates)} numbers, and smoothed has {len(smoothed)}; the run made {made} of {steps} steps"
    for k in np.flatnonzero(~np.isclose(asked, rates[: len(asked)], rtol=1e-9, atol=0)):
        return f"step {k} was made with the rate {asked[k]:.6g}, and rates[{k}] is {rates[k]:.6g}"
    return None if made else "the run made no step"


def _explain_end(c, run, n, right, steps, means):
    """WrongAnswer about a test of n steps, all right as far as they go, that should have ended after another number."""
    c.comparing, look, last = MADE, c.exercise.look_for(), min(n, right) - 1
    told = f"the test made {n} of at most {steps} steps, and should have ended after {right}"
    try:
        compare("the number of steps", run["made"], np.array([float(right if run.asked else 0)]), look=look)
    except WrongAnswer as error:
        if error.diagnosis.kind not in (Kind.PLACE, Kind.PATTERN):
            raise
    told += f"; in step {last} the smoothed loss was {means[last]:.4g}, and the least {means[: last + 1].min():.4g}"
    raise WrongAnswer(told, look=look)


def _left(run, held, whole):
    """A sentence about the state in which the run was left; None if it is as it was. whole: after all of its steps."""
    same, there, after = np.array_equal(run.W, held.W), run.count == held.count, copy.deepcopy(held)
    if same:
        return None if there else "the run's weights are as they were, but not its place in the text: restore both"
    for rate in run.asked:
        after.step(rate)
    told = "the run's weights are not as they were"
    if np.array_equal(run.W, after.W):
        told += ": the weights are those after the last step"
        told += ". A step changes the array run.W itself: keep a copy of it, as run.state() does" * there
    return told + ". This test went on to its last rate: restore the run after that, too" * (whole and not there)


KEEP = "rates, smoothed = [], [] => rates, smoothed, losses = [], [], [] ;; s = 0.9… => losses.append(run.step(rate))"
KEEP += "; s = 0.9 * s + 0.1 * losses[-1] ;; "  # the single losses, too
CORRECTED = "s / (1 - 0.9 ** (k + 1))"

Exercise(
    "find_rate",
    "22",
    returns="rates smoothed best",
    cases=tests,
    look="9.2 · A finder",
    mistakes=rf"""
        = numbers that grow by the same amount: multiply by the same factor instead
            | rate = … => rate = lowest + k * (highest - lowest) / (steps - 1)
        in reverse: begin with lowest | lowest * factor**k => highest / factor**k
        = numbers ten times as large from step to step | factor**k => 10.0**k
        = powers of 10 of natural logarithms | rate = … => rate = 10 ** np.log(lowest * factor**k)
        = the losses themselves: smooth them | {KEEP}np.array(smoothed) => np.array(losses)
        = the losses themselves, by which the test ends, too | s = 0.9… => s = run.step(rate) ;; {CORRECTED} => s
        with the corrected value kept in s | smoothed.append(… => s = {CORRECTED}; smoothed.append(s)
        that begins with the whole first loss, and is corrected all the same | + 0.1 * => + (0.1 if k else 1) *
        without the correction: divide by 1 - 0.9**(k + 1), because s began at 0 | {CORRECTED} => s
        without the correction: divide by 1 - 0.9**(k + 1) what is returned, too
            | np.array(smoothed) => np.array(smoothed) * (1 - 0.9 ** np.arange(1, len(rates) + 1))
        = that of a test that goes on to the last rate | break => pass
        = that of a test that ends where a single loss is 1 nat above the least single one: compare smoothed ones
            | {KEEP}if smoothed[-1] > min(smoothed) + 1 => if losses[-1] > min(losses) + 1
        = the rate of the least smoothed loss itself, where the loss is about to rise: take a tenth of it | / 10 =>
        = a tenth of the rate of the least loss before smoothing | {KEEP}np.argmin(smoothed) => np.argmin(losses)
        = the rate at which the smoothed loss falls most steeply: take a tenth of that at which it is least
            | np.argmin(smoothed))] / 10 => np.argmin(np.gradient(smoothed)))]
    """,
)
