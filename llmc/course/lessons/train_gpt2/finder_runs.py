"""Lesson 22: where a learner's finder ends, and how it leaves its run; asked on more runs than the check's.

A run is the exercise's: W (27, 27), starts and count. It is copied before it is stepped.
"""

import copy

import numpy as np

from llmc.course.lessons.train_gpt2.finder import MARGIN, grown, length, smooth, smooth_mistakes, standing_still, tested
from llmc.course.lessons.train_gpt2.places import FINDER
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining

RANGES = (0.1, 1e4, 90), (0.3, 2e5, 60), (1.0, 3e4, 110), (0.02, 20.0, 40), (0.01, 5.0, 25)  # of further tests
QUIET = (0.1, 10.0, 50)  # of one whose losses are a hundredth


def smooth_known(function, smoothed, test, run) -> dict:
    """Known wrong smoothed losses, as far as the test made steps: those that smooth other losses as the learner does.

    The others are a hundredth of this run's, and no test of them ends early. smoothed: the learner's; run: as it was.
    """
    n = min(len(smoothed), len(test.rates))
    known = smooth_mistakes(test.losses[:n], standing_still(copy.deepcopy(run), test.rates[:n]))
    if not is_explaining() or np.allclose(smoothed[:n], test.smoothed[:n], rtol=1e-9, atol=0):
        return known
    quiet = copy.deepcopy(run)
    quiet.__class__ = type("Quiet", (type(run),), {"step": lambda self, rate: super(type(self), self).step(rate) / 100})
    found = outcome(function, copy.deepcopy(quiet), *QUIET)
    if not isinstance(found, tuple | list) or len(found) != 3 or np.shape(found[1]) != (QUIET[2],):
        return known
    rates = grown(*QUIET)
    losses = tested(copy.deepcopy(quiet), *QUIET, rates).losses
    table = smooth_mistakes(losses, standing_still(copy.deepcopy(quiet), rates))
    return {words: known[words] for words, (wrong, _) in table.items() if np.allclose(wrong, found[1], rtol=1e-7)}


def explain_steps(made, test, run, lowest, highest, steps, function=None):
    """What is wrong with the number of steps that were made, as a sentence; None when nothing is.

    made: how many, with rates that are right as far as they go · test: the right Test · run: a copy of the run as it
    was, to see what else would have ended there · function: the learner's, which must end there on other runs, too.
    """
    if made == len(test.rates):
        return None
    others = [(*case, _made(function, *case)) for case in (_more(run) if function and is_explaining() else ())]
    tables = [(made, _ends(run, lowest, highest, steps)), *((n, _ends(*case)) for *case, n in others if n)]
    said = [words for words in tables[0][1] if all(n in table[words] for n, table in tables)]
    text = f"the test made {made} of at most {steps} steps, and should have ended after {len(test.rates)}"
    if len(said) == 1:
        text += f": {said[0]}"
    elif made:
        n = min(made, len(test.rates))
        last, least = test.smoothed[n - 1], test.smoothed[:n].min()
        text += f".\nAfter {n} steps the smoothed loss was {last:.4g} nats, and the least so far was {least:.4g}"
    return f"{text}.\n→ Where to look: {FINDER}"


