"""Lesson 20: losses of training runs on letters, each with one precision bug or with none; and exercise 4 about them.

`python -m llmc.course.lessons.mixed_training.bugs` trains them (two minutes) and writes curves.npz; a test trains the
first steps again. All runs are in bf16; SUSPECTS says what may be wrong in one.
"""

from functools import lru_cache
from math import ceil, log2
from pathlib import Path

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons.mixed_training.lowered import Lowered, in_bf16, losses_of, small
from llmc.course.lessons.number_formats.steps import GRADIENTS, Letters

FILE = Path(__file__).parent / "curves.npz"
STEPS, SEEDS = 500, 4
LAST, MANY = 100, 50  # steps that show what a run comes to; runs after which a search is stopped
BUGS = {
    "gradients of activations": "in fp16, and the loss is not scaled",
    "AdamW's settings": "in bf16, where beta2 = 0.999 is 1",
    "AdamW's v": "in fp16, where numbers below 3e-8 become 0",
    "step counter": "in bf16, where 256 + 1 is 256",
    "master weights": "there are none: bf16 weights are rounded to the nearest",
}
SUSPECTS = "residual stream", "layernorm statistics", "softmax of the loss", *BUGS
SHARE = 2.0**-12  # of the loss: that of one of 4096 micro-batches


class _Buggy(Lowered):
    """Mixed precision with one of BUGS, or with None. seed: of the random bits that round weights."""

    def __init__(self, bug, seed):
        super().__init__([bug] if bug == "master weights" else [])
        self.bug, self.seed = bug, seed
        for name, places in GRADIENTS.items() if bug == "gradients of activations" else ():
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
        for array in (arguments[place] for place in places if arguments[place] is not None):
            array[...] = array.astype(np.float16)

    return wrapped


def train(bug=None, seed=0, shown=STEPS):
    """Losses (shown,) of the first steps of a run, all of which see the same batches in the same order."""
    model = small(_Buggy(bug, seed), "bf16")
    model.loss_scale = SHARE  # undone by AdamW, in float32: without a bug it changes nothing
    counts = np.minimum(np.arange(shown), 256 if bug == "step counter" else shown)  # in bf16, 256 + 1 is 256
    return losses_of(model, lambda count: Letters(seed=count).next_batch(), counts, STEPS)


@lru_cache
def curves() -> dict:
    """{bug, or "none": losses (SEEDS, STEPS), float32}. The rows of one bug differ in the bits that round weights."""
    with np.load(FILE) as file:
        return {name: file[name] for name in file.files}


class Runs:
    """The exercise's `train`: one bug among suspects. asked: what it was called with, one after the other."""

    __name__ = "train"

    def __init__(self, bug, suspects):
        self.bug, self.suspects, self.asked = bug, suspects, []

    def __call__(self, exact):
        known = isinstance(exact, list | tuple | set | frozenset) and len(exact) <= len(self.suspects)
        if not known or any(name not in self.suspects for name in exact):
            raise WrongAnswer(f"train takes a list of suspects, not {exact!r}", Kind.SHAPE)
        if len(self.asked) == MANY:
            raise WrongAnswer(f"after {MANY} runs the search is still going on", Kind.DEMAND, table=self.table[:9])
        self.asked.append(exact)
        return self.run(len(self.asked))

    def run(self, k):
        """Losses (STEPS,), float64, of the k-th run, from 1 on."""
        return curves()["none" if self.bug in self.asked[k - 1] else self.bug][k % SEEDS].astype(np.float64)

    @property
    def table(self) -> list[str]:
        """The suspects, and a line for each run."""
        none = curves()["none"][:, -LAST:].mean()
        ends = [(exact, self.run(k)[-LAST:].mean()) for k, exact in enumerate(self.asked, 1)]
        lines = [f"    run {k}, exact = {list(exact)}: it ends at {end:.3f}" for k, (exact, end) in enumerate(ends, 1)]
        return [f"Suspects: {', '.join(self.suspects)}. A healthy run ends at {none:.3f}.", *lines]


def searches(c):
    """Runs of every bug among eight suspects, twice, and among fewer, in any order; losses of a healthy run."""
    c.may_call(Runs.__call__)
    for turn, n in enumerate((8, 8, 5, 3, 2, 1)):
        for k, bug in enumerate(reversed(BUGS)):  # those first in which most searches go wrong
            some = c.rng.permutation([name for name in SUSPECTS if name != bug])[: n - 1].tolist()
            places = c.rng.integers(1, 7), c.rng.integers(8), k  # neither end; any; each place of five
            some.insert(places[min(turn, 2)] % n, bug)
            yield Runs(bug, some), curves()["none"][0].astype(np.float64)


def judge_search(c, function, train, healthy):
    """WrongAnswer, with a table of its runs, unless the function finds the bug."""
    try:
        c.compare(function, train, list(train.suspects), healthy)
    except WrongAnswer as error:
        error.diagnosis.table = train.table if train.asked else error.diagnosis.table
        raise


def judge_runs(c, tried):
    """WrongAnswer if one of these searches took more runs than halving takes. tried: list of Runs."""
    for train in tried:
        n, made, allowed = len(train.suspects), len(train.asked), ceil(log2(len(train.suspects)))
        if made > allowed:
            c.calls.clear()  # the last of which may be another
            told = f"right, but too many runs: {made} where {n} can have the bug, and {allowed} will do"
            why = "With half of those left exact, a run rules out half. One whose outcome is known tells nothing."
            raise WrongAnswer(told, Kind.DEMAND, more=[why], look=c.exercise.look_for(), table=train.table)


FAR = "abs(train(half)[-100:].mean() - healthy[-100:].mean())"

Exercise(
    "find_bug",
    "20",
    reference=lambda train, suspects, healthy: train.bug,
    returns="part",
    cases=searches,
    look="8.1 · How to find it",
    mistakes=rf"""
        = what is left with the halves exchanged: a run like the healthy one had the bug's part exact
            | half if like else others => others if like else half
        = what is left if a run that became NaN counts as healthy: comparisons with NaN are false
            | like = {FAR} < 0.02 => like = not {FAR} > 0.02
        = what is left if a run with smaller losses counts as healthy: a bug may make them too small
            | {FAR} => ({FAR[4:-1]})
        = what is left if a run that ends 0.06 nats away counts as healthy: the least of the bugs shows no more
            | < 0.02 => < 0.1
        = what is left if the first 100 steps decide: some bugs show later
            | {FAR} => {FAR.replace("[-100:]", "[:100]")}
        = what is left if a run must equal the healthy one: thousandths of a nat are the noise of rounding
            | < 0.02 => == 0
        = the first of the suspects that are left, where the runs were too few: go on until one is left
            | len(suspects) > 1 => len(suspects) > 2
    """,
)


def main():
    """Train all, and write them."""
    with np.errstate(all="ignore"):
        found = {bug or "none": [train(bug, seed) for seed in range(SEEDS)] for bug in (None, *BUGS)}
    np.savez_compressed(FILE, **{name: np.array(losses, np.float32) for name, losses in found.items()})


if __name__ == "__main__":
    main()
