"""Lesson 10's exercises: what is right, what is tried, and which mistakes have a name."""

from collections import Counter

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.course.lessons.training_loop.saving import judge_saving  # noqa: F401, for the check cells
from llmc.course.lessons.training_loop.settings import completed, judge_run, noted  # noqa: F401, likewise

FAR = 2.0**23  # values around it: their squares lose the digits that tell them apart
KEPT = {  # what the next step of a run depends on: what happens without it
    "params": "without the weights there is nothing to continue",
    "m": "AdamW's first moment would start at 0 again",
    "v": "AdamW's second moment would start at 0 again, and the first steps would be far too long",
    "t": "AdamW's bias correction would begin again; a skipped step counts in step, but not in t",
    "step": "the warmup of the learning rate would begin again",
    "seed": "the text would come in a different order",
    "epoch": "the text would come in the order of the first epoch",
    "place": "the run would return to the beginning of its epoch",
    "rng": "the noise would be different",
    "recent": "the z-scores would be missing until the window is full again, and outliers would slip through",
}


def bigram(W, x, y):
    """Mean loss (nats) of the table W (V, V) for tokens x, followed by y, any shape; its gradient (V, V)."""
    p = np.exp(W - W.max(axis=-1, keepdims=True))  # (V, V)
    p /= p.sum(axis=-1, keepdims=True)  # (V, V)
    pairs = np.zeros(W.shape)  # (V, V) share of each pair
    np.add.at(pairs, (x, y), 1 / x.size)
    return -(pairs * np.log(p)).sum(), pairs.sum(axis=-1, keepdims=True) * p - pairs


def micro_batches(c):
    """W (V, V), batches [(x, y), …] of int (b, T) with unequal b, lr; the first shape twice."""
    for rows, T, V in [((3, 3, 2), 5, 4), ((3, 3, 2), 5, 4), ((2, 1), 3, 4), ((1, 2, 3, 4), 5, 3), ((4,), 2, 6)]:
        batches = [(c.rng.integers(0, V, (b, T)), c.rng.integers(0, V, (b, T))) for b in rows]
        yield c.random(V, V), batches, c.rng.uniform(0.1, 0.9)


def noting(model, c, W, batches):
    """A new model of the notebook's class, and a dict of its gradient (V, V) at an update: the check sees dicts."""

    class Bigram(model, dict):
        def update(self, lr):
            self["gradient"][...] = self.grads
            super().update(lr)

    made = Bigram(W, max(len(x) for x, _ in batches), batches[0][0].shape[1])
    made["gradient"] = c.buffer(*W.shape)
    c.may_call(Bigram.update)
    return made


def judge_update(c, model, loss, W, batches, lr):
    """WrongAnswer unless there was one update, by the gradient of the mean loss over all tokens; and that loss."""
    n, look = len(model.updates), c.exercise.look_for()
    if n != 1:
        many = f"{n} updates were made from {len(batches)} micro-batches: make one, after the loop"
        raise WrongAnswer(many if n else "no update was made", look=look)
    mean, gradient = bigram(W, *(np.concatenate(parts) for parts in zip(*batches)))
    compare("the gradient at the update", model["gradient"], gradient, look=look)
    if model.updates[0][0] != lr:
        raise WrongAnswer(f"the learning rate was {model.updates[0][0]:.4g}, not {lr:.4g}", look=look)
    c.comparing = "loss"
    compare("the loss", loss, float(mean), look=c.exercise.look_for("loss"))
    c.comparing = ""


Exercise(
    "accumulate_gradients",
    "10",
    returns="loss",
    cases=micro_batches,
    look={"loss": "3.2 · Validation", "": "5.1 · By hand"},
    mistakes=r"""
        = the sum of the micro-batches' gradients: each must count its share of the tokens | dloss=share => dloss=1.0
        = the sum of the micro-batches' gradients, divided by the number of tokens: each is the mean of its own already
            | dloss=share => dloss=1 / total
        with the share 1/n for each: they are not all of the same size | share = … => share = 1 / len(batches)
        = the gradient of the first micro-batch alone: those of all add up | model.backward() => model.backward(); break
        with each share of the tokens so far: divide by the number of all tokens, counted before
            | total = … => total = 0 ;; share = … => total += x.size; share = x.size / total
        with zero_grad in the loop: of all but the last micro-batch, the gradients are gone
            | model.zero_grad() => ;; share = x.size => model.zero_grad()\n        share = x.size
        = the loss after the update
            | return loss => return sum(x.size * model.loss(x, y) for x, y in batches) / total
        = the loss of the last micro-batch alone | loss += share * => loss =
        = the mean of the micro-batches' losses: they are not all of the same size | += share => += 1 / len(batches)
    """,
)


