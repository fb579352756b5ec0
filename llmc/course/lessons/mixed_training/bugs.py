"""Lesson 20: losses of training runs on letters, each with one precision bug or with none.

`python -m llmc.course.lessons.mixed_training.bugs` trains them (two minutes) and writes curves.npz; a test trains the
first steps again. All runs are in bf16; SUSPECTS says what may be wrong in one.
"""

from math import ceil, log2
from pathlib import Path

import numpy as np

from llmc.config import GPT2Config
from llmc.course.lessons.mixed_training import bisecting
from llmc.course.lessons.mixed_training.lowered import PARTS, Lowered, in_bf16
from llmc.course.lessons.mixed_training.places import BISECT
from llmc.course.lessons.number_formats.steps import GRADIENTS, Letters
from llmc.course.old.checks.evidence import is_explaining
from llmc.course.old.checks.explain import WrongAnswer, describe
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


class Runs:
    """One bug among suspects; asked: what train was asked for. rows: losses (SEEDS, STEPS) with the bug, and without.

    The exercise's `train` is made from it in the check cell, because an answer must not call llmc.
    """

    def __init__(self, bug, suspects, found):
        self.bug, self.suspects, self.asked = bug, list(suspects), []
        self.rows = [found[name].astype(np.float64) for name in (bug, "none")]  # by whether the bug's part is exact


def cases(rng) -> list:
    """Runs of every bug, among all suspects in any order, and among a few of them."""
    found = curves()
    runs = [Runs(bug, rng.permutation(SUSPECTS).tolist(), found) for bug in BUGS for _ in range(2)]
    for bug in BUGS:
        others = [name for name in SUSPECTS if name != bug]
        for n in (1, 2, 3, 5):
            some = [bug, *rng.permutation(others)[: n - 1].tolist()]
            runs.append(Runs(bug, rng.permutation(some).tolist(), found))
    return [runs[k] for k in rng.permutation(len(runs))]


def healthy():
    """Losses (STEPS,), float64, of a run without a bug."""
    return curves()["none"][0].astype(np.float64)


def allowed(n) -> int:
    """How many runs n suspects need at most."""
    return ceil(log2(n))


def explain(tried, function=None):
    """WrongAnswer unless every answer is right and was found with few runs.

    tried: [(Runs, answer)]; Runs.asked has the argument of each call of train. function: what gave these answers, for
    other runs.
    """
    for runs, _ in tried:
        for exact in runs.asked:
            if not isinstance(exact, list | tuple | set | frozenset):
                raise WrongAnswer(f"train takes a list of suspects, and was given {describe(exact)}.")
            strangers = [name for name in exact if name not in runs.suspects]
            if strangers:
                known = ", ".join(runs.suspects)
                raise WrongAnswer(f"train was asked for {strangers[0]!r}, but the suspects are {known}.")
    for runs, answer in tried:
        if not isinstance(answer, str) or answer not in runs.suspects:
            raise WrongAnswer(f"return one of the suspects, a str, not {describe(answer)}.\n→ Where to look: {BISECT}.")
    wrong = [(runs, answer) for runs, answer in tried if answer != runs.bug and len(runs.suspects) > 1]
    many = [runs for runs, _ in tried if len(runs.asked) > allowed(len(runs.suspects))]
    if wrong:
        runs, answer = wrong[0]
        function = function if is_explaining() else None
        why = function and bisecting.overlooked(function, healthy())
        lines = [f"the bug was in {runs.bug!r}, and your answer is {answer!r}.", why or _cause(tried, function)]
        lines = [*filter(None, lines), f"→ Where to look: {BISECT}.", "", *_listed(runs)]
        raise WrongAnswer("\n".join(lines), explained=bool(why))
    if many:
        runs = max(many, key=lambda runs: len(runs.asked) - allowed(len(runs.suspects)))
        n = len(runs.suspects)
        made, given = (f"{k} {what}{'s' * (k != 1)}" for k, what in ((len(runs.asked), "run"), (n, "suspect")))
        words = f"right, but for {given} train was called for {made}, and {allowed(n)} will do"
        useless = bisecting.needless(runs.suspects, runs.bug, runs.asked, allowed(n))
        why = useless or "A run in which half of the suspects are exact rules out one of the two halves."
        if any(not len(exact) for exact in runs.asked):
            why = "A run in which nothing is exact has the bug, whatever it is: it tells you nothing."
        elif n == 1:
            why = "The only suspect needs no run."
        lines = [f"{words}. {why}", f"→ Where to look: {BISECT}.", "", *_listed(runs)]
        raise WrongAnswer("\n".join(lines), explained=bool(useless))


def _cause(tried, function):
    """A line about the search itself, or None."""
    if not any(runs.asked for runs, _ in tried):
        return "No run was made: train(exact) is what tells the suspects apart."
    return function and bisecting.wrong_search(function, healthy())


def _listed(runs):
    yield f"Suspects: {', '.join(runs.suspects)}."
    end = runs.rows[True][:, -100:].mean()
    for k, exact in enumerate(runs.asked, 1):
        fixed = runs.bug in exact
        last = runs.rows[fixed][k % SEEDS][-100:].mean()
        like = "like" if fixed else "unlike"
        yield f"    run {k}, exact = {list(exact)}: it ends at {last:.3f}, {like} the healthy run's {end:.3f}"


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
