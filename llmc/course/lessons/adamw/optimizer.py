"""Lesson 09: what an optimizer's step should return, in float64, and what each well-known mistake returns instead.

References return new arrays in the dtype of what they replace. Mistakes are {output: {sentence after "out equals ":
(array, where to look)}}. Schedules and decay groups have a module of their own, `schedules.py`.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from llmc.course.old.checks.evidence import is_explaining, learners_function
from llmc.course.old.checks.held import no_more_than  # noqa: F401, for the check
from llmc.course.own_names import learners_names

# where to look; a test compares these titles with the headings of notebooks/09_adamw.ipynb
MOMENTUM = 'lesson 09, section "2 · Momentum"'
ADAM = 'lesson 09, section "3.2 · One weight, three steps, by hand"'
CORRECTION = 'lesson 09, section "3.3 · Why the division by 1 − βᵗ"'
EPSILON = 'lesson 09, section "3.5 · Why eps is there"'
DECAY = 'lesson 09, section "4.1 · Two ways to shrink a weight"'
ONE_PASS = 'lesson 09, section "8.2 · One pass"'
CLIP = 'lesson 09, section "7 · Clipping"'
PYTORCH_CLIP = 'lesson 09, section "7.1 · PyTorch\'s 1e-6"'

TOO_EARLY = "the reference with t - 1 instead of t: the first step is t = 1, and 1 - beta**0 is 0"
MANY = 1 << 20  # weights: more than any slice holds
NO_TURN = f"nothing of params, m and v was changed for {{}} weights, though it is for {MANY:,}"
ONLY_THE_LAST = f"only the last array was scaled, and each must be.\n→ Where to look: {CLIP}."

TEN_STEPS = Path(__file__).parent / "ten_steps.npz"


class Step(NamedTuple):
    """params, m and v after one AdamW step, each of the shape and dtype that it had."""

    params: np.ndarray
    m: np.ndarray
    v: np.ndarray


class TenSteps(NamedTuple):
    """What PyTorch's AdamW did to six weights: start (6,), grads (10, 6), params (10, 6) after each step, float64.

    The weights are awkward on purpose: one with ordinary slopes, one with huge ones, one with tiny ones (eps shows),
    one with none at all, one with a single spike, one whose slope changes its sign at every step.
    """

    start: np.ndarray
    grads: np.ndarray
    params: np.ndarray
    settings: dict


SETTINGS = {"lr": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}  # of TenSteps


def ten_steps() -> TenSteps:
    """The stored numbers; `python -m llmc.tests.course.torch_adamw` writes them, a test asks PyTorch again."""
    with np.load(TEN_STEPS) as file:
        return TenSteps(file["start"], file["grads"], file["params"], dict(SETTINGS))


# -------------------------------------------------------------------------------------------------------- momentum


def momentum(params, grads, m, lr, beta):
    """(params, m) after m = beta · m + (1 - beta) · grads, params = params - lr · m; any shape."""
    p, g, old = (np.asarray(array, np.float64) for array in (params, grads, m))
    new = beta * old + (1 - beta) * g
    return (p - lr * new).astype(params.dtype), new.astype(m.dtype)


def momentum_mistakes(params, grads, m, lr, beta) -> dict:
    """Known wrong params and m."""
    p, g, old = (np.asarray(array, np.float64) for array in (params, grads, m))
    new = beta * old + (1 - beta) * g
    wrong_m = {
        "beta · m + grads: (1 - beta) in front of grads is missing": beta * old + g,
        "the reference with beta and 1 - beta swapped: beta is the share of the OLD m": (1 - beta) * old + beta * g,
        "(1 - beta) · grads: what m held is lost": (1 - beta) * g,
        "the gradient alone: what m held is lost": g,
        "m + (1 - beta) · grads: the old m is not multiplied by beta": old + (1 - beta) * g,
        "beta · m - (1 - beta) · grads: m is the mean of the slopes; the minus belongs in the step": (
            beta * old - (1 - beta) * g
        ),
        "lr · (the mean of the slopes): lr belongs in the step, not in m": lr * new,
        "beta · m + lr · grads: lr belongs in the step, not in m": beta * old + lr * g,
    }
    wrong_params = {
        "params - lr · grads: a plain step, m is not used": p - lr * g,
        "params - lr · (the old m): m is updated first, then used": p - lr * old,
        "params + lr · m: go down, against the slope": p + lr * new,
        "params - m: the learning rate is missing": p - new,
        "-lr · m: what params held is lost": -lr * new,
        "the reference with m updated twice: the step uses m itself (this is Nesterov's momentum)": (
            p - lr * (beta * new + (1 - beta) * g)
        ),
        "the reference with m / (1 - beta): (1 - beta) is in m already": p - lr * new / (1 - beta),
    }
    return {name: _at(MOMENTUM, wrong) for name, wrong in (("m", wrong_m), ("params", wrong_params))}


def _at(where, wrong) -> dict:
    """The same place for all of them."""
    return {sentence: (array, where) for sentence, array in wrong.items()}


# ----------------------------------------------------------------------------------------------------------- adamw


def adamw(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t) -> Step:
    """One step of AdamW (Loshchilov & Hutter 2019), the t-th, t = 1, 2, …; any shape."""
    p, g, m64, v64 = (np.asarray(array, np.float64) for array in (params, grads, m, v))
    m64 = beta1 * m64 + (1 - beta1) * g
    v64 = beta2 * v64 + (1 - beta2) * g * g
    p = (1 - lr * weight_decay) * p - lr * _direction(m64, v64, beta1, beta2, eps, t)
    return Step(p.astype(params.dtype), m64.astype(m.dtype), v64.astype(v.dtype))


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


def works_on_more(function, settings) -> bool:
    """Does a learner's function, which left a few weights alone, change many?"""
    params, grads, m, v = np.ones((4, MANY), np.float32)  # (n,) each
    with suppress(Exception), learners_names():
        function(params, grads, m, v, *settings)
    return not (params == 1).all()