def texts(c):
    """W (V, V), tokens (n + 1,), B, T, lengths (V,); token 0 has no bytes; tokens seldom repeat, or often do."""
    sizes = [(47, 3, 4, 48), (47, 3, 4, 6), (25, 2, 4, 26), (61, 4, 5, 7), (5, 4, 3, 6), (24, 2, 4, 25), (1, 2, 3, 4)]
    for n, B, T, V in sizes:
        tokens = c.rng.integers(0, V, n + 1)
        tokens[[n // 2, 0, -1]] = 0, 1, V - 1
        yield c.random(V, V), tokens, B, T, np.append(0, c.rng.integers(2, 30, V - 1))


def judge_validation(c, found, model, W, tokens, B, T, lengths):
    """WrongAnswer unless the model got each row of T once, and `found` are the loss and the bits per byte."""
    look = c.exercise.look_for("loss")
    two = isinstance(found, tuple | list | np.ndarray) and np.shape(found) == (2,)
    told = misread(model.read, tokens, B, T) if two else "return two numbers: `return nats_per_token, bits_per_byte`"
    if told:
        raise WrongAnswer(told, look=look)
    loss = bigram(W, tokens[:-1], tokens[1:])[0]
    bits = loss * (len(tokens) - 1) / np.log(2) / lengths[tokens[1:]].sum()
    for c.comparing, name, got, right in zip(("loss", "bits"), ("the loss", "bits per byte"), found, (loss, bits)):
        compare(name, got, right, look=c.exercise.look_for(c.comparing))
    c.comparing = ""
    if model.updates or not np.array_equal(model.grads, 0.5 * W):
        raise WrongAnswer("the model was trained: a validation only asks for the loss", look=look)


def misread(read, tokens, B, T):
    """A sentence about a row that the model got too many or too few times; or None. read: [(x, y)], (b, t) each."""
    n = len(tokens) - 1
    got = Counter((*x.tolist(), "→", *y.tolist()) for batch in read for x, y in zip(*batch))
    right = Counter(
        (*tokens[a : min(a + T, n)].tolist(), "→", *tokens[a + 1 : a + T + 1].tolist()) for a in range(0, n, T)
    )
    for row in [*got, *right] if read else ():
        if got[row] != right[row]:
            each = f"the model should get each row of T = {T} tokens once, with the tokens that follow as targets"
            return f"{each}, but it got {' '.join(map(str, row))} {got[row]} times, not {right[row]}"
    return None


Exercise(
    "validation_loss",
    "10",
    returns="loss bits",
    cases=texts,
    look={"loss": "3.2 · Validation", "bits": "3.3 · Against what?"},
    mistakes=r"""
        = the mean of the batches' means: weight each by its tokens | * a.size => * len(x) / len(pieces)
        with T tokens counted in each row: the last one is shorter | * a.size => * len(a) * T
        = bits per token: divide by the bytes per token | np.log(2) / lengths[y].sum() => np.log(2) / len(x)
        with the mean length of the vocabulary, not of the targets | lengths[y].sum() => (len(x) * lengths.mean())
        without end-of-text in the number of targets: those that have no bytes count, too
            | nats / np.log(2) => nats * np.count_nonzero(lengths[y]) / len(x) / np.log(2)
    """,
)


def series(c):
    """values (n,), window: large and tiny, one shape twice; fewer than the window; equal; a jump, near 0 and far."""
    for n, window, size in (40, 8, 1), (40, 8, 1), (30, 5, 1e-4), (12, 12, 1), (9, 2, 1), (9, 2, 1e-12), (30, 5, 1e-40):
        c.new(f"values around {size:g}" if size < 1 else "")
        yield size * c.random(n), window
    c.new("fewer values than the window is long, equal values, or values around 8 million")
    some = c.random(3)[[0, 1, 0, 0, 2, 2, 1, 1, 2, 0, 2, 0]]  # (12,)   of each 3 some are equal, never all
    level = np.append(np.full(9, 2.5), 7.0)  # (10,)   nothing happens, then a jump
    far = FAR + level / 1024  # (10,)   the same
    yield from [(c.random(4), 7), (some, 3), (some, 4), (level, 5), (far, 5), (np.append(c.random(9), far), 5)]


def z_of_windows(tried):
    """A sentence about digits that are lost far from 0, or about a window that is taken for flat, or is not."""
    values, z, right = tried.given["values"], tried.got["z"], tried.expected["z"]
    if not isinstance(z, np.ndarray) or z.shape != values.shape:
        return None
    if values.max() > FAR:
        lost = "small differences between large values are lost, as in a mean square minus a squared mean (lesson 01)"
        found = f"far from 0, z ends with {np.round(z[-6:], 3)}, and the last should be 2, the others 0: {lost}"
        return None if np.allclose(z[-6:], right[-6:], rtol=0, atol=1e-3) else found
    k = next(iter(np.flatnonzero((z == 0) != (right == 0))), None)
    only = "it is 0 where ALL of a window is equal, and only there"
    return None if k is None else f"z[{k}] is {z[k]:.3g}, expected {right[k]:.3g}: {only}"


Exercise(
    "z_scores",
    "10",
    returns="z",
    cases=series,
    rules=(z_of_windows,),
    rtol=1e-6,
    atol=lambda values, window: 1e-3 if values.max() > FAR else None,
    look="8.1 · Three instruments",
    mistakes=r"""
        with n - 1 in the variance (ddof=1): divide by n | std() => std(ddof=1)
        with the window before the value: it ends with the value itself
            | recent = … => recent = values[max(0, i - window) : i]
        with a window that is one value too long | values[i - window + 1 : => values[max(0, i - window) :
        with the value in the middle of its window, so z changes with later values
            | recent = … => recent = values[i - window // 2 :][:window]
        without its sign: a low value has a negative z-score | = (values[i] - => = abs(values[i] -
        with 1e-8 added to the standard deviation: it is not small beside tiny values | std() => std() + 1e-8
    """,
)


def stopped_runs(c):
    """tokens (200,), seed, steps: stopped in a later pass over the text, in the second, in the first."""
    for steps in (33, 19, 5):
        yield c.rng.integers(0, 6, 200) * c.rng.integers(0, 2, 200), int(c.rng.integers(1, 1000)), steps


def begun(run, steps):
    """The run after that many steps; after 33, or more, until one update has been skipped."""
    while run.step < steps or (steps == 33 and run.t == run.step):
        run.train_step()
    return run


def judge_state(c, state, run, held):
    """WrongAnswer unless the state is what a resume needs, and no more. held: a copy of the run, before the call."""
    changed = any(not np.array_equal(getattr(run, name, None), right) for name, right in vars(held).items())
    told = "state_of changed the run: it should only look at it" if changed else next(_of_state(state, run, held), None)
    if told:
        raise WrongAnswer(told, look=c.exercise.look_for())


def _of_state(state, run, held):
    """Sentences about its form, names, values that are not those of `held` after training went on, and a resume."""
    if not isinstance(state, dict):
        yield f"return a dict {{name: value}}, not {describe(state)}"
    yield from (f"{name!r} is missing: {KEPT[name]}" for name in KEPT if name not in state)
    yield from (f"{name!r} need not be kept: no step depends on it" for name in state if name not in KEPT)
    after, resumed = [run.train_step() for _ in range(60)], type(run)(run.tokens, seed=0)
    for name in KEPT:
        value, right = state[name], getattr(held, name)
        kinds = [(type(each), getattr(each, "dtype", None)) for each in (value, right)]
        if kinds[0] != kinds[1] or not np.array_equal(value, right):
            found = f"it is {describe(value)} now, and was {describe(right)}"
            yield f"{name!r} does not hold exactly what the run held: keep a copy, in its own type ({found})"
        setattr(resumed, name, value)
    if [resumed.train_step() for _ in range(60)] != after or not np.array_equal(resumed.params, run.params):
        yield "after the resume the losses, or the weights, are different"


Exercise("state_of", "10", cases=stopped_runs, look="6.1 · What the next step depends on")
