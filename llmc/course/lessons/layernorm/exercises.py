"""Lesson 01's exercises: what is right, what is tried, and which mistakes have a name."""

import numpy as np

from llmc.course.checks.exercise import Exercise
from llmc.course.lessons.layernorm.rows import backward, forward

FAR = 2000  # rows around it: a difference of two large float32 numbers loses its digits

# ------------------------------------------------------------------------------------------------------- inputs


def forward_rows(c):
    """x (B, T, C), w, b (C,), eps: odd shapes, a quiet row; another eps; float32 rows around FAR."""
    for B, T, C in [(4, 5, 7), (1, 2, 3), (2, 1, 33), (2, 1, 33)]:
        x, w, b = c.random(B, T, C), c.random(C), c.random(C)
        x[-1, -1] *= 0.002  # its variance is about as small as eps
        yield x, w, b
    c.new("eps is 0.5")
    yield x, w, b, 0.5
    c.new(f"float32 rows around {FAR}")
    x, w, b = (c.random(*shape, dtype=np.float32) for shape in [(4, 6, 64), (64,), (64,)])
    yield x + np.float32(FAR), w, b


def gradient_rows(c, from_out=False):
    """dout, x (B, T, C), w (C,), mean, rstd (B, T); in float64, then in float32. from_out: dout, out, w, b, rstd."""
    for B, T, C in [(4, 5, 7), (1, 2, 3), (3, 1, 5), (2, 4, 33), (2, 4, 33)]:
        x, w, b, dout = c.random(B, T, C), c.random(C), c.random(C), c.random(B, T, C)
        w += 0.5 * np.sign(w) * from_out  # keep away from 0
        out, mean, rstd = forward(x, w, b)
        inputs = (dout, out, w, b, rstd) if from_out else (dout, x, w, mean, rstd)
        yield inputs
    c.new("float32 inputs")
    yield tuple(array.astype(np.float32) for array in inputs)


def accumulating_rows(c):
    """dx (B, T, C), dw, db (C,), dout, x, w, mean, rstd: dw and db go on adding up."""
    for B, T, C in [(3, 5, 7), (1, 4, 3), (2, 1, 6)]:
        w, b, dw, db = c.random(C), c.random(C), c.buffer(C), c.buffer(C)
        for _ in range(2):
            x, dout, dx = c.random(B, T, C), c.random(B, T, C), c.buffer(B, T, C)
            yield dx, dw, db, dout, x, w, *forward(x, w, b)[1:]


def fast_rows(c):
    """out (B, T, C), mean, rstd (B, T), x, w, b, in float32: quiet rows, rows far from 0, at the size that is timed."""
    small, rows, timed = (3, 5, 7), (2, 3, 64), (8, 512, 768)
    runs = [(small, 0), ((5, 13, 33), 0), (small, 0, 0.3), (rows, 0), (rows, FAR), (timed, 0), (timed, 700)]
    for shape, offset, *eps in runs:
        x, w, b = (c.random(*each, dtype=np.float32) for each in (shape, shape[2:], shape[2:]))
        x *= np.float32(0.002 if shape[2] == 33 else 1)  # variance about as small as eps
        c.new(f"rows around {offset}" if offset else f"eps is {eps[0]}" if eps else "")
        out, mean, rstd = (c.buffer(*each, dtype=np.float32) for each in (shape, shape[:2], shape[:2]))
        yield out, mean, rstd, x + np.float32(offset), w, b, *eps


def keeps_digits(tried):
    """A sentence if rstd of float32 rows around FAR is that of mean(x²) - mean(x)², whose digits are lost."""
    x, rstd = tried.given["x"], tried.got["rstd"]
    if x.dtype != np.float32 or np.abs(x).max() < 500 or np.shape(rstd) != x.shape[:-1]:
        return None
    lost = (x * x).mean(axis=-1) - np.square(x.mean(axis=-1))  # (B, T)
    with np.errstate(all="ignore"):
        wrong = [1 / np.sqrt(each + np.float32(1e-5)) for each in (lost, np.maximum(lost, 0), np.abs(lost))]
    told = f"for rows around {FAR} a difference of two large numbers, without digits"
    found = any(np.allclose(rstd, each, rtol=1e-3, equal_nan=True) for each in wrong)
    return f"the variance is mean(x²) - mean(x)²: {told}" if found else None


# ---------------------------------------------------------------------------------------------------- exercises

Exercise(
    "layernorm_forward",
    "01",
    reference=forward,
    returns="out mean rstd",
    cases=forward_rows,
    rules=(keeps_digits,),
    rtol={"rstd": 1e-4},
    atol=lambda x, *_: {"out": 0.05} if x.dtype == np.float32 else None,
    look="2 · Forward",
    mistakes=r"""
        with eps added to the standard deviation, not to the variance
            | np.sqrt(variance + eps) => (np.sqrt(variance) + eps)
        with eps = 1e-5, not with the argument `eps` | variance + eps => variance + 1e-5
        with the variance divided by C - 1 instead of C | variance = … => variance = x.var(axis=-1, ddof=1)
        with the norm of x - mean, divided by C, in place of the variance | variance = …
            => variance = np.linalg.norm(centred, axis=-1) / x.shape[-1]
        as (norm + b) · w: b is added before w scales | out = … => out = (centred * rstd[..., None] + b) * w
        with the brackets around x - mean missing | centred * rstd[..., None] => x - mean[..., None] * rstd[..., None]
    """,
)

