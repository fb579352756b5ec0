"""Lesson 20: losses of training runs on letters, each with one precision bug or with none; and exercise 4 about them.

`python -m llmc.course.lessons.mixed_training.bugs` trains them (two minutes) and writes curves.npz; a test trains the
first steps again. All runs are in bf16; SUSPECTS says what may be wrong in one.
"""

from contextlib import suppress
from itertools import pairwise
from math import ceil, log2
from pathlib import Path

import numpy as np

from llmc.config import GPT2Config
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe, listed
from llmc.course.lessons.mixed_training.lowered import PARTS, Lowered, in_bf16
from llmc.course.lessons.number_formats.steps import GRADIENTS, Letters
from llmc.model import GPT2

FILE = Path(__file__).parent / "curves.npz"
STEPS, SEEDS = 500, 4
SUSPECTS = (
    "residual stream",
    "layernorm statistics",
    "softmax of the loss",
    "gradients of activations",
    "AdamW's settings",
    "AdamW's v",
    "step counter",
    "master weights",
)
BUGS = {
    "gradients of activations": "in fp16, and the loss is not scaled",
    "AdamW's settings": "in bf16, where beta2 = 0.999 is 1",
    "AdamW's v": "in fp16, where numbers below 3e-8 become 0",
    "step counter": "in bf16, where 256 + 1 is 256",
    "master weights": "there are none: bf16 weights are rounded to the nearest",
}
SHARE = 2.0**-12  # of the loss: that of one of 4096 micro-batches


class _Buggy(Lowered):
    """Mixed precision with one of BUGS, or with None. seed: of the random bits that round weights."""

    def __init__(self, bug, seed):
        super().__init__([bug] if bug in PARTS and bug != "AdamW's v" else [])
        self.bug, self.seed = bug, seed
        if bug == "gradients of activations":
            for name, places in GRADIENTS.items():
                setattr(self, name, _through_fp16(getattr(self, name), places))

    def adamw_update_rounded(self, params, grads, m, v, master, key, **how):
        if self.bug == "AdamW's settings":
            how |= {name: in_bf16(how[name]) for name in ("lr", "beta1", "beta2", "eps", "weight_decay")}
        super().adamw_update_rounded(params, grads, m, v, master, key + 1_000_003 * self.seed, **how)
        if self.bug == "AdamW's v":
            v[...] = v.astype(np.float16)


def _through_fp16(function, places):
    def wrapped(*arguments, **options):
        function(*arguments, **options)
        for place in places:
            if arguments[place] is not None:
                arguments[place][...] = arguments[place].astype(np.float16)

    return wrapped


def train(bug=None, seed=0, shown=STEPS):
    """Losses (shown,) of the first steps of a run, all of which see the same batches in the same order."""
    model = GPT2(GPT2Config(maxT=16, V=27, L=2, NH=2, C=32), _Buggy(bug, seed), "bf16")
    model.init_weights(42)
    model.loss_scale = SHARE  # undone by AdamW, in float32: without a bug it changes nothing
    losses, count = [], 0
    for _ in range(shown):
        model.zero_grad()
        losses.append(model.forward(*Letters(seed=count).next_batch(), dloss=1.0))
        model.backward()
        lr = 1e-3 * min(1, (count + 1) / 20) * 0.5 * (1 + np.cos(np.pi * count / STEPS))
        model.update(lr, beta2=0.999, weight_decay=0.1, max_norm=1.0)
        count = int(in_bf16(count + 1)) if bug == "step counter" else count + 1
    return np.array(losses)


def curves() -> dict:
    """{bug, or "none": losses (SEEDS, STEPS), float32}. The rows of one bug differ in the bits that round weights."""
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


# --------------------------------------------------------------------------------------------------- the exercise

LAST, SMALL = 100, 0.06  # steps; nats: by how much the least of the bugs shows
PLAIN = "a run with the bug lies 1 nat above the healthy one, and a run without it is the healthy one itself"


