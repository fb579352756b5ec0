"""Lesson 00, the last exercise: the 2-token GPT-2 of the lesson's page, trained by the learner's own step."""

from typing import NamedTuple

import numpy as np

from llmc.config import GPT2Config
from llmc.course.old.checks import written
from llmc.course.old.checks.explain import listed
from llmc.model import GPT2

KNOWING_NOTHING = float(np.log(4))  # nats: the loss of a model that gives each of the 4 words the same probability
NO_MOVE = 1e-9  # of the largest weight: a learning rate that is only rounded to 0 moves nothing
STILL = "w was never written: it still holds its old values"
UNMOVED = "w is as it was after step {}"
UPHILL = "w moved uphill, along dw, and not along -dw"
KEPT = "what an earlier call was given must not be kept"
MOST = 6  # steps that a sentence lists
ASKED = 0.02  # nats: the goal for 20 steps


class Run(NamedTuple):
    """losses: before each step and after the last, in nats. largest: size of the largest weight at the end.

    rates: the learning rate of each step.
    """

    losses: list[float]
    largest: float
    rates: list[float]


def page_model():
    """The GPT-2 of the lesson's page: (model, tokens (1, 2), targets (1, 2))."""
    config = GPT2Config(maxT=2, V=4, L=1, NH=1, C=4)
    model = GPT2(config, precision="fp64")
    p = model.params
    p["wte"][:4] = p["qkvw"][0, 8:] = p["fcw"][0, :4] = np.eye(4)  # (4, 4)
    p["wpe"][0, 0] = p["wpe"][1, 3] = 0.5
    p["qkvw"][0, 0, 1] = p["qkvw"][0, 4, 0] = 1
    p["attprojw"][0] = -0.5 * np.eye(4)  # (4, 4)
    p["fcprojw"][0, [1, 2, 3], [0, 1, 2]] = 1
    for name in ("ln1w", "ln2w", "lnfw"):
        p[name][:] = 1
    return model, np.array([[0, 1]]), np.array([[1, 2]])


def train_page(descend, steps=20) -> Run:
    """The page's model, trained by `steps` calls of descend(weights, gradient, step)."""
    model, tokens, targets = page_model()
    losses, rates = [], []
    with np.errstate(all="ignore"):  # too large a step ends in inf and nan: trying that out is part of the exercise
        for step in range(steps):
            model.zero_grad()
            losses.append(model.forward(tokens, targets, dloss=1.0))
            model.backward()
            before, slopes = model.params_flat.copy(), model.grads_flat.copy()
            descend(model.params_flat, model.grads_flat, step)
            rates.append(float(np.vdot(before - model.params_flat, slopes) / np.vdot(slopes, slopes)))
        losses.append(model.forward(tokens, targets))
        return Run(losses, float(np.abs(model.params_flat).max()), rates)


def explain_run(run):
    """What is wrong with a Run, as a sentence; None when it reached ASKED without leaving the valley."""
    start, end, peak = run.losses[0], run.losses[-1], max(run.losses)
    after = f"{run.losses.index(peak)} step{'s' * (run.losses.index(peak) != 1)}"
    if not (np.isfinite(end) and end < start):
        return (
            f"the direction is right, but the loss went from {start:.2f} to {end:.2g}: the steps are so large that "
            "they jump over the valley"
        )
    if not peak < KNOWING_NOTHING:
        grown = f" The largest weight was 1 and is {run.largest:.3g} now." if run.largest > 10 else ""
        ended = "but by luck" if end < ASKED else f"and the goal is below {ASKED}"
        return (
            f"the loss ended at {end:.4f}, {ended}: after {after} it was {peak:.3g}, worse than knowing nothing "
            f"(log 4 = {KNOWING_NOTHING:.2f}).{grown} The steps jump over the valley{_grown(run)}"
        )
    if not end < ASKED:
        took = f"20 steps took the loss only from {start:.2f} to {end:.3f}"
        return f"the direction is right, but {took}. The goal is below {ASKED}"
    return None