BACKWARD = r"""
    [3.3 · The mean] without the mean(dnorm) term | - through_mean =>
    [3.4 · The variance, then rstd] without the norm · mean(dnorm · norm) term | - through_rstd =>
    [3.2 · Three roads] without both means: only the direct road | - through_mean - through_rstd =>
    with sums in place of means | dnorm.mean( => dnorm.sum( ;; (dnorm * norm).mean( => (dnorm * norm).sum(
    with means of dout in place of dnorm = dout · w
        | dnorm.mean( => dout.mean( ;; (dnorm * norm).mean( => (dout * norm).mean(
    with means over the rows, axes 0 and 1 | through_mean = … => through_mean = dnorm.mean(axis=(0, 1))
        ;; (dnorm * norm).mean(axis=-1, => (dnorm * norm).mean(axis=(0, 1),
    with means over all axes, not only over C | through_mean = … => through_mean = dnorm.mean()
        ;; through_rstd = … => through_rstd = norm * (dnorm * norm).mean()
    with its sums divided by √C, not by C
        | through_mean = … => through_mean = dnorm.sum(-1, keepdims=True) / len(w) ** 0.5
        ;; through_rstd = … => through_rstd = norm * (dnorm * norm).sum(-1, keepdims=True) / len(w) ** 0.5
    with rstd multiplying dnorm alone: it multiplies all three terms
        | (dnorm - through_mean - through_rstd) * rstd[..., None]
        => dnorm * rstd[..., None] - through_mean - through_rstd
    with dout in place of dnorm: w is missing | dout * w => dout + 0 * w
    [3.1 · Through] without norm: dw sums dout · norm | (dout * norm).sum => dout.sum
    [3.1 · Through] with dnorm in place of dout: w does not belong there | (dout * norm).sum => (dout * w * norm).sum
"""
NORM = r"""
    with 1 / the standard deviation of x, without eps, in place of rstd | norm = … => rstd = 1 / x.std(axis=-1)
        \n    norm = (x - mean[..., None]) * rstd[..., None]
    [3.1 · Through] with x in place of norm, in dw alone | (dout * norm).sum => (dout * x).sum
    with x - mean in place of norm, inside mean(dnorm · norm) alone
        | (dnorm * norm).mean( => (dnorm * (x - mean[..., None])).mean(
"""
FROM_OUT = r"""
    with out in place of norm | norm = … => norm = out
    with norm = out / w: b is not subtracted | norm = … => norm = out / w
    with out normalised again in place of norm
        | norm = … => norm = (out - out.mean(-1, keepdims=True)) / np.sqrt(out.var(-1, keepdims=True) + 1e-5)
    with norm = (out - its mean) · rstd: out is not x
        | norm = … => norm = (out - out.mean(-1, keepdims=True)) * rstd[..., None]
"""
ADDED = r"""
    [Why accumulate?] without the mean(dnorm) term, and overwritten
        | dx += (dnorm - through_mean - through_rstd) => dx[...] = (dnorm - through_rstd)
    [Why accumulate?] but what dx held before was freed of its mean, too
        | dx += => dx -= dx.mean(axis=-1, keepdims=True)\n    dx +=
    [Why accumulate?] but what dx held before was put through the same formula
        | dnorm = dout * w => dnorm = dout * w + dx ;; dx += => dx[...] =
"""

Exercise(
    "layernorm_backward",
    "01",
    reference=lambda dout, x, w, mean, rstd: backward(dout, x, w),
    returns="dx dw db",
    cases=gradient_rows,
    look={"dx": "3.6 · The two means fall out", "": "3.1 · Through"},
    mistakes=NORM + BACKWARD,
)

Exercise(
    "layernorm_backward_accumulate",
    "01",
    reference=lambda dx, dw, db, dout, x, w, mean, rstd: backward(dout, x, w),
    adds="dx dw db",
    cases=accumulating_rows,
    look={"dx": "3.6 · The two means fall out", "": "3.1 · Through"},
    mistakes=NORM + BACKWARD + ADDED,
)

Exercise(
    "layernorm_backward_recompute",
    "01",
    reference=lambda dout, out, w, b, rstd: backward(dout, (out - b) / w / rstd[..., None], w),
    returns="dx dw db",
    cases=lambda c: gradient_rows(c, from_out=True),
    look="hints 1 and 2 of exercise 4",
    mistakes=BACKWARD + FROM_OUT,
)

Exercise(
    "fast_layernorm_forward",
    "01",
    reference=lambda out, mean, rstd, x, w, b, eps=1e-5: forward(x, w, b, eps),
    writes="out mean rstd",
    cases=fast_rows,
    rules=(keeps_digits,),
    atol=lambda out, mean, rstd, x, w, b, eps=0: 0.01 * np.abs(w).max() if np.abs(x).max() > 500 else None,
    look="A trap: the formula from the statistics book",
    slow="Each new array as large as `x` takes time: `out` can hold each of them in turn (hint 2).",
    mistakes=r"""
        with eps = 1e-5, not with the argument `eps` | / C + eps => / C + 1e-5
        with x² in place of (x - mean)² | np.einsum("nc,nc->n", y, y) => np.einsum("nc,nc->n", X[rows], X[rows])
    """,
)
