"""Lesson 17's kernels: what is right, what is tried, and which mistakes have a name; 3 and 5: queues.py, arenas.py."""

import copy

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.gpu_training.arenas import judge_plans  # noqa: F401, for the check cells
from llmc.course.lessons.gpu_training.queues import judge_run  # noqa: F401, likewise
from llmc.kernels import ceil_div

BLOCKS = 256, 128, 96, 32
CLASSIFIER, GELU = "2.2 · Loss and gradient in one kernel", "2.5 · Bias and GELU"
REPLAY = "5.2 · What changes must lie in memory"
ONLINE, QUADS = 'lesson 13, section "3.6 · v5: online"', 'lesson 13, section "3.7 · v6: 128-bit loads"'
SECTIONS = {
    "missing-syncwarp": 'lesson 13, section "6.2 · Inside a warp"',
    "inactive-lane": 'lesson 13, section "3.4 · v3: the tree by warp shuffles"',
    "out-of-bounds": 'lesson 12, section "3 · Make it break: one too many"',
    "misaligned": QUADS,
    "requests": QUADS,
}

# ------------------------------------------------------------------------------------------------------- inputs


def rows_of_logits(c):
    """grid, block, arguments: padding that holds large numbers; around 300 and -1000; one logit far above the others.

    At last the 8 rows of 1000 logits of which the accesses are counted.
    """
    sizes = [(5, 70, 96, 0, 0), (9, 33, 64, 0, 0), (4, 7, 32, 0, 0), (2, 300, 300, 0, 0), (3, 1, 5, 0, 0)]
    sizes += [(6, 127, 128, 300, 0), (6, 127, 128, -1000, 0), (7, 129, 160, 0, 2000), (8, 1000, 1024, 0, 0)]
    for N, V, Vp, offset, far in sizes:
        c.new(f"logits around {offset}" if offset else "one logit of each row is far above the others" if far else "")
        for threads in (256, 96, 32) if V < 1000 else (256,):
            losses, logits = c.output(N), c.buffer(N, Vp)  # (N,), (N, Vp)
            logits[...] = c.rng.normal(0.7 + offset, 2.0, (N, Vp))
            logits[np.arange(N), 16 * np.arange(N) % V] += far  # another place in every row
            logits[:, V:] = c.rng.normal(offset + 50, 20, (N, Vp - V))  # it must not count
            targets = c.rng.integers(0, V, N).astype(np.int32)  # (N,)
            targets[:2] = [0, V - 1]
            dloss = np.float32(c.rng.uniform(0.1, 0.9))
            yield ceil_div(N, threads // 32), threads, (losses, logits, targets, dloss, N, V, Vp)


def numbers_and_gradients(c):
    """grid, block, arguments: of both signs, also behind the last whole four; far out, where exp overflows.

    At last the 2048 numbers of which the accesses are counted.
    """
    for n, far in ((1003, 1), (1003, 30), (129, 30), (4, 30), (3, 30), (1, 30), (2048, 1)):
        c.new("every seventh of x is 30 times as large, where exp overflows" if far > 1 else "")
        for threads in BLOCKS if n < 2048 else (256,):
            x = np.abs(c.random(n))  # (n,)
            x[1::2] *= -1
            x[4 :: max(1, n // 7)] *= far
            yield ceil_div(n, 4 * threads), threads, (c.output(n), c.buffer(n), x, n)


def steps_in_a_row(c):
    """grid, block, arguments: six steps on the same arrays; eps so large that its place in the formula shows."""
    for n, threads in ((300, 256), (300, 96), (129, 32), (1, 32)):
        params, grads, m, v = (c.buffer(n) for _ in range(4))  # (n,) each
        v[...] = np.abs(v)
        drawn = c.rng.uniform(0.5, 2), c.rng.uniform(0.8, 0.88), c.rng.uniform(0.9, 0.96), 0.5, 0.3
        fixed = [np.float32(each) for each in drawn]  # max_norm, beta1, beta2, eps, weight_decay
        for t, size in ((1, 0.9), (2, 7.0), (3, np.nan), (9, np.inf), (400, 3.0), (5, 1e-3)):
            grads[...] = c.random(n)
            lr, norm = np.float32([c.rng.uniform(0.01, 0.1)]), np.float32([size * fixed[0]])  # (1,) each
            yield ceil_div(n, threads), threads, (params, grads, m, v, lr, np.int32([t]), norm, *fixed, n)


# --------------------------------------------------------------------------------------- what is right, and rules


def judge_classifier(c, code, grid, block, arguments):
    """Launch, and compare the losses (N,) and the gradient (N, Vp), which must be 0 in the padding."""
    losses, logits, targets, dloss, N, V, Vp = arguments
    z = logits.copy()  # (N, Vp)
    c.launch(code, grid, block, arguments)
    right = softmax_crossentropy.classifier(z[None], targets[None], float(dloss), V)
    near = 1e-4 * np.abs(right.dlogits[0]).max() * (np.arange(Vp) < V) + np.zeros(z.shape)  # (N, Vp)
    _compare(c, "the array losses", losses, right.losses[0], atol=1e-4 * max(1, right.losses.max()))
    _compare(c, "the gradient", logits, right.dlogits[0], atol=near)


def judge_step(c, code, grid, block, arguments):
    """Launch, and compare m, v, params and grads, (n,) each."""
    params, grads, m, v, lr, t, norm, max_norm, *fixed, n = copy.deepcopy(arguments)
    c.launch(code, grid, block, arguments)
    size = float(norm[0])
    factor = float(max_norm) / (size + 1e-6) if size > max_norm else 1.0
    step = optimizer.Step(params, m, v)  # as they were
    if np.isfinite(size):
        step = optimizer.adamw(params, factor * grads.astype(np.float64), m, v, lr[0], *map(float, fixed), t[0])
    when = f" at t = {t[0]}" + f", where *norm is {size}" * (not np.isfinite(size))
    _compare(c, "m" + when, arguments[2], step.m, 2e-4)
    _compare(c, "v" + when, arguments[3], step.v, 2e-4)
    _compare(c, "the array params" + when, arguments[0], step.params, 2e-4, before=params)
    _compare(c, "the array grads" + when, arguments[1], 0 * grads, 2e-4, before=grads)


def _compare(c, name, got, right, rtol=None, **how):
    """As c.compare, whose messages would say "losses equals"; where nothing is found, what is not finite is said."""
    try:
        compare(name, got, right, rtol, **how, look=c.exercise.look_for())
    except WrongAnswer as error:
        if error.diagnosis.kind is Kind.PLACE and not np.isfinite(got).all():
            error.diagnosis.kind = Kind.RULE
            error.diagnosis.sentence = f"{name} has NaN or infinite entries: {OVERFLOW}"
        raise


OVERFLOW = "exp overflows above 88.7, log(0) is infinite, and infinity minus infinity is NaN"


def finite(tried):
    """A sentence about NaN and infinities in gelu_out or d."""
    for name, got in tried.got.items():
        x = tried.given["x"][~np.isfinite(got)]
        if len(x):
            why = "exp overflows above 88.7, and infinity times 0 and infinity / infinity are NaN"
            return f"{name} is not finite where x is {x[0]:.4g}: {why}"
    return None


# ---------------------------------------------------------------------------------------------------- exercises

LOSS = "logf(total) + of_row - of_target"

Exercise(
    "classifier_kernel",
    "17",
    writes="losses logits",
    cases=rows_of_logits,
    look=SECTIONS | {"": CLASSIFIER, "sectors": ONLINE},
    mistakes=rf"""
        = log(total) + top: the target's logit is missing | of_row - of_target => of_row
        = total + top - logit: the logarithm is missing | logf(total) => total
        = log(total) - logit, with total the sum of exp(z - top): top is missing
            | logf(total) + of_row - of_target => logf(total) - of_target
        = -log(p), where p of the target may be 0 in float32 | {LOSS} => -logf(expf(of_target - of_row) / total)
        times dloss: the losses must not be scaled | {LOSS} => dloss * ({LOSS})
        minus the gradient at the target, not minus its logit
            | float of_target = logits[target];  // before it is overwritten => float of_target = 0.0f;
            ;; = dloss * (p - y); => = dloss * (p - y); if (v == target) losses[row] = logf(total) + of_row - logits[v];
            ;; if (lane == 0) losses[row] = {LOSS}; =>
        with the target of row 0 for all rows | targets[row] => targets[0]
        with the padding in the softmax | v < V; v += 32 => v < Vp; v += 32
        with the lanes' totals added up as they are, each relative to its lane's own maximum
            | total * expf(top - of_row) => total
        with the lanes' totals times exp(the row's maximum - the lane's): the exponent is never above 0
            | expf(top - of_row) => expf(of_row - top)
        with each lane's new maxima left out of the sum: the 1 = exp(0) of a new one is not added
            | + expf(logits[v] - higher) => + (logits[v] > top ? 0.0f : expf(logits[v] - higher))
        without dloss | dloss * (p - y) => p - y
        = p · dloss - y: the 1 at the target must be multiplied by dloss, too | dloss * (p - y) => dloss * p - y
        = dloss · p, and 0 at the target, where dloss · (p - 1) belongs | (p - y) => p * (1.0f - y)
        times the loss of its row: dloss is the only factor | dloss * (p - y) => dloss * (p - y) * ({LOSS})
        added to the logits, which it takes the place of | logits[v] = dloss => logits[v] += dloss
        with y = 1 at every logit of the target's lane | v == target => (v - target) % 32 == 0
        with exp(z - loss) for p, not exp(z - top - log(total))
            | expf(logits[v] - of_row) / total => expf(logits[v] - ({LOSS}))
        with the target's logit subtracted only where target % 32 is 0
            | of_row - of_target => of_row - (target % 32 == 0 ? of_target : 0.0f)
        [lesson 05, section "5.2 · A padded vocabulary"] with the padding as it was before: its gradient is 0
            | v < Vp; v += 32 => v < V; v += 32
    """,
)

SLOPE, SECOND = "g + 2.0f * x * g * (1.0f - g) * inner_slope(x)", "2.0f * x * g * (1.0f - g)"
FOURS = "v.x * gate(v.x), v.y * gate(v.y), v.z * gate(v.z), v.w * gate(v.w)"
DFOURS = "e.x * slope(v.x), e.y * slope(v.y), e.z * slope(v.z), e.w * slope(v.w)"

Exercise(
    "gelu_again",
    "17",
    reference=lambda gelu_out, d, x, n: (gelu.forward(x), gelu.backward(d, x)),
    writes="gelu_out d",
    cases=numbers_and_gradients,
    rules=(finite,),
    atol=1e-3,
    look=SECTIONS | {"": GELU},
    mistakes=rf"""
        = dout · x · gate': the first term of the product rule, the gate, is missing | g + 2.0f => 2.0f
        = dout · gate: the second term of the product rule is missing | {SLOPE} => g
        = dout · (gate + 2 x g (1 - g)) · u': u' belongs to the second term alone
            | {SLOPE} => (g + {SECOND}) * inner_slope(x)
        with 2 g (1 - g) missing | {SECOND} => x
        with 2 g in place of 2 g (1 - g) | g * (1.0f - g) * => g *
        with (1 - g²) / 2 in place of 2 g (1 - g) | {SECOND} => 0.5f * x * (1.0f - g * g)
        with the gate g taken for tanh(u): g is (1 + tanh(u)) / 2
            | {SLOPE} => 0.5f * (1.0f + g) + 0.5f * x * (1.0f - g * g) * inner_slope(x)
        with u' taken at the gate: inner_slope is of x | inner_slope(x) => inner_slope(g)
        = GELU'(x): dout is missing
            | {DFOURS} => slope(v.x), slope(v.y), slope(v.z), slope(v.w) ;; d[k] * slope => slope
        = dout · GELU'(GELU(x)): the slope is that of GELU at x, not at its output
            | float g = gate(x); => x = x * gate(x); float g = gate(x);
        with dout and x swapped in the whole fours
            | {DFOURS} => v.x * slope(e.x), v.y * slope(e.y), v.z * slope(e.z), v.w * slope(e.w)
        with dout and x swapped behind the last whole four | d[k] * slope(x[k]) => x[k] * slope(d[k])
        with slopes of the next number of the same four
            | {DFOURS} => e.x * slope(v.y), e.y * slope(v.z), e.z * slope(v.w), e.w * slope(v.x)
        with GELU'(x) in place of GELU(x) behind the last whole four | x[k] * gate(x[k]) => slope(x[k])
        = the gate: it must be multiplied by x
            | {FOURS} => gate(v.x), gate(v.y), gate(v.z), gate(v.w) ;; = x[k] * gate => = gate
        = dout · gate: GELU is of x alone
            | {FOURS} => e.x * gate(v.x), e.y * gate(v.y), e.z * gate(v.z), e.w * gate(v.w)
            ;; = x[k] * gate => = d[k] * gate
    """,
)

CLIP, FACTOR = "if (size > max_norm) g *= max_norm / (size + 1e-6f);", "max_norm / (size + 1e-6f)"
ROOT = "sqrtf(v[i] / (1.0f - powf(beta2, *t)))"

Exercise(
    "adamw_replayed",
    "17",
    writes="params grads m v",
    cases=steps_in_a_row,
    look=SECTIONS | {"": REPLAY},
    mistakes=rf"""
        = that of an ordinary step: where *norm is NaN or infinite, only the gradients change
            | if (!isfinite(size)) return; =>
        = that of an ordinary step with gradients of 0: where *norm is infinite, only the gradients change
            | !isfinite(size) => isnan(size)
        = the decayed params: where *norm is NaN or infinite, only the gradients change
            | if (!isfinite(size)) => if (!isfinite(size)) params[i] *= 1.0f - rate * weight_decay; if (!isfinite(size))
        without clipping | size > max_norm => size > INFINITY
        with the factor max_norm / norm though norm is below max_norm: it is 1 there | if (size > max_norm) g => g
        with norm / max_norm as the factor, not max_norm / norm | {FACTOR} => size / max_norm
        with each gradient cut off at ± max_norm, where one factor is for all
            | {CLIP} => g = fminf(fmaxf(g, -max_norm), max_norm);
        with factor · grads² in place of (factor · grads)²: v is of the clipped gradient | (g * g => (g * grad0
            ;; float g = grads[i], => float g = grads[i], grad0 = grads[i],
        = the step of gradients that are 0 | float g = grads[i], => float g = 0.0f,
        without bias correction | m[i] / (1.0f - powf(beta1, *t)) => m[i] ;; {ROOT} => sqrtf(v[i])
        with 1 - beta in place of 1 - beta^t: the correction changes from step to step
            | powf(beta1, *t) => beta1 ;; powf(beta2, *t) => beta2
        with t + 1 in place of t | powf(beta1, *t) => powf(beta1, *t + 1) ;; powf(beta2, *t) => powf(beta2, *t + 1)
        with eps inside the root: it is added to the root | {ROOT} => sqrtf(v[i] / (1.0f - powf(beta2, *t)) + eps)
            ;; (root + eps) => root
        with lr · weight_decay subtracted, which is to be multiplied by params
            | (1.0f - rate * weight_decay) * params[i] => params[i] - rate * weight_decay
        = (1 - beta1) · g: what m held is lost | m[i] += (1.0f - beta1) * (g - m[i]) => m[i] = (1.0f - beta1) * g
        = (1 - beta2) · g²: what v held is lost
            | v[i] += (1.0f - beta2) * (g * g - v[i]) => v[i] = (1.0f - beta2) * g * g
    """,
)
