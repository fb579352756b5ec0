"""Lesson 17: what its kernels should give, in float64, and what each known mistake gives instead.

Mistakes are {output: {sentence after "losses equals ": (array, where to look)}}; most come from lessons 04, 05 and 09.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.fast_on_cpu.fused import relocated
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.gpu_training.places import CLASSIFIER, GELU, PADDING, REPLAY
from llmc.course.lessons.reductions.lanes import LOWEST, back, by_lane, never_rescaled, telling
from llmc.course.old.kernel_checks.evidence import slots

# ---------------------------------------------------------------------------------------------------- the classifier


def logits(rng, N, V, Vp, offset, far):
    """z (N, Vp) float32, with noise in the padding, and targets (N,) int32, at both ends of the vocabulary."""
    z = rng.normal(0.7, 2.0, (N, Vp)).astype(np.float32) + np.float32(offset)  # (N, Vp)
    z[np.arange(N), 16 * np.arange(N) % V] += np.float32(far)  # another place in every row
    z[:, V:] = rng.normal(offset + 50, 20, (N, Vp - V))  # it must not count
    targets = rng.integers(0, V, N).astype(np.int32)  # (N,)
    targets[:2] = [0, V - 1][: len(targets)]
    return z, targets


def classified(z, targets, dloss, V):
    """losses (N,), dlogits (N, Vp)."""
    right = softmax_crossentropy.classifier(z[None], targets[None], dloss, V)
    return softmax_crossentropy.Classified(right.losses[0], right.dlogits[0])


def classifier_mistakes(z, targets, dloss, V) -> dict:
    """Known wrong losses (N,), and dlogits (N, V) of the logits alone."""
    right = classified(z, targets, dloss, V)
    with np.errstate(all="ignore"):
        known = softmax_crossentropy.classifier_mistakes(z[None], targets[None], dloss, V)
        more = _mistakes_of_lanes(z[:, :V].astype(np.float64), targets, dloss, right)
    known = {
        name: {said: (array[0], CLASSIFIER) for said, (array, _) in wrong.items()} for name, wrong in known.items()
    }
    return {
        name: telling(known[name] | {said: (array, CLASSIFIER) for said, array in more[name].items()}, wanted)
        for name, wanted in (("losses", right.losses), ("dlogits", right.dlogits[:, :V]))
    }


def _mistakes_of_lanes(z, targets, dloss, right) -> dict:
    """{"losses": {sentence: (N,)}, "dlogits": {sentence: (N, V)}} of a warp for each row of z (N, V), float64."""
    V, rows = z.shape[1], np.arange(len(z))
    top, at = z.max(axis=1), z[rows, targets]  # (N,) each
    e = np.exp(z - top[:, None])  # (N, V)
    total = e.sum(axis=1)  # (N,)
    own = by_lane(z, LOWEST).max(axis=1)  # (N, 32): each lane's maximum
    sums = by_lane(e, 0).sum(axis=1)  # (N, 32): each lane's total, of exp(z - top)
    apart = (sums * np.exp(np.minimum(top[:, None] - own, 700))).sum(axis=1)  # (N,)
    turned = (sums * np.exp(2 * np.minimum(top[:, None] - own, 300))).sum(axis=1)  # (N,)
    late = (never_rescaled(z) * np.exp(own - top[:, None])).sum(axis=1)  # (N,)
    seen = np.maximum.accumulate(by_lane(z, LOWEST), axis=1)  # (N, turns, 32): each lane's largest so far
    grown = np.concatenate([seen[:, :1] > LOWEST, seen[:, 1:] > seen[:, :-1]], axis=1)  # … where that is a new one
    unseen = (by_lane(e, 0) * ~grown).sum(axis=(1, 2))  # (N,)
    totals = {
        "each lane's new maxima left out of the sum: when one comes, the total so far shrinks, and exp(0) = 1 of the "
        "new one is added": unseen,
        "the lanes' totals added up as they are, each relative to its lane's own maximum": apart,
        "the lanes' totals multiplied by exp(the row's maximum - the lane's), not exp(the lane's - the row's)": turned,
        "a lane's total that stays as it is when its maximum grows": late,
        "each lane's first logit counted twice": total + e[:, :32].sum(axis=1),
        "the row's last logit left out of the sum": total - e[:, -1],
        "powers of 2 in place of powers of e (exp2f) in the sum": np.exp2(z - top[:, None]).sum(axis=1),
    }
    losses = {
        "log(total) + top: the target's logit is missing": np.log(total) + top,
        "log(total) + top, from which the target's logit is subtracted only where target % 32 is 0": (
            np.log(total) + top - np.where(targets % 32 == 0, at, 0)
        ),
        f"the reference with {targets[0]}, the target of row 0, as every row's target": (
            np.log(total) + top - z[:, targets[0]]
        ),
        "total + top - logit: the logarithm is missing": total + top - at,
        "log(total) - top - logit, not log(total) + top - logit": np.log(total) - top - at,
        "top - logit, without log(total)": top - at,
        "log(total) + 2 · top - logit, with total the sum of exp(z - top)": (np.log(total) + 2 * top - at),
        "log(1 + total) + top - logit: the 1 is too much": np.log(1 + total) + top - at,
        "the reference with its sign turned": at - top - np.log(total),
        "the reference with lane 0's own maximum in place of the row's": np.log(total) + own[:, 0] - at,
        "log(total) + top - logit of lane 0's own maximum and of the lanes' totals added up as they are": np.log(apart)
        + own[:, 0]
        - at,
        "the loss among lane 0's logits alone, 0, 32, 64, …": (np.log(np.maximum(sums[:, 0], 1e-300)) + top - at),
    }
    p, y = e / total[:, None], np.arange(V) == targets[:, None]  # (N, V) each
    loss = (np.log(total) + top - at)[:, None]  # (N, 1)
    of_lane, its_own = back(sums, V), back(own, V)  # (N, V) each: of the lane that has this logit
    fall = its_own - top[:, None]  # (N, V)
    probabilities = {
        "exp(z - loss) for p, not exp(z - top - log(total))": np.exp(np.minimum(z - loss, 700)),
        "exp(z) / total for p, not exp(z - top) / total": np.exp(z) / total[:, None],
        "exp(z - top) / log(total) for p, not exp(z - top) / total": e / np.log(total)[:, None],
        "the lane's own maximum in place of the row's in exp(z - top)": np.exp(z - its_own) / total[:, None],
        "the softmax among each lane's own logits": e / of_lane,
        "each lane's own total, of its own maximum, under exp(z - top)": e / of_lane * np.exp(fall),
        "powers of 2 (exp2f) in p, above the total of powers of e": np.exp2(z - top[:, None]) / total[:, None],
        "p of the target for every p": np.exp(-loss) + 0 * p,
        "p · (1 - p) for p: the gradient of softmax and logarithm together is p - y": p * (1 - p),
    }
    probabilities |= {said: e / each[:, None] for said, each in totals.items()}
    lanes = (np.arange(V) - targets[:, None]) % 32 == 0  # (N, V)
    dlogits = {f"the reference with {said}": dloss * (each - y) for said, each in probabilities.items()} | {
        "the reference added to the logits, which it takes the place of": z + dloss * (p - y),
        "the reference with 0 at the target: dloss · (p - 1) belongs there": dloss * p * ~y,
        "the reference times the loss of its row: dloss is the only factor": dloss * (p - y) * loss,
        "the reference with y = 1 at every logit of the target's lane: y is 1 where v is the target": (
            dloss * (p - lanes)
        ),
        "the reference with y = 1 at every logit of lane number `target`: y is 1 where v is the target": (
            dloss * (p - (np.arange(V) % 32 == targets[:, None]))
        ),
    }
    losses |= {f"the reference with {said}": np.log(each) + top - at for said, each in totals.items()}
    return {"losses": losses, "dlogits": dlogits}


def padding_mistakes(z, V) -> dict:
    """Known wrong gradients (N, Vp - V) of the padding."""
    return {"what it held before: the padding's gradient is 0": (z[:, V:].astype(np.float64), PADDING)}


# -------------------------------------------------------------------------------------------------------------- GELU


class Again(NamedTuple):
    """GELU(x) and d · GELU'(x), (n,) each."""

    out: np.ndarray
    d: np.ndarray


