"""Lesson 09's exercises: what is right, what is tried, and which mistakes have a name."""

from itertools import product
from operator import attrgetter

import numpy as np

from llmc.config import GPT2Config, preset
from llmc.course import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe, describe_result
from llmc.course.checks.speed.retained_arrays import no_more_than
from llmc.course.lessons.adamw import optimizer
from llmc.course.measure import peak_bytes
from llmc.training.schedule import learning_rate

PARAMETERS = preset("gpt2").parameter_table()
DECAYED = [p.name for p in PARAMETERS if p.decayed]
THREE, FIVE = [(3, 4), (6,), (2, 3, 2)], [(4, 2), (5,), (1, 3), (2,), (6,)]  # shapes of gradients
RUNS = (5, 40, 0.1), (0, 10, 0.0), (1, 20, 0.5), (8, 8, 0.2), (12, 7, 0.3), (3, 33, 0.1), (19, 20, 0)  # see below

# ------------------------------------------------------------------------------------------------------- inputs


def momentum_steps(c):
    """params, grads, m, lr, beta, two steps in a row: of one to three axes; in float32; a beta of 0."""
    for shape, dtype, lr, beta in [
        ((3, 5), np.float64, 0.3, 0.9),
        ((7,), np.float64, 0.05, 0.3),
        ((2, 3, 4), np.float32, 1.7, 0.8),
        ((4,), np.float64, 0.2, 0.0),
    ]:
        params, m = c.buffer(*shape, dtype=dtype), c.buffer(*shape, dtype=dtype)
        for _ in range(2):
            yield params, c.random(*shape, dtype=dtype), m, lr, beta


def weights(c, *shape, dtype=np.float64):
    """params, grads, m, v of one shape; v is a mean of squares."""
    params, m, v = (c.buffer(*shape, dtype=dtype) for _ in range(3))
    np.abs(v, out=v)
    return params, c.random(*shape, dtype=dtype), m, v


def adamw_steps(c):
    """params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t; the first weight never had a slope."""
    for shape, dtype, *settings in [
        ((2, 3), np.float64, 0.25, 0.3, 0.1, 1e-12, 0.4, 3),  # betas so small that 1 - beta · t is positive
        ((3, 5), np.float64, 0.35, 0.7, 0.9, 0.2, 0.4, 3),  # an eps that shows, and a decay
        ((3, 5), np.float64, 0.2, 0.6, 0.8, 0.1, 0.3, 2),  # the same shape again
        ((7,), np.float64, 0.1, 0.9, 0.999, 1e-8, 0.0, 1),  # the first step, no decay
        ((2, 3, 4), np.float32, 0.05, 0.9, 0.999, 1e-8, 0.1, 1000),  # 0.999**1000 is 0.37
        ((5,), np.float64, 1e-12, 0.9, 0.95, 1e-8, 0.1, 10_000_000),  # hardly a step, very late
    ]:
        params, grads, m, v = weights(c, *shape, dtype=dtype)
        grads.flat[0] = m.flat[0] = v.flat[0] = 0  # as in padding rows
        c.new(f"t is {settings[-1]}" if settings[-1] > 100 else "")
        yield params, grads, m, v, *settings


def fast_steps(c):
    """The same, (n,) float32: no slice length divides n; finally the size that is timed, twice."""
    for n, *settings in [
        (7, 0.35, 0.7, 0.9, 0.2, 0.4, 3),
        (50_003, 0.01, 0.9, 0.95, 1e-8, 0.1, 1),
        (300_001, 0.05, 0.9, 0.999, 1e-8, 0.0, 1000),
        *2 * [(1 << 21, 1e-3, 0.9, 0.95, 1e-8, 0.1, 10)],
    ]:
        c.new(f"there are {n:,} weights" if n > 7 else "")
        yield *weights(c, n, dtype=np.float32), *settings


def tables(c):
    """shapes {name: shape}: all tensors, then nine of them, in any order; sizes that are all equal."""
    for maxT, V, L, C in [(8, 128, 2, 6), (4, 128, 1, 4), (1024, 50257, 12, 768), (7, 128, 7, 7)]:
        shapes = {p.name: p.shape for p in GPT2Config(maxT, V, L, 1, C).parameter_table()}
        for count in (16, 9):
            yield {name: shapes[name] for name in c.rng.permutation(list(shapes))[:count].tolist()}