def _grown(run) -> str:
    """Words on a learning rate that has grown before the largest loss."""
    rates = run.rates[: run.losses.index(max(run.losses))]
    if rates and rates[0] < 0.99 * max(rates):
        return f". By then the learning rate had grown from {rates[0]:.3g} to {max(rates):.3g}"
    return ""


def descend_mistakes(w, dw) -> dict:
    """Known wrong moves of w (n,) along dw, as what was added to w; only directions matter, not sizes."""
    return {
        UPHILL: dw,
        "w moved by the signs of dw alone: a steeper slope needs a longer step": -np.sign(dw),
        "w shrank towards 0, whatever dw was": -w,
        "w moved by dw squared: a slope and its opposite must give opposite steps": -dw * dw,
        "w moved by w · dw: the step is the learning rate times dw": -w * dw,
        "w moved by one number everywhere, up or down: each weight has its own slope": -np.full_like(w, dw.mean()),
        "w moved by 1 / dw: a steep slope needs a long step, not a short one": -1 / dw,
    }


def explain_moves(moves):
    """(k, what is wrong with the k-th move, as a sentence); (0, None) when all are steps along -dw.

    moves: [(step, w before, w after, dw)]. A learning rate may be 0 at some of these steps, but not at all of them.
    """
    mistakes = [explain_move(*moves[k][1:], {move[0]: move[3] for move in moves[:k]}) for k in range(len(moves))]
    if all(np.array_equal(before, after) for _, before, after, _ in moves):
        last = moves[-1][2]
        why = written.renamed(last, False) or written.copied(True, "w")
        if not why and written.unchanged(last, STILL) != STILL:  # what it writes is what was there
            return 0, UNMOVED.format(listed(list(dict.fromkeys(str(step) for step, *_ in moves)), len(moves)))
        return 0, f"{STILL}. {why}" if why else mistakes[0]
    moved = [not np.abs(after - before).max() <= NO_MOVE * np.abs(before).max() for _, before, after, _ in moves]
    wrong = [k for k, mistake in enumerate(mistakes) if mistake and moved[k]]
    if not wrong:
        return 0, None
    k = wrong[0]
    if mistakes[k] in descend_mistakes(*moves[k][1:4:2]):  # few numbers may be those of a mistake by chance
        k = max(wrong, key=lambda each: (mistakes[each] != mistakes[k]) * moves[each][1].size)
    right = list(dict.fromkeys(str(moves[k][0]) for k in range(len(moves)) if moved[k] and not mistakes[k]))
    if not right or KEPT in mistakes[k]:  # then it is not the number of the step that makes the difference
        return k, mistakes[k]
    steps = f"step {', '.join(right)}" if len(right) <= MOST else f"{len(right)} other steps"
    return k, f"{mistakes[k]}. At step {moves[k][0]}, that is: at {steps} it moved as it should"


def explain_move(before, after, dw, earlier=None):
    """What is wrong with the move from `before` to `after` (n,), as a sentence; None when it is a step along -dw.

    earlier: {step: dw} of the calls before this one.
    """
    move = after - before  # (n,)
    if not np.isfinite(after).all():
        return "w holds NaN or infinite values after one step"
    if not move.any():
        return STILL
    if _parallel(move, -dw):
        return None
    if _parallel(after, dw) or _parallel(after, -dw):
        return "w holds the step alone, and its old values are lost"
    found = next((text for text, wrong in descend_mistakes(before, dw).items() if _parallel(move, wrong)), None)
    found = found or _some_entries(move, dw) or _of_others(move, dw)
    return found or _two_parts(before, move, dw, earlier or {}) or _apart(move, dw)