def gelu_again(d, x) -> Again:
    """d: (n,) before."""
    return Again(gelu.forward(x), gelu.backward(d, x))


def gelu_mistakes(d, x, out, after) -> dict:
    """Known wrong gelu_out and d; and what the two, out and after as the kernel wrote them, show."""
    right = gelu_again(d, x)
    with np.errstate(all="ignore"):
        # one half of the slope alone is told below, in the words of this lesson
        known = {said: wrong for said, wrong in gelu.backward_mistakes(d, x).items() if "half of the" not in said}
        wrong = {"out": relocated(gelu.forward_mistakes(x), GELU), "d": relocated(known, GELU)}
        wrong["d"] |= {
            "GELU(x) · d, not GELU'(x) · d": (d.astype(np.float64) * right.out, GELU),
            "dout · GELU'(GELU(x)): the slope is that of GELU at x, not at its output": (
                d * gelu.slope(right.out),
                GELU,
            ),
            "dout · GELU'(dout): the slope is that of GELU at x": (gelu.backward(d, d), GELU),
            "dout / GELU'(x), not dout · GELU'(x)": (d / gelu.slope(x), GELU),
            **{said: (d * slope, GELU) for said, slope in _wrong_slopes(x).items()},
        }
        wrong["out"] |= {
            "dout · gate: GELU is of x alone": (d * _gated(x)[1], GELU),
            "GELU(dout): it is of x": (gelu.forward(d), GELU),
            "GELU'(x): gelu_out gets GELU itself": (gelu.slope(x), GELU),
        }
    known = {name: telling(wrong[name], getattr(right, name)) for name in wrong}
    known = {name: known[name] | _in_a_part(known[name], getattr(right, name)) for name in known}
    known = {name: _also_near_0(known[name], got, x) for name, got in (("out", out), ("d", after))}
    for name, got in (("out", out), ("d", after)):
        if len(x) > 3:
            known[name] |= {said: (array, GELU) for said, array in slots(got, getattr(right, name)).items()}
    return known