def gradients(c):
    """grads, max_norm: the norm is above it, far below, so small that 1e-6 shows, 0; float32; five arrays, one."""
    for size, max_norm, dtype, shapes in [
        (1.0, 0.7, np.float64, THREE),
        (1.0, 1e3, np.float64, THREE),
        (1e-6, 2e-6, np.float64, THREE),
        (0.0, 1.0, np.float64, THREE),
        (1.0, 0.5, np.float32, THREE),
        (1.0, 2.0, np.float64, FIVE),
        (2.0, 0.1, np.float64, [(2, 5)]),
    ]:
        grads = [c.buffer(*shape, dtype=dtype) for shape in shapes]
        for g, factor in zip(grads, (0.3, 1.0, 0.1, 0.7, 0.5)):  # the largest is in the middle
            g *= size * factor
        yield grads, max_norm


def steps_of_runs(c):
    """step, max_lr, warmup, total, final_fraction, kind: all steps of a run and five more.

    The last is first, and neighbours are far apart: a few calls in a row then tell one curve from another.
    """
    for kind, (warmup, total, final) in product(("linear", "cosine", "constant", "wsd"), RUNS):
        max_lr, last = 0.02 * c.rng.uniform(0.5, 1), max(warmup, total) + 4
        for step in sorted(range(last + 1), key=lambda step: (last - step) * 0.618 % 1):
            yield step, max_lr, warmup, total, final, kind


# --------------------------------------------------------------------------------------------------------- rules


def judge_ten_steps(c, function):
    """Compare ten steps of the function with PyTorch's."""
    stored = optimizer.ten_steps()
    params, m, v = c.buffer(6), c.buffer(6), c.buffer(6)
    params[...], m[...], v[...] = stored.start, 0, 0
    for t, (grads, expected) in enumerate(zip(stored.grads, stored.params), start=1):
        c.call(function, params, grads, m, v, **stored.settings, t=t)
        compare(f"params after step {t} of PyTorch's ten", params, expected, rtol=1e-12, look=c.exercise.look_for())
    c.say("Ten steps equal PyTorch's to the twelfth digit.")


def groups(tried):
    """What is wrong with the two lists, in a sentence."""
    for label, names in tried.got.items():
        if not isinstance(names, list | tuple):
            return f"{label} should be a list of names, but is {describe(names)}"
    (decayed, plain), right = tried.got.values(), tried.expected
    if set(decayed) == set(right["left_alone"]) and set(plain) == set(right["decayed"]):
        return "the two lists are swapped: the decayed ones come first"
    for name, shape in tried.given["shapes"].items():
        times = [*decayed, *plain].count(name)
        if times != 1:
            return f"{name} is in {'the lists twice' if times else 'neither list'}"
        if (name in decayed) != (name in DECAYED):
            group, kind = ("decayed", "matrix") if name in DECAYED else ("left alone", "vector")
            it = "a table of embeddings" if name in ("wte", "wpe") else "in each layer it" if shape[1:] else "it"
            return f"{name} {shape} should be {group}: {it} is a {kind}"
    wrong = [label for label in right if [*tried.got[label]] != right[label]]
    return f"{wrong[0]} should be {', '.join(right[wrong[0]])}, in the order of shapes" if wrong else None


def one_number(tried):
    """A sentence if several came back in place of the norm."""
    several = isinstance(tried.got["norm"], list | tuple)
    return f"the norm is one number, but your function returned {describe_result(tried.got['norm'])}" * several or None


def judge_clipped(c, held, grads, max_norm):
    """WrongAnswer unless these arrays are those that they held before the call, clipped."""
    expected, norm = optimizer.clip(held, max_norm)
    for k, (g, old, right) in enumerate(zip(grads, held, expected)):
        before = old if norm > max_norm else None  # up to max_norm, nothing is to be written
        compare(f"grads[{k}]", g, right, rtol=1e-4, before=before, look=c.exercise.look_for())


def twice(tried):
    """A sentence if a few entries of m hold what two steps give: slices overlap."""
    m, once, (grads, beta) = tried.got["m"], tried.expected["m"], (tried.given[name] for name in ("grads", "beta1"))
    wrong = ~np.isclose(m, once, rtol=1e-4, atol=1e-5)  # (n,)
    if 0 < wrong.sum() < wrong.size / 2 and np.allclose(m[wrong], (beta * once + (1 - beta) * grads)[wrong], 1e-3):
        found = f"{wrong.sum():,} of {wrong.size:,} entries of m, the first at {np.argmax(wrong)}"
        return f"{found}, hold what two such steps give: slices overlap"
    return None


