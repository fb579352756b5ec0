"""Lesson 10's exercises: what is right, what is tried, and which mistakes have a name."""

from numbers import Integral

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import WrongAnswer, describe
from llmc.course.lessons.training_loop.saving import judge_saving  # noqa: F401, for the check cells
from llmc.course.lessons.training_loop.settings import completed, judge_run  # noqa: F401, likewise
from llmc.course.lessons.training_loop.tried import noted  # noqa: F401, likewise

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
KINDS = {list: "a list", int: "Python's own int, which never overflows", Integral: "a number", np.ndarray: "an array"}
LEFT = {  # what it does not depend on: why
    **dict.fromkeys(["grads", "logits"], "every step recomputes it"),
    **{"tokens": "the text is already in a file of its own", "losses": "the past is in main.log, and no step reads it"},
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
        = the gradient of the last micro-batch alone: those of all add up | share = … => share = x.size / total
            \n        model.zero_grad()
        = the gradient of the first micro-batch alone: those of all add up | model.backward() => model.backward(); break
        plus what the buffer held before: call zero_grad before the loop | model.zero_grad()\n => pass\n
        with each size divided by that of the first micro-batch, not of all | total = … => total = batches[0][0].size
        with the size of the first micro-batch for each of them | total = … => total = batches[0][0].size * len(batches)
        = each gradient times its micro-batch's loss and share: dloss is the share alone
            | dloss=share => dloss=share * model.forward(x, y)
        with each share of the tokens so far: divide by the number of all tokens, counted before
            | total = … => total = 0 ;; share = … => total += x.size; share = x.size / total
        = the loss of the last micro-batch alone | loss += share * => loss =
        = the mean of the micro-batches' losses: they are not all of the same size | += share => += 1 / len(batches)
        = the loss after the update, not the one before it
            | return loss => return sum(x.size / total * model.forward(x, y) for x, y in batches)
    """,
)


def texts(c):
    """W (V, V), tokens (n + 1,), B, T, lengths (V,); token 0 has no bytes; where V is 0 here, no token comes twice."""
    sizes = [(47, 3, 4, 0), (47, 3, 4, 6), (25, 2, 4, 0), (61, 4, 5, 7), (5, 4, 3, 0), (24, 2, 4, 0), (1, 2, 3, 4)]
    for n, B, T, V in sizes:
        tokens = c.rng.integers(0, V, n + 1) if V else np.append(1, c.rng.permutation([0, *range(2, n + 1)]))
        tokens[[0, -1]] = (1, V - 1) if V else tokens[[0, -1]]
        lengths = np.append(0, c.rng.integers(2, 30, (V or n + 1) - 1))  # (V,)
        yield c.random(len(lengths), len(lengths)), tokens, B, T, lengths


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
        raise WrongAnswer("the model was trained: a validation only goes forward, without dloss", look=look)


def misread(read, tokens, B, T):
    """What is wrong with the rows that a model got, [(x, y)] of (b, t) each, in a sentence; None if nothing is."""
    n, rows = len(tokens) - 1, [row for batch in read for row in zip(*batch)]  # (x, y), (t,) both
    right = [(tokens[a : min(a + T, n)], tokens[a + 1 : a + T + 1]) for a in range(0, n, T)]
    got, wanted = (sorted((*x.tolist(), *y.tolist()) for x, y in some) for some in (rows, right))
    if got == wanted or not rows:
        return None
    told = f"the model did not get the rows of T = {T} tokens that begin at 0, T, 2T, …, each once"
    if len({*tokens.tolist()}) <= n:
        return told
    place = np.argsort(tokens)  # (n + 1,)   token -> place
    x, y = (place[np.concatenate(parts)] for parts in zip(*rows))  # (tokens that the model got,) both
    times, wrong = np.bincount(y, minlength=n + 1)[1:], np.flatnonzero(y != x + 1)  # (n,) of the targets 1 … n
    missing, twice = np.flatnonzero(times == 0) + 1, np.flatnonzero(times > 1) + 1
    if wrong.size:
        first = f"at place {x[wrong[0]]} of the text it is the token of place {y[wrong[0]]}"
        return f"for {wrong.size} of {x.size} tokens the target is not the next token: {first}"
    if missing.size:
        why = ": no whole batch is left for them" * bool(missing[0] == n // (B * T) * B * T + 1)
        why = ": their row is shorter than T" if missing[0] == n // T * T + 1 else why
        return f"of {n} targets, those at {few(missing)} of the text never reach the model{why}"
    if twice.size:
        return f"the targets at {few(twice)} of the text reach the model more than once"
    longest, begins = max(len(x) for x, _ in rows), np.sort([place[x[0]] for x, _ in rows])  # (rows,)
    return f"{told}: its rows have up to {longest}, and begin at {few(begins)}"


def few(places) -> str:
    return f"place{'s' * (len(places) > 1)} {', '.join(map(str, places[:6]))}{', …' * (len(places) > 6)}"


Exercise(
    "validation_loss",
    "10",
    returns="loss bits",
    cases=texts,
    look={"loss": "3.2 · Validation", "bits": "3.3 · Against what?"},
    mistakes=r"""
        = the mean of the batches' means: weight each by its tokens | * a.size => * len(x) / len(pieces)
        divided by len(tokens) instead: nothing predicts the first token | nats / len(x) => nats / len(tokens)
        with T tokens counted in each row: the last one is shorter | * a.size => * len(a) * T
        = nats per byte: divide by ln 2 | nats / np.log(2) => nats
        = bits per token: divide by the bytes per token | np.log(2) / lengths[y].sum() => np.log(2) / len(x)
        with the bytes of x, not of the targets | lengths[y] => lengths[x]
        with the bytes of all tokens: the first one is not a target | lengths[y] => lengths[tokens]
        with the mean length of the vocabulary, not of the targets | lengths[y].sum() => (len(x) * lengths.mean())
        = the loss divided by the bytes: it is a mean, so multiply it by the number of targets first
            | nats / np.log(2) => nats / len(x) / np.log(2)
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
    """A sentence on digits lost far from 0, on flat windows, on NaN at the wrong places, on windows taken for flat."""
    values, window, z, right = tried.given["values"], tried.given["window"], tried.got["z"], tried.expected["z"]
    if not isinstance(z, np.ndarray) or z.shape != values.shape:
        return f"return an array of shape {values.shape}, one z for each value, not {describe(z)}"
    if values.max() > FAR and not np.allclose(z[-6:], right[-6:], rtol=0, atol=1e-3):
        lost = "small differences between large values are lost, as in a mean square minus a squared mean (lesson 01)"
        return f"far from 0, z ends with {np.round(z[-6:], 3)}, and the last should be 2, the others 0: {lost}"
    if values.max() < FAR and (z[right == 0] != 0).any():
        return f"where all of a window is equal z should be 0, but is {z[right == 0]}"
    numbers, first = np.flatnonzero(~np.isnan(z)), min(window - 1, len(z))
    if min([*numbers, len(z)]) != first:
        begin = f"the first z-score that is a number belongs to value {numbers[0]}" if numbers.size else "all z are NaN"
        return f"{begin}; value {first} (from 0) is the first with {window} values up to and including itself"
    taken = next(iter(np.flatnonzero((z == 0) & (np.abs(right) > 1e-6))), None)
    if taken is not None and (np.abs(values).max() < 0.01 or len({*values}) < len(z)):
        told = f"z is 0 for the window {values[taken - window + 1 : taken + 1]}, expected {right[taken]:.3g}"
        return f"{told}: it is 0 only where ALL of a window is equal"
    return None


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
        with the window before the value, and 0 where that is not full: it ends with the value itself
            | recent = … => recent = values[i - window : i] if i >= window else values[:1]
        with a window that is one value too long | values[i - window + 1 : => values[max(0, i - window) :
        with a window that is one value too short | window + 1 : => window + 2 :
        over all values so far, not only the last `window` of them | values[i - window + 1 : => values[:
        over all values, even later ones | recent = … => recent = values
        with the value in the middle of its window, so z changes with later values
            | recent = … => recent = values[i - window // 2 :][:window]
        divided by the variance: its root is missing | recent.std() => recent.var()
        without its sign: a low value has a negative z-score | = (values[i] - => = abs(values[i] -
        with the wrong sign | (values[i] - recent.mean()) => (recent.mean() - values[i])
        with 1e-8 added to the standard deviation: it is not small beside tiny values | std() => std() + 1e-8
    """,
)


def stopped_runs(c):
    """tokens (200,), seed, steps: stopped in a later pass over the text, in the second, in the first."""
    for steps in (33, 19, 5):
        yield c.rng.integers(0, 6, 200) * c.rng.integers(0, 2, 200), int(c.rng.integers(1, 1000)), steps


def begun(run, steps):
    """The run after so many steps; after 33, or more, until one update has been skipped."""
    while run.step < steps or (steps == 33 and run.t == run.step):
        run.train_step()
    return run


def judge_state(c, state, run, held):
    """WrongAnswer unless the state is what a resume needs, and no more. held: a copy of the run, before the call."""
    look = c.exercise.look_for()
    if any(not np.array_equal(getattr(run, name, None), right) for name, right in vars(held).items()):
        raise WrongAnswer("state_of changed the run: it should only look at it", look=look)
    missing = [name for name in KEPT if isinstance(state, dict) and name not in state]
    told = f"{missing[0]!r} is missing: {KEPT[missing[0]]}" if missing else next(_of_state(state, run), None)
    if told:
        raise WrongAnswer(told, look=c.exercise.look_for("missing") if missing else look)
    after, resumed = [run.train_step() for _ in range(60)], type(run)(run.tokens, seed=0)
    for name in KEPT:
        value, right = state[name], getattr(held, name)
        kept, held_there = describe(value), describe(right)
        if not np.array_equal(value, right) or kept.split()[-1] != held_there.split()[-1]:
            now = f": it is {kept}, and was {held_there}" * (kept != held_there)
            raise WrongAnswer(f"{name!r} does not hold exactly what the run held{now}", look=look)
        setattr(resumed, name, value)
    if [resumed.train_step() for _ in range(60)] != after or not np.array_equal(resumed.params, run.params):
        raise WrongAnswer("after the resume the losses, or the weights, are different", look=look)


def _of_state(state, run):
    """Sentences on its form, on names that are too much, on types, and on what training will change."""
    if not isinstance(state, dict):
        yield f"return a dict {{name: value}}, not {describe(state)}"
        return
    for name in state.keys() - KEPT.keys():
        other = "is not an attribute of a Run: use the names in its __init__"
        yield f"{name!r} {f'need not be kept: {LEFT[name]}' if name in LEFT else other}"
    for name in KEPT:
        value, own = state[name], getattr(run, name)
        kind = Integral if isinstance(own, int) and name != "rng" else type(own)
        if not isinstance(value, kind):
            yield f"{name!r} should be {KINDS[kind]}, but is {describe(value)}"
        if value is own and kind is list or kind is np.ndarray and np.may_share_memory(value, own):
            yield f"{name!r} is the run's own {KINDS[kind].split()[1]}, which training will change: keep a copy"


Exercise(
    "state_of",
    "10",
    cases=stopped_runs,
    look={"missing": "6.2 · Make it break", "": "6.1 · What the next step depends on"},
)