def _in_a_part(known, right) -> dict:
    """The known mistakes in the whole fours alone, and behind them alone, where there is both."""
    whole = np.arange(len(right)) < len(right) // 4 * 4  # (n,)
    if whole.all() or not whole.any():
        return {}
    parts = (("behind the last whole four, and in the fours", whole), ("in the whole fours, and behind them", ~whole))
    found = {
        f"the reference {words} {said}": (np.where(part, array, right), where)
        for words, part in parts
        for said, (array, where) in known.items()
    }
    return telling(found, right)


def _also_near_0(known, got, x) -> dict:
    """The known mistakes that give `got` near 0, too: far out some numbers are so large that they hide all others."""
    near = np.abs(x) < 6  # (n,)
    return {
        said: (array, where)
        for said, (array, where) in known.items()
        if not (np.abs(array - got)[near] > 1e-3 * np.abs(array[near]).max(initial=0.0)).any()
    }


def _wrong_slopes(x) -> dict:
    """{sentence: what stands for GELU'(x) (n,)}: the gate g, and what may be taken for its slope 2 g (1 - g) u'."""
    x, g, du = _gated(x)
    gates = {
        "the reference with 2 missing in front of g (1 - g)": g * (1 - g),
        "the reference with 2 g (1 - g) missing": 1.0,
        "the reference with 4 g (1 - g) in place of 2 g (1 - g)": 4 * g * (1 - g),
        "the reference with (1 - g²) / 2 in place of 2 g (1 - g)": 0.5 * (1 - g * g),
        "the reference with 1 - g² in place of 2 g (1 - g)": 1 - g * g,
        "the reference with 2 (1 - g²) in place of 2 g (1 - g)": 2 * (1 - g * g),
        "the reference with 2 (1 - g) in place of 2 g (1 - g): g is missing": 2 * (1 - g),
        "the reference with 2 g in place of 2 g (1 - g): 1 - g is missing": 2 * g,
        "the reference with 2 g (1 + g) in place of 2 g (1 - g)": 2 * g * (1 + g),
        "the reference with 2 g² (1 - g) in place of 2 g (1 - g)": (2 * g * g * (1 - g)),
        "the reference with x once more in the second term": 2 * x * g * (1 - g),
    }
    with_dg = {said: g + x * dg * du for said, dg in gates.items()}
    second = 2 * x * g * (1 - g) * du
    inner = gelu.SCALE * (1 + 3 * gelu.CUBIC * g * g)
    return with_dg | {
        "the reference with the gate g taken for tanh(u): g is (1 + tanh(u)) / 2": (
            0.5 * (1 + g) + 0.5 * x * (1 - g * g) * du
        ),
        "dout · (1 + x · gate'): the first term is the gate, not 1": 1 + second,
        "dout · (x · gate + x · gate'): the first term is the gate alone": x * g + second,
        "dout · (gate + 2 x g (1 - g)) · u': u' belongs to the second term alone": (g + 2 * x * g * (1 - g)) * du,
        "dout · gate · u', not dout · (gate + x · gate')": g * du,
        "the reference with u' taken at the gate: inner_slope is of x": g + 2 * x * g * (1 - g) * inner,
    }


def _gated(x):
    """x, the gate g and u', float64."""
    x = x.astype(np.float64)
    u, du = gelu.SCALE * (x + gelu.CUBIC * x**3), gelu.SCALE * (1 + 3 * gelu.CUBIC * x**2)
    return x, 0.5 * (1 + np.tanh(u)), du


# ------------------------------------------------------------------------------------------------------------- AdamW