def so_many(got, expected) -> str:
    """ "50,003 weights", and how many of the first are right if all wrong ones are at the end.

    got: arrays (n,); expected: what they should be.
    """
    wrong = np.concatenate([np.flatnonzero(~np.isclose(*both, 1e-3, 1e-3)) for both in zip(got, expected)])
    n = len(got[0])
    last = f", of which the first {wrong.min():,} are right" if wrong.size and 2 * wrong.min() > n else ""
    return f"{n:,} weights{last}"


# -------------------------------------------------------------------------------------------------------- clipping


def clip(grads, max_norm):
    """(list of clipped copies, norm before): PyTorch's clip_grad_norm_, but unchanged up to max_norm itself."""
    norm = float(np.sqrt(sum(np.sum(np.square(g, dtype=np.float64)) for g in grads)))
    factor = max_norm / (norm + 1e-6) if norm > max_norm else 1.0
    return [(g * np.float64(factor)).astype(g.dtype) for g in grads], norm


def norm_mistakes(grads, max_norm) -> dict:
    """Known wrong norms (floats)."""
    wide = [g.astype(np.float64) for g in grads]
    each = [float(np.linalg.norm(g)) for g in wide]
    flat = np.concatenate([g.reshape(-1) for g in wide])  # (n,)
    right = float(np.linalg.norm(flat))
    clipped = clip(grads, max_norm)[0]
    wrong = {
        "the sum of all squares: the root is missing": right**2,
        "the sum of the arrays' norms: add up the squares, then take one root": sum(each),
        "the mean of the arrays' norms: add up the squares, then take one root": float(np.mean(each)),
        "the largest of the arrays' norms: all of them count": max(each),
        "the norm of the first array: all of them count": each[0],
        "the norm of the last array: all of them count": each[-1],
        "the root of the MEAN square: take the sum": right / flat.size**0.5,
        "the largest absolute entry: take the root of the sum of squares": float(np.abs(flat).max()),
        "the sum of the absolute entries: take the root of the sum of squares": float(np.abs(flat).sum()),
        "the norm AFTER clipping; return the norm before it": float(np.sqrt(sum(np.vdot(g, g) for g in clipped))),
        "the root of the sum of squares and 1e-6: that small number belongs in the denominator alone, added to it": (
            (right**2 + 1e-6) ** 0.5
        ),
        "the norm plus 1e-6: that small number belongs in the denominator alone": right + 1e-6,
        "max_norm": max_norm,
        "the factor; return the norm": min(1.0, max_norm / (right + 1e-6)),
        "the root of the sum of the arrays' norms: add up their squares": sum(each) ** 0.5,
        "the root of the sum of the absolute entries: square them": float(np.abs(flat).sum()) ** 0.5,
        "the root of the sum of the arrays' MEAN squares: add up all squares": sum(np.mean(g**2) for g in wide) ** 0.5,
        "the norm of the arrays' sums: square each entry before you add": float(
            np.linalg.norm([g.sum() for g in wide])
        ),
    }
    wrong |= _of_matrix_norms(wide)
    return _at(CLIP, wrong)


