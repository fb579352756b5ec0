"""Old table of mistakes of an AdamW step, {words after "equals ": (array, where)}, for lesson 20 until it moves."""

import numpy as np

ADAM = 'lesson 09, section "3.2 · One weight, three steps, by hand"'
CORRECTION = 'lesson 09, section "3.3 · Why the division by 1 − βᵗ"'
EPSILON = 'lesson 09, section "3.5 · Why eps is there"'
DECAY = 'lesson 09, section "4.1 · Two ways to shrink a weight"'
TOO_EARLY = "the reference with t - 1 instead of t: the first step is t = 1, and 1 - beta**0 is 0"


def _at(where, wrong) -> dict:
    """The same place for all of them."""
    return {sentence: (array, where) for sentence, array in wrong.items()}


def _direction(m, v, beta1, beta2, eps, t):
    """m̂ / (√v̂ + eps)."""
    return m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)


def adamw_mistakes(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t) -> dict:
    """Known wrong m, v and params. v must not be negative anywhere."""
    p, g, m0, v0 = (np.asarray(array, np.float64) for array in (params, grads, m, v))
    decayed = g + weight_decay * p  # the gradient of the loss with an L2 penalty
    m1, v1 = beta1 * m0 + (1 - beta1) * g, beta2 * v0 + (1 - beta2) * g * g
    return {
        "m": _wrong_m(g, m0, m1, decayed, beta1, beta2, t),
        "v": _wrong_v(g, v0, v1, decayed, m1, beta1, beta2, t),
        "params": _wrong_params(p, g, m0, v0, m1, v1, lr, beta1, beta2, eps, weight_decay, t),
    }


def _wrong_m(g, m0, m1, decayed, beta1, beta2, t):
    """m after the step."""
    wrong = {
        "the reference with beta1 and 1 - beta1 swapped: beta1 is the share of the OLD m": (1 - beta1) * m0 + beta1 * g,
        "beta1 · m + grads: (1 - beta1) is missing": beta1 * m0 + g,
        "(1 - beta1) · grads: what m held is lost": (1 - beta1) * g,
        "m + (1 - beta1) · grads: the old m is not multiplied by beta1": m0 + (1 - beta1) * g,
        "the reference with beta2 instead of beta1": beta2 * m0 + (1 - beta2) * g,
        "the running mean of grads²: that is v": beta1 * m0 + (1 - beta1) * g * g,
    }
    return {
        "the corrected m̂: the buffer keeps m itself, m̂ is for this step alone": (m1 / (1 - beta1**t), CORRECTION),
        "the running mean of grads + weight_decay · params: in AdamW decay does not go through m": (
            beta1 * m0 + (1 - beta1) * decayed,
            DECAY,
        ),
        **_at(ADAM, wrong),
    }


def _wrong_v(g, v0, v1, decayed, m1, beta1, beta2, t):
    """v after the step."""
    wrong = {
        "the running mean of grads: the square is missing": beta2 * v0 + (1 - beta2) * g,
        "the running mean of |grads|: the square is missing": beta2 * v0 + (1 - beta2) * np.abs(g),
        "the reference with beta2 and 1 - beta2 swapped: beta2 is the share of the OLD v": (
            (1 - beta2) * v0 + beta2 * g * g
        ),
        "beta2 · v + grads²: (1 - beta2) is missing": beta2 * v0 + g * g,
        "(1 - beta2) · grads²: what v held is lost": (1 - beta2) * g * g,
        "v + (1 - beta2) · grads²: the old v is not multiplied by beta2": v0 + (1 - beta2) * g * g,
        "the reference with beta1 instead of beta2": beta1 * v0 + (1 - beta1) * g * g,
        "the running mean of m²: use grads²": beta2 * v0 + (1 - beta2) * m1 * m1,
        "the running mean with (1 - beta2)² in front of grads²: square only the gradient": (
            beta2 * v0 + ((1 - beta2) * g) ** 2
        ),
        "the running mean of ((1 - beta1) · grads)²: what m is given was squared, and not the gradient": (
            beta2 * v0 + (1 - beta2) * ((1 - beta1) * g) ** 2
        ),
        "the larger of beta2 · v and grads², as in AdaMax: take the running mean": np.maximum(beta2 * v0, g * g),
        "its own root: the buffer keeps v, the root is for this step alone": np.sqrt(v1),
    }
    return {
        "the corrected v̂: the buffer keeps v itself, v̂ is for this step alone": (v1 / (1 - beta2**t), CORRECTION),
        "the running mean of (grads + weight_decay · params)²: in AdamW decay does not go through v": (
            beta2 * v0 + (1 - beta2) * decayed**2,
            DECAY,
        ),
        **_at(ADAM, wrong),
    }