def fixed_settings(rng):
    """max_norm, beta1, beta2, eps, weight_decay, as float32; eps so large that its place in the formula shows."""
    return [np.float32(x) for x in (rng.uniform(0.5, 2), rng.uniform(0.8, 0.88), rng.uniform(0.9, 0.96), 0.5, 0.3)]


def stepped(params, grads, m, v, lr, t, norm, fixed) -> dict:
    """{"params", "m", "v", "grads"}: after the step."""
    max_norm, beta1, beta2, eps, decay = (float(x) for x in fixed)
    size, rate = float(norm[0]), float(lr[0])
    zero = np.zeros_like(grads)
    if not np.isfinite(size):
        return dict(params=params, m=m, v=v, grads=zero)
    clipped = _clipped(grads, size, max_norm)
    step = optimizer.adamw(params, clipped, m, v, rate, beta1, beta2, eps, decay, t)
    return dict(params=step.params, m=step.m, v=step.v, grads=zero)


def _clipped(grads, size, max_norm):
    """(n,) float64."""
    return grads.astype(np.float64) * (max_norm / (size + 1e-6) if size > max_norm else 1.0)


def _wrongly_clipped(grads, size, max_norm) -> dict:
    """{sentence: the gradients (n,) that a step takes}; grads: float64."""
    factors = {
        "the reference without clipping": 1.0,
        "the reference with max_norm / norm as the factor though norm is below max_norm: it is 1 there": max_norm
        / size,
        "the reference with norm / max_norm as the factor, not max_norm / norm": size / max_norm,
        "the reference with 1 / norm as the factor, not max_norm / norm": 1 / size,
        "the reference with max_norm as the factor, not max_norm / norm": max_norm,
        "the reference with the factor applied twice": min(1.0, max_norm / size) ** 2,
        "the reference clipped by the root of norm, which is a root already": min(1.0, max_norm / np.sqrt(size)),
        "the reference clipped by the square of norm": min(1.0, max_norm / size**2),
        "the reference clipped where norm is above 1, not where it is above max_norm": max_norm / size
        if size > 1
        else 1.0,
        "the reference with max_norm / (norm + max_norm) as the factor, not max_norm / norm": max_norm
        / (size + max_norm),
        "the step of gradients that are 0": 0.0,
    }
    return {said: grads * factor for said, factor in factors.items()} | {
        "the reference with each gradient cut off at ± max_norm, where one factor is for all": (
            np.clip(grads, -max_norm, max_norm)
        )
    }


def adamw_mistakes(params, grads, m, v, lr, t, norm, fixed) -> dict:
    """Known wrong params, m, v and grads."""
    max_norm, beta1, beta2, eps, decay = (float(x) for x in fixed)
    size, rate = float(norm[0]), float(lr[0])
    right = stepped(params, grads, m, v, lr, t, norm, fixed)
    kept = {"what it held before: every step ends with gradients of 0, also one that changes nothing else": grads}
    known = {"grads": {said: (array.astype(np.float64), REPLAY) for said, array in kept.items()}}
    rest = rate, beta1, beta2, eps, decay, t
    if not np.isfinite(size):
        said, wrong = "that of an ordinary step{}: with such a norm, only the gradients change", {}
        for words, factor in (("", 1.0), (" with gradients of 0", 0.0)):  # max_norm / infinity is 0
            wrong[said.format(words)] = optimizer.adamw(params, grads * np.float32(factor), m, v, *rest)
        wrong["the decayed params: with such a norm, only the gradients change"] = optimizer.Step(
            params.astype(np.float64) * (1 - rate * decay), m, v
        )
        for name in ("params", "m", "v"):
            known[name] = telling({s: (getattr(step, name), REPLAY) for s, step in wrong.items()}, right[name])
        return known
    with np.errstate(all="ignore"):
        wrong = optimizer.adamw_mistakes(params, _clipped(grads, size, max_norm), m, v, *rest)
        for words in (optimizer.TOO_EARLY, f"{optimizer.TOO_EARLY}, and without weight decay"):
            wrong["params"].pop(words, None)  # the launch with t = 1, which comes first, would have divided by 0
        for said, gradient in _wrongly_clipped(grads.astype(np.float64), size, max_norm).items():
            other = optimizer.adamw(params, gradient, m, v, *rest)
            for name in ("params", "m", "v"):
                wrong[name][said] = (getattr(other, name).astype(np.float64), REPLAY)
        factor, g = min(1.0, max_norm / (size + 1e-6)), grads.astype(np.float64)
        words = "the reference with factor · grads² in place of (factor · grads)²: v is of the clipped gradient"
        wrong["v"][words] = beta2 * v + (1 - beta2) * factor * g * g, REPLAY
    return known | {name: telling(relocated(wrong[name], REPLAY), right[name]) for name in ("params", "m", "v")}