def judge_memory(c, function, params, *inputs):
    """WrongAnswer if a call of the function takes, or keeps, more memory than a quarter of an array."""
    c.calls.clear()  # they say nothing about memory or time
    share = peak_bytes(lambda: function(params, *inputs)) / params.nbytes
    if share > 0.25:
        told = f"right, but its temporaries take {share:.2g} times the memory of an array; 0.25 is allowed"
        raise WrongAnswer(told, Kind.DEMAND)
    no_more_than(function, params.nbytes / 4, "a quarter of an array is allowed")
    c.say(f"Its temporaries take {share:.1%} of an array.")


# ---------------------------------------------------------------------------------------------------- exercises

MOMENTUM = r"""
    = beta · m + grads: (1 - beta) in front of grads is missing | (1 - beta) * grads => grads
    with beta and 1 - beta swapped: beta is the share of the OLD m | m *= … => m *= 1 - beta ;; (1 - beta) * => beta *
    = lr · (the mean of the slopes): lr belongs in the step, not in m | m += … => m += (1 - beta) * grads; m *= lr
    = beta · m + lr · grads: lr belongs in the step, not in m | (1 - beta) * grads => lr * grads
    with the step along the old m: m is updated first, then used
        | m *= … => old = m.copy(); m *= beta ;; params -= lr * m => params -= lr * old
    with m updated twice in the step, which uses m itself (this is Nesterov's momentum)
        | lr * m => lr * (beta * m + (1 - beta) * grads)
"""
WHY, EPS, TWO = "[3.3 · Why the division by 1 − βᵗ]", "[3.5 · Why eps is there]", "[4.1 · Two ways to shrink a weight]"
M, ROOT = "m / (1 - beta1**t)", "(np.sqrt(v / (1 - beta2**t)) + eps)"
STEP = "params -= … => params -= lr *"
ADAMW = rf"""
    {WHY} = the corrected m̂: the buffer keeps m itself, m̂ is for this step alone
        | params *= … => m /= 1 - beta1**t; params *= 1 - lr * weight_decay
    {TWO} = the running mean of grads + weight_decay · params: in AdamW decay does not go through m
        | m += … => grads = grads + weight_decay * params; m += (1 - beta1) * (grads - m)
    = the running mean of grads²: that is v | m += … => m += (1 - beta1) * (grads * grads - m)
    = beta2 · v + grads²: (1 - beta2) is missing | v += … => v += grads * grads - (1 - beta2) * v
    {WHY} without bias correction | {STEP} m / (np.sqrt(v) + eps)
    {WHY} with t + 1 in place of t: the first step is t = 1
        | {STEP} m / (1 - beta1 ** (t + 1)) / (np.sqrt(v / (1 - beta2 ** (t + 1))) + eps)
    {WHY} with 1 - beta in place of 1 - beta**t: the correction changes from step to step
        | {STEP} m / (1 - beta1) / (np.sqrt(v / (1 - beta2)) + eps)
    {WHY} with 1 - beta · t in place of 1 - beta**t: a power, not a product
        | {STEP} m / (1 - beta1 * t) / (np.sqrt(v / (1 - beta2 * t)) + eps)
    {WHY} with (1 - beta)**t in place of 1 - beta**t: the power belongs to beta alone
        | {STEP} m / (1 - beta1) ** t / (np.sqrt(v / (1 - beta2) ** t) + eps)
    {EPS} with eps inside the root: it is added to the root | {STEP} {M} / np.sqrt(v / (1 - beta2**t) + eps)
    {EPS} with eps² inside the root: eps is added to the root | {STEP} {M} / np.sqrt(v / (1 - beta2**t) + eps**2)
    {EPS} with eps added to √v before the correction: √v̂ + eps
        | {STEP} {M} * np.sqrt(1 - beta2**t) / (np.sqrt(v) + eps)
    with the old m and v: they are updated first
        | m += … => old = {M} / {ROOT}; m += (1 - beta1) * (grads - m) ;; {STEP} old
    {TWO} with decay after the step: it applies to the params before the step
        | params *= … => pass ;; {STEP} {M} / {ROOT}; params *= 1 - lr * weight_decay
    {TWO} with decay divided by √v̂ + eps, too | params *= … => pass ;; {STEP} ({M} + weight_decay * params) / {ROOT}
"""
NORM, FACTOR = "norm = … => norm = float(", "max_norm / (norm + 1e-6) =>"
LENGTH = "np.linalg.norm"
CLIPPING = rf"""
    = the sum of the arrays' norms: add up the squares, then take one root | {NORM}sum(map({LENGTH}, grads)))
    with 1e-6 added under the root: it is added to the norm itself | (norm + 1e-6) => (norm**2 + 1e-6) ** 0.5
    = the norm AFTER clipping; return the norm before it
        | return norm => return float(np.sqrt(sum(np.sum(g * g) for g in grads)))
    = the root of the sum of the arrays' norms: add up their squares | {NORM}sum(map({LENGTH}, grads)) ** 0.5)
    = the norm plus 1e-6: that small number belongs in the denominator alone | return norm => return norm + 1e-6
    = the root of the MEAN square: take the sum
        | {NORM}np.sqrt(np.mean(np.concatenate([g.ravel() for g in grads]) ** 2)))
    scaled UP to max_norm: a norm below it is left alone | if norm > max_norm => if True
    clipped by its own norm: the norm of all arrays together decides
        | if norm > max_norm => if True ;; {FACTOR} min(1, max_norm / ({LENGTH}(g) + 1e-6))
    with its entries clipped one by one to ± max_norm: that turns the direction
        | if norm > max_norm => if True ;; g *= … => np.clip(g, -max_norm, max_norm, out=g)
    with the norm taken again after the arrays before it were scaled: take it once, first
        | {FACTOR} max_norm / (np.sqrt(sum(np.sum(h * h) for h in grads)) + 1e-6)
"""
RATES = r"""
    with a warmup that rises from final_fraction · max_lr: it rises from 0
        | (step + 1) / warmup => (final_fraction + (1 - final_fraction) * (step + 1) / warmup)
    without warmup | step < warmup => False
    without warmup where kind is "constant" | step < warmup => step < warmup and kind != "constant"
    with sqrt(1 - x) in place of 1 - sqrt(x) where kind is "wsd" | 1 - np.sqrt(x) => np.sqrt(1 - x)
    with a curve that begins at step 0: it begins where warmup ends | else warmup => else 0
    with a curve that goes on past its end: from step total on it no longer changes
        | min(max( => (max( ;; 0.0), 1.0) => 0.0))
    with x = 0 where the curve has no length (total <= warmup): such a curve is over, x = 1 | x = 1.0 if => x = 0.0 if
    with final_fraction left out: the curve ends at final_fraction · max_lr | min_lr = … => min_lr = 0
    = the larger of the curve and final_fraction · max_lr: the curve ends there, it is not cut off
        | min_lr + (max_lr - min_lr) * left => max(max_lr * left, min_lr)
    with the cosine alone, which falls to -1: (1 + cos) / 2 is needed | (1 + np.cos(np.pi * x)) / 2 => np.cos(np.pi * x)
    with a fall that begins at 80% of what warmup leaves: it begins at 80% of the whole run
        | 0.8 * total => warmup + 0.8 * (total - warmup)
    with x counted from the end of warmup: it is 0 where the fall begins, at 80% of the run
        | begin = … => begin = warmup
        ;; (total - begin), 0.0 => (total - begin) * (kind != "wsd" or step >= 0.8 * total), 0.0
"""