class Runs:
    """The exercise's `train`: one bug among suspects. asked: what it was called with, one after the other.

    ill, fine: losses (n, steps) of n runs with the bug, and without it.
    """

    __name__ = "train"

    def __init__(self, bug, suspects, ill, fine):
        self.bug, self.suspects, self.asked = bug, list(suspects), []
        self.rows = [np.array(each, np.float64, ndmin=2) for each in (ill, fine)]  # by whether the bug's part is exact

    def __call__(self, exact):
        self.asked.append(exact)
        rows = self.rows[self.bug in exact]
        return rows[len(self.asked) % len(rows)].copy()

    @property
    def allowed(self) -> int:
        """How many calls are enough."""
        return ceil(log2(len(self.suspects)))


def searches(c):
    """Runs of every bug, among all suspects in any order and among one, two, three, five; losses of a healthy run."""
    c.may_call(Runs.__call__)
    found, tried = curves(), []
    for k, bug in enumerate(BUGS):
        for n in (8, 8, 1, 2, 3, 5):
            some = c.rng.permutation([name for name in SUSPECTS if name != bug])[: n - 1].tolist()
            some.insert(k % n if n < 8 else c.rng.integers(n), bug)  # in each place of five
            tried.append(Runs(bug, some, found[bug], found["none"]))
    yield from ((tried[k], healthy()) for k in c.rng.permutation(len(tried)))


def healthy():
    """Losses (STEPS,), float64, of a run without a bug."""
    return curves()["none"][0].astype(np.float64)


def judge_search(c, function, tried):
    """WrongAnswer unless every answer is right and was found with few runs. tried: [(Runs, answer)]."""
    look = c.exercise.look_for()
    for runs, exact in [(each, exact) for each, _ in tried for exact in each.asked]:
        if not isinstance(exact, list | tuple | set | frozenset):
            raise WrongAnswer(f"train takes a list of suspects, and was given {describe(exact)}", Kind.SHAPE)
        if strangers := [name for name in exact if name not in runs.suspects]:
            known = ", ".join(runs.suspects)
            raise WrongAnswer(f"train was asked for {strangers[0]!r}, but the suspects are {known}", Kind.SHAPE)
    for runs, answer in tried:
        if not isinstance(answer, str) or answer not in runs.suspects:
            raise WrongAnswer(f"return one of the suspects, a str, not {describe(answer)}", Kind.SHAPE, look=look)
    wrong = [(runs, answer) for runs, answer in tried if answer != runs.bug and len(runs.suspects) > 1]
    if wrong:
        runs, answer = min(wrong, key=lambda each: len(each[0].suspects))
        told = f"the bug was in {runs.bug!r}, and your answer is {answer!r}"
        why = "No run was made: train(exact) is what tells the suspects apart."
        if any(runs.asked for runs, _ in tried):
            why = _why_wrong(c, function, runs) if c.explains else ""
        c.calls.clear()  # what is said is about all of them
        raise WrongAnswer(told, more=[why] if why else [], look=look, table=_table(runs))
    many = max((runs for runs, _ in tried), key=lambda runs: len(runs.asked) - runs.allowed)
    if len(many.asked) > many.allowed:
        c.calls.clear()
        made, given = (
            f"{k} {what}{'s' * (k != 1)}" for k, what in ((len(many.asked), "run"), (len(many.suspects), "suspect"))
        )
        told = f"right, but for {given} train was called for {made}, and {many.allowed} will do"
        raise WrongAnswer(told, Kind.DEMAND, more=[_needless(many)], look=look, table=_table(many))


def _why_wrong(c, function, runs) -> str:
    """With invented runs, one property of real ones at a time: what is overlooked, or how the search goes wrong."""
    fine = healthy()  # (steps,)
    late, nan = fine + (np.arange(STEPS) >= STEPS - LAST), np.where(np.arange(STEPS) < STEPS - LAST, fine, np.nan)
    noise = 0.002 * np.random.default_rng(0).standard_normal((4, STEPS))  # (4, steps)
    trial = _first_wrong(c, function, fine + 1, fine)
    if trial is None:
        ways = {
            "the bug makes the losses 1 nat lower": (fine - 1, fine),
            f"the bug makes the losses only {SMALL} nats higher": (fine + SMALL, fine),
            f"the bug shows in the last {LAST} steps alone": (late, fine),
            f"the bug makes the last {LAST} losses NaN": (nan, fine),
            "a run without the bug differs from the healthy one by thousandths of a nat": (fine + 1, fine + noise),
        }
        found = [words for words, each in ways.items() if _first_wrong(c, function, *each)]
        right = f"With invented runs your function is right where {PLAIN}."
        return f"{right} It is wrong where {' or where '.join(found)}." if found else ""
    try:  # the search itself is wrong
        c.compare(function, Runs(runs.bug, runs.suspects, *runs.rows), list(runs.suspects), fine)
    except WrongAnswer as error:
        if error.diagnosis.kind in (Kind.NAMED, Kind.REPAIR):
            raise
    bug, suspects, asked, answer = trial
    made = ", then ".join(f"{list(exact)}: {'' if bug in exact else 'un'}like the healthy one" for exact in asked)
    left = [name for name in suspects if all((name in exact) == (bug in exact) for exact in asked)]
    leave = f"leave {listed(left)}" if answer not in left else f"leave {listed(left, 'or')}, more than one"
    told = (
        f"It is wrong with invented runs, too, where {PLAIN}. Of the suspects {listed(suspects)}, it asks for exact ="
    )
    return f"{told} {made or 'no run'}. These {leave}, and it answers {answer!r}."