def _some_entries(move, dw):
    """A sentence if the entries of a move (n,) that are right leave out others, or these went elsewhere; or None."""
    rates, moved = -move / dw, move != 0  # (n,) each
    rate = np.median(rates[moved])
    right = np.abs(rates - rate) <= 1e-9 * abs(rate)  # (n,)
    if rate <= 0 or 2 * right.sum() < len(dw) and not np.array_equal(right, moved):
        return None
    if np.array_equal(right, moved):
        if 2 * right.sum() < len(dw):
            return f"only {_entries(right, dw)} moved: each weight needs its step"
        return f"w moved along -dw, but not all of it: {_entries(~right, dw)} did not move"
    lengths = np.abs(move[~right])
    others = _entries(~right, dw)
    if np.ptp(lengths) <= 1e-9 * lengths.max() and (~right).sum() > 1:
        longer = "a steeper slope needs a longer step"
        return f"w moved along -dw, but {others} by the same length each, whatever the slope: {longer}"
    at = np.flatnonzero(~right)[0]
    return f"w moved by {rate:.3g} · -dw, but {others} did not: w[{at}] moved by {-rates[at]:.3g} · dw[{at}]"


def _of_others(move, dw):
    """A sentence if each entry of a move (n,) followed another one's slope; or None."""
    if _parallel(move, -dw[::-1]):
        return "w moved along -dw in the reverse order: w[i] must follow dw[i]"
    for one, other, place in ((move[:-1], dw[1:], "i + 1"), (move[1:], dw[:-1], "i - 1")):
        if _parallel(one, -other):
            return f"w[i] moved by the slope dw[{place}]: it must follow dw[i]"
    return None


def _entries(these, dw) -> str:
    """Words for some entries of w: what they have in common, their places, or how many there are."""
    size = np.abs(dw)
    common = {"positive": dw > 0, "negative": dw < 0}
    found = next((sign for sign, where in common.items() if np.array_equal(these, where)), None)
    if found:
        return f"the weights whose dw is {found}"
    if these.sum() > 1 and size[these].min() > size[~these].max():
        return f"the {these.sum()} weights with the steepest slopes"
    if these.sum() > 1 and size[these].max() < size[~these].min():
        return f"the {these.sum()} weights with the flattest slopes"
    places = [f"w[{k}]" for k in np.flatnonzero(these)]
    return listed(places) if len(places) <= 4 else f"{len(places)} of {len(dw)} entries, {listed(places[:2])} first,"


def _two_parts(before, move, dw, earlier):
    """A sentence if a move (n,) is a step along -dw and a share of something else; None otherwise."""
    mine = "that does not belong in this step"
    others = [("w", before, mine), ("everywhere", np.ones_like(dw), mine), ("the signs of dw", np.sign(dw), mine)]
    others += [(f"the dw of step {k}", old, KEPT) for k, old in earlier.items() if old.shape == dw.shape]
    for name, other, why in others:
        columns = np.stack([-dw, other], axis=1)  # (n, 2)
        (rate, share), *_ = np.linalg.lstsq(columns, move, rcond=None)
        if rate > 0 and np.abs(columns @ (rate, share) - move).max() <= 1e-9 * np.abs(move).max():
            return f"w moved by {rate:.3g} · -dw, and besides by {_times(share, name)}: {why}"
    return None


def _times(share, name) -> str:
    return f"{share:.3g} {'' if name == 'everywhere' else '· '}{name}"


def _apart(move, dw) -> str:
    """The sentence on any other move (n,), with two of the rates in it."""
    rates = 0 - move / dw  # (n,)
    low, high = rates.argmin(), rates.argmax()
    differs = f"here it is {rates[low]:.3g} for w[{low}], and {rates[high]:.3g} for w[{high}]"
    return f"w moved, but not along -dw: each weight's step should be the same number times its slope, and {differs}"


def _parallel(a, b) -> bool:
    """Is a a positive multiple of b?"""
    return bool(np.vdot(a, b) > (1 - 1e-9) * np.linalg.norm(a) * np.linalg.norm(b))
