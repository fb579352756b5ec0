"""Lesson 17's exercises: what is right, what is tried, and which mistakes have a name; of the fifth in arenas.py."""

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, listed, with_verb
from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.gpu_training.arenas import judge_plans  # noqa: F401, for the check cell
from llmc.course.mutation.program import solution_of
from llmc.kernels import ceil_div

DECIDED = "5.2 · What changes must lie in memory"
QUADS = 'lesson 13, section "3.7 · v6: 128-bit loads"'
SECTIONS = {
    "missing-syncwarp": 'lesson 13, section "6.2 · Inside a warp"',
    "inactive-lane": 'lesson 13, section "3.4 · v3: the tree by warp shuffles"',
    "out-of-bounds": 'lesson 12, section "3 · Make it break: one too many"',
    "misaligned": QUADS,
    "requests": QUADS,
}


def finite(tried):
    """A sentence about NaN and infinities in what was written, and the numbers that they come from; or None."""
    for name, got in tried.got.items():
        at, V = np.nonzero(~np.isfinite(got))[0], tried.given.get("V")  # places of x, or rows of V logits
        if len(at):
            x, of = (tried.given["logits"][at, :V], f"rows of {V} logits") if V else (tried.given["x"][at], "x")
            of += ", fewer than a warp's lanes," * (int(V or 32) < 32)
            told = f"{with_verb(name, 'has')} {len(at)} NaN or infinite entries, of {of}"
            return f"{told} from {x.min():.4g} to {x.max():.4g}" + "; exp overflows above 88.7" * bool(abs(x).max() > 9)
    return None