MATRIX_NORMS = {  # what np.linalg.norm(matrix, …) gives
    2: "spectral norms, the largest singular value of a matrix, which np.linalg.norm(g, 2) gives",
    "nuc": "nuclear norms, the sum of the singular values of a matrix",
    1: "largest column sums, which np.linalg.norm(g, 1) gives for a matrix",
    np.inf: "largest row sums, which np.linalg.norm(g, np.inf) gives for a matrix",
}


def _of_matrix_norms(grads) -> dict:
    """{words: function of nothing, the norm} made of other norms of the arrays, as matrices: it takes long."""
    found = {}
    for order, words in MATRIX_NORMS.items():
        for last in (False, True)[: 1 + any(g.ndim > 2 for g in grads)]:
            shapes = [(-1, g.shape[-1]) if last and g.ndim > 1 else (len(g), -1) for g in grads]
            shape = ", reshaped to (-1, its last axis)" * last
            for what, whole in {"the norm of": np.linalg.norm, "the sum of": sum}.items():
                words_of_it = f"{what} the arrays' {words}{shape}: take the root of the sum of all squares"
                found[words_of_it] = partial(_of_norms, whole, grads, shapes, order)
    return found


def _of_norms(whole, grads, shapes, order) -> float:
    return float(whole([np.linalg.norm(g.reshape(shape), order) for g, shape in zip(grads, shapes)]))


def clip_mistakes(grads, max_norm, k) -> dict:
    """Known wrong values of grads[k] after clipping."""
    g, (_, norm) = grads[k].astype(np.float64), clip(grads, max_norm)
    own, long = float(np.linalg.norm(g)), norm + 1e-6
    wrong = {
        "grads / norm: multiply by max_norm too": g / long,
        "the reference with norm / max_norm: it is the other way round": g * long / max_norm,
        "grads · max_norm: divide by the norm too": g * max_norm,
        "the reference with the factor applied twice": g * (max_norm / long) ** 2,
        "the reference with the squared norm: take the root": g * max_norm / (norm**2 + 1e-6),
    }
    if norm <= max_norm:  # whoever leaves such gradients alone, as one must, makes none of these mistakes here
        wrong = {"the reference scaled UP to max_norm: a norm below it is left alone": g * max_norm / long}
    if norm**2 <= max_norm < norm and compares_squares():
        above = f"though the norm, {norm:.3g}, is above max_norm, {max_norm:.3g}"
        wrong[f"what it was before the call, {above}; its square is not"] = g
    if own > max_norm:
        sentence = "the reference clipped by its own norm; the norm of all arrays together decides"
        wrong[sentence] = g * max_norm / (own + 1e-6)
    if np.abs(g).max() > max_norm:
        sentence = "its entries clipped one by one to ± max_norm: that turns the direction"
        wrong[sentence] = np.clip(g, -max_norm, max_norm)
    before = sum(float(np.square(other.astype(np.float64)).sum()) for other in grads[:k])
    scaled = norm**2 - before * (1 - (max_norm / long) ** 2)  # squared, once the arrays before this one are scaled
    if norm > max_norm and before > 0.01 * norm**2:  # else it hardly shows
        sentence = "the reference with the norm taken again after the arrays before it were scaled: take it once, first"
        wrong[sentence] = g * max_norm / (np.sqrt(scaled) + 1e-6)
    table = _at(CLIP, wrong)
    if norm > max_norm:
        table["the reference without 1e-6 in the denominator"] = (g * max_norm / norm, PYTORCH_CLIP)
    return table


def compares_squares() -> bool:
    """Does the learner's function clip a norm of 0.9 to 0.7, and not to 0.85, which is more than its square?

    True where nobody knows.
    """
    function, left = learners_function(), []
    if function is None or not is_explaining():
        return True
    for max_norm in (0.7, 0.85):
        grads = [np.array([0.9])]
        with suppress(Exception), learners_names():
            function(grads, max_norm)
        left.append(grads[0][0] == 0.9)
    return left == [False, True]


def only_the_last(grads, held, expected) -> bool:
    """Is the last array right, and does each of the others still hold what it held, though it had to change?"""
    *others, last = (np.allclose(g, want, rtol=1e-4) for g, want in zip(grads, expected))
    untouched = all(np.array_equal(g, old) for g, old in zip(grads[:-1], held))
    return len(grads) > 1 and last and untouched and not any(others)