def _wrong_params(p, g, m0, v0, m1, v1, lr, beta1, beta2, eps, wd, t):
    """params after the step, m and v being right."""
    c1, c2, keep = 1 - beta1**t, 1 - beta2**t, 1 - lr * wd
    right, root = _direction(m1, v1, beta1, beta2, eps, t), np.sqrt(v1 / c2)
    later = _direction(m1, v1, beta1, beta2, eps, t + 1)
    corrections = {
        "the reference without bias correction": m1 / (np.sqrt(v1) + eps),
        "the reference with m corrected and v not": m1 / c1 / (np.sqrt(v1) + eps),
        "the reference with v corrected and m not": m1 / (root + eps),
        "the reference with v corrected by beta1: v̂ is v / (1 - beta2**t)": m1 / c1 / (np.sqrt(v1 / c1) + eps),
        "the reference with m corrected by beta2: m̂ is m / (1 - beta1**t)": m1 / c2 / (root + eps),
        "the reference with t + 1 instead of t: the first step is t = 1": later,
        "the reference with 1 - beta instead of 1 - beta**t: the correction changes from step to step": (
            m1 / (1 - beta1) / (np.sqrt(v1 / (1 - beta2)) + eps)
        ),
        "the reference with 1 - beta · t instead of 1 - beta**t: a power, not a product": (
            m1 / (1 - beta1 * t) / (np.sqrt(np.abs(v1 / (1 - beta2 * t))) + eps)
        ),
        "the reference multiplied by 1 - beta**t: divide by it": m1 * c1 / (np.sqrt(v1 * c2) + eps),
        "the reference with the correction of v outside the root: correct v first, then take the root": (
            m1 / c1 / (np.sqrt(v1) / c2 + eps)
        ),
    }
    with np.errstate(all="ignore"):  # late in a run (1 - beta)**t is 0
        corrections["the reference with (1 - beta)**t instead of 1 - beta**t: the power belongs to beta alone"] = (
            m1 / (1 - beta1) ** t / (np.sqrt(v1 / (1 - beta2) ** t) + eps)
        )
    if t > 1:
        corrections[TOO_EARLY] = _direction(m1, v1, beta1, beta2, eps, t - 1)
    with np.errstate(all="ignore"):
        bare = m1 / c1 / root
    divisions = {
        "the reference without eps: it is added to the root": bare,
        "the reference with eps inside the root: it is added to the root": m1 / c1 / np.sqrt(v1 / c2 + eps),
        "the reference with eps² inside the root: eps is added to the root": m1 / c1 / np.sqrt(v1 / c2 + eps**2),
        "the reference with eps added to √v before the correction: √v̂ + eps": (
            m1 / c1 / ((np.sqrt(v1) + eps) / np.sqrt(c2))
        ),
    }
    directions = {
        "the reference without the root: divide by √v̂, not by v̂": m1 / c1 / (v1 / c2 + eps),
        "the reference with m̂ alone: divide it by √v̂ + eps": m1 / c1,
        "the reference with grads instead of m̂": g / (root + eps),
        "the reference with Nesterov's look-ahead, as in NAdam: m̂ is m / (1 - beta1**t)": (
            (beta1 * m1 / (1 - beta1 ** (t + 1)) + (1 - beta1) * g / c1) / (root + eps)
        ),
        "the reference with Nesterov's look-ahead in m̂: m̂ is m / (1 - beta1**t)": (
            (beta1 * m1 + (1 - beta1) * g) / c1 / (root + eps)
        ),
        "the reference with the sign of m̂: divide by √v̂": np.sign(m1),
        "the reference with the old m: m and v are updated first": m0 / c1 / (root + eps),
        "the reference with the old v: v is updated first": m1 / c1 / (np.sqrt(v0 / c2) + eps),
        "the reference with the old m and v: they are updated first": _direction(m0, v0, beta1, beta2, eps, t),
    }
    with np.errstate(invalid="ignore"):
        directions["the reference with m and v swapped: divide m̂ by √v̂"] = v1 / c2 / (np.sqrt(m1 / c1) + eps)
    decays = {
        "the reference without weight decay": p - lr * right,
        "the reference with decay not multiplied by lr: params shrink by lr · weight_decay": (1 - wd) * p - lr * right,
        "the reference with decay after the step: decay applies to the params before the step": keep * (p - lr * right),
        "the reference with decay not multiplied by lr, and after the step: params shrink by lr · weight_decay first": (
            (1 - wd) * (p - lr * right)
        ),
        "the reference with a plus in front of the decay: weights shrink": (1 + lr * wd) * p - lr * right,
        "the reference with decay divided by √v̂ + eps, too: do not divide it": (
            p - lr * (m1 / c1 + wd * p) / (root + eps)
        ),
        "the reference with weight_decay · grads instead of weight_decay · params": p - lr * right - lr * wd * g,
        "the reference with weight_decay times the step: params shrink by lr · weight_decay": (
            (1 - lr * wd) * p - lr * wd * right
        ),
        "the reference with lr · weight_decay subtracted, which is to be multiplied by params": p
        - lr * wd
        - lr * right,
        "the decayed params alone: the step is missing": keep * p,
        "the reference with a plus in front of the step: go down, against the slope": keep * p + lr * right,
        "the step alone: what params held is lost": -lr * right,
        "the reference with the step not multiplied by lr": keep * p - right,
    }
    steps = {
        **_at(CORRECTION, corrections),
        **_at(EPSILON, divisions),
        **_at(ADAM, directions),
    }
    moved = {sentence: (keep * p - lr * step, where) for sentence, (step, where) in steps.items()}
    undecayed = {  # where the step is right here, the decay alone is missing
        f"the reference without weight decay, and {sentence.removeprefix('the reference ')}": (p - lr * step, where)
        for sentence, (step, where) in steps.items()
        if wd and not np.allclose(step, right, 1e-12, 1e-12)
    }
    return moved | _at(DECAY, decays) | undecayed