def rows_of_logits(c):
    """grid, block, arguments: padding that holds large numbers; around 300 and -1000; one logit far above the others.

    Finally the 8 rows of 1000 logits whose accesses are counted.
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


def classified(losses, logits, targets, dloss, N, V, Vp):
    """Losses (N,) and gradient (N, Vp)."""
    right = softmax_crossentropy.classifier(logits[None], targets[None], float(dloss), V)
    return right.losses[0], right.dlogits[0]


def near(*arguments):
    """{output: the error that is allowed}: none in the padding."""
    losses, gradient = classified(*arguments)
    real = np.arange(gradient.shape[1]) < arguments[-2]  # (Vp,)
    return {"losses": 1e-4 * max(1, losses.max()), "logits": 1e-4 * np.abs(gradient).max() * real}


LOSS = "logf(total) + of_row - of_target"

Exercise(
    "classifier_kernel",
    "17",
    reference=classified,
    writes="losses logits",
    cases=rows_of_logits,
    rules=(finite,),
    atol=near,
    look=SECTIONS | {"": "2.2 · Loss and gradient in one kernel", "sectors": 'lesson 13, section "3.6 · v5: online"'},
    mistakes=rf"""
        minus the gradient at the target, not minus its logit
            | - of_target => - dloss * (expf(of_target - of_row) / total - 1.0f)
        times dloss: the losses must not be scaled | {LOSS} => dloss * ({LOSS})
        with the target of row 0 for all rows | targets[row] => targets[0]
        with the padding in the softmax | v < V; v += 32 => v < Vp; v += 32
        with the lanes' totals added up as they are, each relative to its lane's own maximum
            | total * expf(top - of_row) => total
        with each lane's new maxima left out of the sum: the 1 = exp(0) of a new one is not added
            | + expf(logits[v] - higher) => + (logits[v] > top ? 0.0f : expf(logits[v] - higher))
        = p · dloss - y: the 1 at the target must be multiplied by dloss, too | dloss * (p - y) => dloss * p - y
        with exp(z - loss) for p, not exp(z - top - log(total))
            | expf(logits[v] - of_row) / total => expf(logits[v] - ({LOSS}))
    """,
)


def numbers_and_gradients(c):
    """grid, block, arguments: of both signs, also after the last whole four; far out, where exp overflows.

    Finally the 2048 numbers whose accesses are counted.
    """
    for n, far in ((1003, 1), (1003, 30), (129, 30), (4, 30), (3, 30), (1, 30), (2048, 1)):
        c.new("every seventh of x is 30 times as large" if far > 1 else "")
        for threads in (256, 128, 96, 32) if n < 2048 else (256,):
            x = np.abs(c.random(n))  # (n,)
            x[1::2] *= -1
            x[4 :: max(1, n // 7)] *= far
            yield ceil_div(n, 4 * threads), threads, (c.output(n), c.buffer(n), x, n)


SLOPE, SECOND = "g + 2.0f * x * g * (1.0f - g) * inner_slope(x)", "2.0f * x * g * (1.0f - g)"
FOURS = "e.x * slope(v.x), e.y * slope(v.y), e.z * slope(v.z), e.w * slope(v.w)"

Exercise(
    "gelu_again",
    "17",
    reference=lambda gelu_out, d, x, n: (gelu.forward(x), gelu.backward(d, x)),
    writes="gelu_out d",
    cases=numbers_and_gradients,
    rules=(finite,),
    atol=1e-3,
    look=SECTIONS | {"": "2.5 · Bias and GELU"},
    mistakes=rf"""
        = dout · x · gate': the first term of the product rule, the gate, is missing | g + 2.0f => 2.0f
        = dout · gate: the second term of the product rule is missing | {SLOPE} => g
        = dout · (gate + 2 x g (1 - g)) · u': u' belongs to the second term alone
            | {SLOPE} => (g + {SECOND}) * inner_slope(x)
        with 2 g in place of 2 g (1 - g) | g * (1.0f - g) * => g *
        with the gate g taken for tanh(u): g is (1 + tanh(u)) / 2
            | {SLOPE} => 0.5f * (1.0f + g) + 0.5f * x * (1.0f - g * g) * inner_slope(x)
        = GELU'(x): dout is missing
            | {FOURS} => slope(v.x), slope(v.y), slope(v.z), slope(v.w) ;; d[k] * slope => slope
        = dout · GELU'(GELU(x)): the slope is that of GELU at x, not at its output
            | float g = gate(x); => x = x * gate(x); float g = gate(x);
    """,
)


def runs(c):
    """w (C,), batches [(x (B, C), y (B,)), …], lr, max_norm: to be clipped, or not (C = 2); a single step."""
    for count, B, C in ((9, 5, 3), (4, 7, 2), (6, 3, 5), (1, 4, 3)):
        batches = [(c.random(B, C), c.random(B)) for _ in range(count)]
        yield c.random(C), batches, c.rng.uniform(0.001, 0.01), c.rng.uniform(5, 40) if C != 2 else 1e6


def floats(tried):
    """A sentence if a list that was returned holds Numbers; or ""."""
    kinds = {type(each).__name__ for got in tried.got.values() if isinstance(got, list | tuple) for each in got}
    return "the lists hold Numbers, not floats: float(…) reads one, and waits for it" * ("Number" in kinds)


def judge_end(c, queue, model, w, batches, lr, max_norm):
    """WrongAnswer unless the model ends as ours does, and the host has waited once, at the end."""
    look, ours = c.exercise.look_for(), []  # after all steps, and after all but the last
    for some in (batches, batches[:-1]):
        ours.append(type(model)(w, type(queue)()))
        solution_of("train_ahead").function()(ours[-1], some, lr, max_norm)
    known = {"what it was before the last step": ours[1].w}
    compare("model.w after the last step", model.w, ours[0].w, known=known, look=c.exercise.place(DECIDED))
    if model.grads.any():
        raise WrongAnswer("model.grads is not 0 after the last step", look=look)
    waits_once(queue.calls, len(batches), look)


def waits_once(calls, steps, look):
    """WrongAnswer if the loop waited before its end, or took numbers that a GPU would not have had yet.

    calls: the names of what was launched on the exercise's pretend GPU, and "wait", in their order.
    """
    waits = [k for k, name in enumerate(calls) if name == "wait"]
    more, told = [], ""
    if not waits:
        told = "the numbers are right, but the host never waited for them: on a GPU they would not be there yet"
        more = ["Read a Number with float(…), after the loop."]
    elif len(waits) > 1:
        told = f"right, but the host waited {len(waits)} times in {steps} step{'s' * (steps > 1)}"
        told += "; once is enough, after the last launch"
        between = listed(f"`{name}`" for name in dict.fromkeys(calls[waits[0] : waits[-1]]) if name != "wait")
        more = ["A float(…) waits, and so does a comparison of a Number, as in an `if`."]
        more.append(f"Between the first wait and the last it launched {between}.")
    elif later := calls[waits[0] + 1 :]:
        told = "right, with a single wait, but it comes too early: after it the host launched "
        told += listed(f"`{name}`" for name in later)
    if told:
        raise WrongAnswer(told, Kind.DEMAND, more=more, look=look)


Exercise(
    "train_ahead",
    "17",
    returns="losses norms",
    cases=runs,
    rules=(floats,),
    look="4.3 · Where waits hide",
    mistakes=rf"""
        with the number of the last step for every step: `forward` overwrites it | forward(x, y).copy() => forward(x, y)
        with the number of the last step for every step: `norm` overwrites it | norm().copy() => norm()
        [{DECIDED}] without clipping | model.clip(max_norm) => pass
        [{DECIDED}] with the norms after clipping, not before it
            | norms.append(model.norm().copy()) => model.clip(max_norm); norms.append(model.norm().copy())
            ;; model.clip(max_norm)\n => pass\n
        = 0, because `norm` comes before `backward` | norms.append(model.norm().copy()) => pass
            ;; model.backward() => norms.append(model.norm().copy()); model.backward()
        = what the first weights give in every step: no update comes in between
            | losses, norms = [], [] => losses, norms = [model.forward(x, y).copy() for x, y in batches], []
            ;; losses.append(model.forward(x, y).copy()) => pass
        with updates by the gradients of the step before
            | model.backward() => model.update(lr); model.backward() ;; model.update(lr)\n => pass\n
    """,
)


def steps_in_a_row(c):
    """grid, block, arguments: six steps on the same arrays; eps so large that its place in the formula shows."""
    for n, threads in ((300, 256), (300, 96), (129, 32), (1, 32)):
        params, grads, m, v = (c.buffer(n) for _ in range(4))  # (n,) each
        v[...] = np.abs(v)
        drawn = c.rng.uniform(0.5, 2), c.rng.uniform(0.8, 0.88), c.rng.uniform(0.9, 0.96), 0.5, 0.3
        fixed = [np.float32(each) for each in drawn]  # max_norm, beta1, beta2, eps, weight_decay
        for t, size in ((1, 0.9), (2, 7.0), (3, np.nan), (9, np.inf), (400, 3.0), (5, 1e-3)):
            c.new(f"*t is {t}, and *norm is {size} · max_norm")
            grads[...] = c.random(n)
            lr, norm = np.float32([c.rng.uniform(0.01, 0.1)]), np.float32([size * fixed[0]])  # (1,) each
            yield ceil_div(n, threads), threads, (params, grads, m, v, lr, np.int32([t]), norm, *fixed, n)


def stepped(params, grads, m, v, lr, t, norm, max_norm, *settings):
    """m, v, params and grads, (n,) each."""
    size, step = float(norm[0]), optimizer.Step(params, m, v)  # as they were
    factor = float(max_norm) / (size + 1e-6) if size > max_norm else 1.0
    if np.isfinite(size):
        step = optimizer.adamw(params, factor * grads.astype(np.float64), m, v, lr[0], *map(float, settings[:-1]), t[0])
    return step.m, step.v, step.params, 0 * grads


CLIP = "if (size > max_norm) g *= max_norm / (size + 1e-6f);"
ROOT = "sqrtf(v[i] / (1.0f - powf(beta2, *t)))"

Exercise(
    "adamw_replayed",
    "17",
    reference=stepped,
    writes="m v params grads",
    cases=steps_in_a_row,
    rtol=2e-4,
    look=SECTIONS | {"": DECIDED},
    mistakes=rf"""
        = that of an ordinary step: where *norm is NaN or infinite, only the gradients change
            | if (!isfinite(size)) return; =>
        = the decayed params: where *norm is NaN or infinite, only the gradients change
            | if (!isfinite(size)) => if (!isfinite(size)) params[i] *= 1.0f - rate * weight_decay; if (!isfinite(size))
        with the factor max_norm / norm though norm is below max_norm: it is 1 there | if (size > max_norm) g => g
        with each gradient cut off at ± max_norm, where one factor is for all
            | {CLIP} => g = fminf(fmaxf(g, -max_norm), max_norm);
        with factor · grads² in place of (factor · grads)²: v is of the clipped gradient | (g * g => (g * grad0
            ;; float g = grads[i], => float g = grads[i], grad0 = grads[i],
        without bias correction | m[i] / (1.0f - powf(beta1, *t)) => m[i] ;; {ROOT} => sqrtf(v[i])
        with 1 - beta in place of 1 - beta^t: the correction changes from step to step
            | powf(beta1, *t) => beta1 ;; powf(beta2, *t) => beta2
        with t + 1 in place of t | powf(beta1, *t) => powf(beta1, *t + 1) ;; powf(beta2, *t) => powf(beta2, *t + 1)
        with eps inside the root: it is added to the root | {ROOT} => sqrtf(v[i] / (1.0f - powf(beta2, *t)) + eps)
            ;; (root + eps) => root
        with lr · weight_decay subtracted, which is to be multiplied by params
            | (1.0f - rate * weight_decay) * params[i] => params[i] - rate * weight_decay
    """,
)