def _first_wrong(c, function, ill, fine):
    """(bug, suspects, what was asked for, answer) of the smallest search that goes wrong; None if there is none."""
    for bug, suspects in [(bug, "abcdefgh"[:n]) for n in (2, 3, 5, 8) for bug in "abcdefgh"[:n]]:
        runs = Runs(bug, suspects, ill, fine)
        with suppress(Exception):  # it may stop
            answer = c.call(function, runs, list(runs.suspects), healthy())
            if answer != bug:
                return bug, runs.suspects, runs.asked, answer
    return None


def _needless(runs) -> str:
    """Why there were too many runs: the first one whose outcome was known before, if that is why."""
    left = [runs.suspects]  # that can have the bug, before the first run and after each
    for exact in runs.asked:
        left.append([name for name in left[-1] if (name in exact) == (runs.bug in exact)])
    known = [k for k, (before, after) in enumerate(pairwise(left)) if len(before) == len(after)]
    if any(not len(exact) for exact in runs.asked):
        return "A run in which nothing is exact has the bug, whatever it is: it tells you nothing."
    if len(runs.suspects) == 1:
        return "The only suspect needs no run."
    if not known or len(runs.asked) - len(known) > runs.allowed:
        return "A run in which half of the suspects are exact rules out one of the two halves."
    before = left[known[0]]
    exact = "all" if before[0] in runs.asked[known[0]] else "none"
    some = f"{listed(before, 'or', 8)}" + f", {exact} of them exact in it" * (len(before) > 1)
    return f"Run {known[0] + 1} shows nothing new: before it, the bug can be in {some}."


def _table(runs) -> list[str]:
    lines, end = [f"Suspects: {', '.join(runs.suspects)}."], runs.rows[True][:, -LAST:].mean()
    for k, exact in enumerate(runs.asked, 1):
        rows = runs.rows[runs.bug in exact]
        last, like = rows[k % len(rows)][-LAST:].mean(), "like" if runs.bug in exact else "unlike"
        lines.append(f"    run {k}, exact = {list(exact)}: it ends at {last:.3f}, {like} the healthy run's {end:.3f}")
    return lines


Exercise(
    "find_bug",
    "20",
    reference=lambda train, suspects, healthy: train.bug,
    returns="part",
    cases=searches,
    look="8.1 · How to find it",
    mistakes=r"""
        = what is left with the halves exchanged: a run like the healthy one had the bug's part exact
            | half if like else others => others if like else half
        = the last of the suspects that are left, where the first runs were too few: go on until one is left
            | len(suspects) > 1 => len(suspects) > 2 ;; suspects[0] => suspects[-1]
        = the first of the suspects that are left, where the runs were too few: go on until one is left
            | len(suspects) > 1 => len(suspects) > 2
    """,
)

# ------------------------------------------------------------------------------------------------------- the training


def main():
    """Train all, and write them."""
    found = {}
    for bug in (None, *BUGS):
        with np.errstate(all="ignore"):
            found[bug or "none"] = np.array([train(bug, seed) for seed in range(SEEDS)], np.float32)
        print(f"{bug or 'none':<26} end {found[bug or 'none'][:, -100:].mean(axis=1).round(4)}", flush=True)
    np.savez_compressed(FILE, **found)


if __name__ == "__main__":
    main()