MOVES = dict(lesson="09", writes="m v params", mistakes=ADAMW)
MOVES["reference"] = lambda *given: attrgetter("m", "v", "params")(optimizer.adamw(*given))
Exercise("adamw_step", cases=adamw_steps, look="3.2 · One weight, three steps, by hand", **MOVES)
Exercise("fast_adamw_step", cases=fast_steps, rules=(twice,), look="8.2 · One pass", slow="See hint 3.", **MOVES)
Exercise("momentum_step", "09", writes="m params", cases=momentum_steps, look="2 · Momentum", mistakes=MOMENTUM)
Exercise(
    "decay_groups",
    "09",
    reference=lambda shapes: ([n for n in shapes if n in DECAYED], [n for n in shapes if n not in DECAYED]),
    returns="decayed left_alone",
    cases=tables,
    rules=(groups,),
    look="4.3 · Which tensors are not decayed",
)
Exercise(
    "clip_by_global_norm",
    "09",
    reference=lambda grads, max_norm: optimizer.clip(grads, max_norm)[1],
    returns="norm",
    cases=gradients,
    rules=(one_number,),
    rtol=1e-5,
    look="7 · Clipping",
    mistakes=CLIPPING,
)
Exercise(
    "scheduled_lr",
    "09",
    reference=learning_rate,
    returns="rate",
    cases=steps_of_runs,
    atol=lambda step, max_lr, *_: 1e-9 * max_lr,
    look="6 · The learning rate over a run",
    mistakes=RATES,
)
