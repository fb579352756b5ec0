"""Lesson 17: what its kernels should give, in float64, and what each known mistake gives instead.

Mistakes are {output: {sentence after "losses equals ": (array, where to look)}}; most come from lessons 04, 05 and 09.
"""

from typing import NamedTuple

import numpy as np

from llmc.course.kernel_checks.evidence import slots
from llmc.course.lessons import softmax_crossentropy
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.fast_on_cpu.fused import relocated
from llmc.course.lessons.gelu_residual import gelu
from llmc.course.lessons.gpu_training.places import CLASSIFIER, GELU, PADDING, REPLAY
from llmc.course.lessons.reductions.lanes import telling

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
    known = {
        name: {said: (array[0], CLASSIFIER) for said, (array, _) in wrong.items()} for name, wrong in known.items()
    }
    z64, rows = z[:, :V].astype(np.float64), np.arange(len(z))
    top = z64.max(axis=1)  # (N,)
    total = np.exp(z64 - top[:, None]).sum(axis=1)  # (N,)
    at = z64[rows, targets]  # (N,)
    known["losses"] |= {
        "the gradient of the target's logit subtracted: the logit was read after it had been overwritten": (
            np.log(total) + top - right.dlogits[rows, targets].astype(np.float64),
            CLASSIFIER,
        ),
        "log(total) + top: the target's logit is missing": (np.log(total) + top, CLASSIFIER),
        "total + top - logit: the logarithm is missing": (total + top - at, CLASSIFIER),
        "the reference with its sign turned": (at - top - np.log(total), CLASSIFIER),
    }
    found = {"losses": telling(known["losses"], right.losses), "dlogits": {}}
    found["dlogits"] = telling(known["dlogits"], right.dlogits[:, :V])
    return found


def padding_mistakes(z, V) -> dict:
    """Known wrong gradients (N, Vp - V) of the padding."""
    return {"what it held before: the padding's gradient is 0, so write it": (z[:, V:].astype(np.float64), PADDING)}


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
        wrong = {"out": relocated(gelu.forward_mistakes(x), GELU), "d": relocated(gelu.backward_mistakes(d, x), GELU)}
    wrong["d"] |= {
        "GELU(x) · d: multiply by the slope": (d.astype(np.float64) * right.out, GELU),
        "dout · GELU'(GELU(x)): the slope is that of GELU at x, not at its output": (_with_slope(d, right.out), GELU),
        "the reference with the gate g taken for tanh(u): g is (1 + tanh(u)) / 2, so tanh(u) is 2g - 1": (
            _with_gate(d, x),
            GELU,
        ),
        "the reference with 2 missing in front of g (1 - g)": (_with_slope(d, x, 1.0), GELU),
        "the reference with 4 g (1 - g) in place of 2 g (1 - g)": (_with_slope(d, x, 4.0), GELU),
    }
    known = {name: telling(wrong[name], getattr(right, name)) for name in wrong}
    known = {name: known[name] | _in_a_part(known[name], getattr(right, name)) for name in known}
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


def _with_slope(d, x, factor=2.0):
    """d · (g + factor · x g (1 - g) u')."""
    x, g, du = _gated(x)
    return d * (g + factor * x * g * (1 - g) * du)


def _with_gate(d, x):
    """d · ((1 + g) / 2 + x (1 - g²) u' / 2)."""
    x, g, du = _gated(x)
    return d * (0.5 * (1 + g) + 0.5 * x * (1 - g * g) * du)


def _gated(x):
    """x, the gate g and u', float64."""
    x = x.astype(np.float64)
    u, du = gelu.SCALE * (x + gelu.CUBIC * x**3), gelu.SCALE * (1 + 3 * gelu.CUBIC * x**2)
    return x, 0.5 * (1 + np.tanh(u)), du


# ------------------------------------------------------------------------------------------------------------- AdamW


def fixed_settings(rng):
    """max_norm, beta1, beta2, eps, weight_decay, as float32."""
    return [np.float32(x) for x in (rng.uniform(0.5, 2), rng.uniform(0.8, 0.95), rng.uniform(0.9, 0.999), 1e-2, 0.3)]


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
        return known | {
            name: {said: (getattr(step, name), REPLAY) for said, step in wrong.items()} for name in ("params", "m", "v")
        }
    with np.errstate(all="ignore"):
        wrong = optimizer.adamw_mistakes(params, _clipped(grads, size, max_norm), m, v, *rest)
        factors = {
            "the reference without clipping": 1.0,
            "the reference with every gradient scaled to max_norm: a smaller norm stays as it is": max_norm / size,
            "the reference with norm / max_norm: it is the other way round": size / max_norm,
            "the reference with 1 / norm: multiply by max_norm": 1 / size,
            "the reference with max_norm as the factor: divide by the norm": max_norm,
        }
        for said, factor in factors.items():
            other = optimizer.adamw(params, grads.astype(np.float64) * factor, m, v, *rest)
            for name in ("params", "m", "v"):
                wrong[name][said] = (getattr(other, name).astype(np.float64), REPLAY)
    return known | {name: telling(relocated(wrong[name], REPLAY), right[name]) for name in ("params", "m", "v")}