def _ends(run, lowest, highest, steps) -> dict:
    """{words: numbers of steps} of a test that ends by another rule than the right one."""
    whole = tested(copy.deepcopy(run), lowest, highest, steps, grown(lowest, highest, steps))
    smoothed, losses = whole.smoothed, whole.losses
    right, least = length(smoothed), np.minimum.accumulate(smoothed)
    rise, jump = np.diff(smoothed, prepend=np.inf), np.diff(losses, prepend=np.inf)
    raw = smooth(losses, corrected=False)
    rules = {
        "it ended where a single loss is 1 nat above the least single loss so far; compare smoothed ones": (
            losses > np.minimum.accumulate(losses) + MARGIN
        ),
        "it ended where a single loss is 1 nat above the least smoothed loss so far; compare the smoothed loss": (
            losses > least + MARGIN
        ),
        "it ended where the smoothed loss is 1 nat above the least SINGLE loss so far; compare smoothed ones": (
            smoothed > np.minimum.accumulate(losses) + MARGIN
        ),
        "it ended where the smoothed loss is 1 nat above the FIRST one; compare with the least so far": (
            smoothed > smoothed[0] + MARGIN
        ),
        "it ended where the smoothed loss rises for the first time; noise does that too, so allow 1 nat": rise > 0,
        "it ended where the smoothed loss is 1 nat above that of the step before; compare with the least so far": (
            rise > MARGIN
        ),
        "it ended where a single loss is 1 nat above that of the step before; compare smoothed ones, with the least": (
            jump > MARGIN
        ),
        "it ended where the smoothed loss is 10% above the least so far: the limit is 1 nat": smoothed > 1.1 * least,
        "it ended where the smoothed loss is twice the least so far: the limit is 1 nat above it": smoothed > 2 * least,
        "it ended where the smoothed loss is a tenth of a nat above the least so far: the limit is 1 nat": (
            smoothed > least + 0.1
        ),
        "it ended where the uncorrected mean is 1 nat above its least, which is near 0 at the start": _over(raw),
        "it ended where the uncorrected mean is 1 nat above the least corrected one: correct both": raw
        > least + MARGIN,
        "it ended where the smoothed loss is 2 nats above the least so far: the limit is 1 nat": smoothed > 2 + least,
        "it ended where the smoothed loss is half a nat above the least so far: the limit is 1 nat": (
            smoothed > least + 0.5
        ),
        "it ended where the smoothed loss is above 1 nat: it is 1 nat above the LEAST so far": smoothed > MARGIN,
    }
    ends = {words: {_first(over, steps)} for words, over in rules.items()}
    return ends | {
        "it went on to the last rate, though the smoothed loss was more than 1 nat above its least": {steps},
        "it ended before the step that goes over, which counts: the test ends after it": {
            right - (smoothed[right - 1] > least[right - 1] + MARGIN)
        },
        "it made one more step after that which went over": {min(right + 1, steps)},
        "of `steps` steps the last one was never made": {min(right, steps - 1)},
    }


def _more(run):
    """(run, lowest, highest, steps) of further tests; some of them end early, and some go on to the last rate."""
    rng, found = np.random.default_rng(22), []
    for lowest, highest, steps in RANGES:
        other = type(run)(0.5 * rng.normal(size=run.W.shape), rng.permutation(run.starts))
        found.append((other, lowest, highest, steps))
    return found


def _made(function, run, lowest, highest, steps) -> int:
    """How many steps the learner's test of a copy of the run makes; 0 where it does not say."""
    found = outcome(function, copy.deepcopy(run), lowest, highest, steps)
    return len(found[0]) if isinstance(found, tuple | list) and np.ndim(found[0]) == 1 else 0


def _over(smoothed):
    return smoothed > np.minimum.accumulate(smoothed) + MARGIN


def _first(over, steps) -> int:
    return int(np.argmax(over)) + 1 if over.any() else steps


def explain_state(run, before, fresh, rates, function=None):
    """What is wrong with the state in which a run was left, as a sentence; None when nothing is.

    run: W and count as they are. before: (W, count) as they were. fresh: a run as it was before. rates: of the steps.
    function: the learner's, for more runs.
    """
    W, count = before
    changed = not np.array_equal(run.W, W)
    if not changed:
        at = "the run's weights are as they were, but not its place in the text: restore the whole state"
        return at if run.count != count else None
    if run.count != count:
        return f"the run was not left as it was{_left(run, fresh, rates, function)}"
    for rate in rates:
        fresh.step(rate)
    where = "the run's weights are not as they were, though its place in the text is"
    kept = "they are those after the last step. A step changes the array run.W itself: keep a copy of it, as"
    return f"{where}: {kept} run.state() does, and put that back" if np.array_equal(run.W, fresh.W) else where


def _left(run, fresh, rates, function) -> str:
    """ ": it is as its last step made it", or whatever else is found of how a run was left."""
    after, others = copy.deepcopy(fresh), {}
    if function and is_explaining():
        others = {case: _stays(function, *case) for case in _more(fresh)}
    early, whole = ({kept for (*_, steps), (n, kept) in others.items() if (n == steps) == at} for at in (False, True))
    if early == {True} and whole == {False}:
        return ": a test that ends early leaves it as it was, and one that goes on to its last step does not"
    if early == {False} and whole == {True}:
        return ": a test that goes on to its last step leaves it as it was, and one that ends early does not"
    for k, rate in enumerate(rates, 1):
        after.step(rate)
        if after.count == run.count and np.array_equal(after.W, run.W):
            if k == len(rates):
                return ", but as its last step made it"
            return f", but as it was after step {k} of {len(rates)}"
    return ""


def _stays(function, run, lowest, highest, steps) -> tuple[int, bool]:
    """(how many steps the learner's test makes, whether it leaves the run as it was)."""
    tried = copy.deepcopy(run)
    found = outcome(function, tried, lowest, highest, steps)
    n = len(found[0]) if isinstance(found, tuple | list) and np.ndim(found[0]) == 1 else 0
    return n, tried.count == run.count and np.array_equal(tried.W, run.W)
