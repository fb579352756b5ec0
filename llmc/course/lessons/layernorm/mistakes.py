"""Lesson 01: what each well-known mistake of layernorm gives, in float64.

Mistakes are {output: {sentence after "out equals ": (array, where to look)}}.
"""

import numpy as np

from llmc.course.lessons.layernorm.rows import EPS, forward, normalised
from llmc.course.old.checks.causes import why_wide
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.evidence import is_explaining, last_call, learners_function
from llmc.course.old.checks.text import asks_for_float64

# where to look; a test compares these titles with the headings of notebooks/01_layernorm.ipynb
FORWARD = 'lesson 01, section "2 · Forward"'
EPSILON = FORWARD + ": eps is added to the variance, under the root"
ROADS = 'lesson 01, section "3.2 · Three roads"'
MEAN_ROAD = 'lesson 01, section "3.3 · The mean"'
RSTD_ROAD = 'lesson 01, section "3.4 · The variance, then rstd"'
FORMULA = 'lesson 01, section "3.6 · The two means fall out"'
ACCUMULATE = 'lesson 01, section "Why accumulate?"'
PARAMETERS = 'lesson 01, section "3.1 · Through"'
TRAP = 'lesson 01, section "A trap: the formula from the statistics book"'
TIMES_W = "the reference with norm = out - b: not divided by w"
DNORM_IN_DW = "the reference with dnorm in place of dout: w does not belong there"
OWN_EPS = "the reference with eps = 1e-5, not with the argument `eps`"
FAR = 'rows around {}, where a difference of two large numbers loses its digits: lesson 01, section "A trap"'
RECOMPUTE = "hints 1 and 2 of exercise 4"


def other_type(out) -> str:
    """What to say of an out of another type than x's, float32, and of the expression that made it."""
    why = why_wide(out) or asks_for_float64(learners_function())
    return f"out should be float32 like x, not {out.dtype}{f'. {why}' if why else ''}"


def lost_digits(x, rstd, error) -> str:
    """What to say of an error for float32 rows x (B, T, C) around 2000, where rstd (B, T) may come from lost digits."""
    off = f"off by {error:.2g} for float32 rows around 2000"
    variance = (x * x).mean(axis=-1) - np.square(x.mean(axis=-1))  # (B, T)
    with np.errstate(all="ignore"):
        tries = [1 / np.sqrt(each + 1e-5) for each in (variance, np.maximum(variance, 0), np.abs(variance))]
    if not any(np.allclose(rstd, each, rtol=1e-3, equal_nan=True) for each in tries):
        return f"{off}{_without_digits_to_lose(x, error)}"
    large = "both are about 4,000,000, and their difference has lost its digits"
    return f"{off}: the variance is mean(x²) - mean(x)²: {large}; see {TRAP}"


def _without_digits_to_lose(x, error) -> str:
    """What the learner's function makes of the same rows around 0, and of float64 rows, in words that follow "off"."""
    replay, function = last_call(), learners_function()
    if replay is None or function is None or not is_explaining():
        return f". See {TRAP}"
    _, *others = replay.arguments
    for rows, words in ((x - np.float32(2000), "for such rows around 0"), (x.astype(np.float64), "for float64 rows")):
        out = outcome(function, rows, *others)
        right = forward(rows, *others).out  # (B, T, C)
        out = out[0] if isinstance(out, tuple | list) else None
        if np.shape(out) == right.shape and not (mine := np.abs(out - right).max()) < 0.05:
            alone = " alone" if mine < error / 2 else ""
            new = f"What is new in this call: float32, and C = {x.shape[-1]}"
            return f", and {words}, too: so not for lack of digits{alone}. {new}"
    return f", and right around 0, and in float64: float32 has too few digits for what is computed here; see {TRAP}"


def forward_mistakes(x, w, b) -> dict:
    """Known wrong mean, rstd and out."""
    x, w, b = (np.asarray(array, np.float64) for array in (x, w, b))
    mean = x.mean(axis=-1, keepdims=True)  # (B, T, 1)
    variance = x.var(axis=-1, keepdims=True)  # (B, T, 1)
    C = x.shape[-1]
    wrong_rstd = {
        "the reference without eps": (1 / np.sqrt(variance), EPSILON),
        "the reference with eps added to the standard deviation": (1 / (np.sqrt(variance) + EPS), EPSILON),
        "the reference with the variance divided by C - 1 instead of C": (
            1 / np.sqrt(variance * C / (C - 1) + EPS),
            FORWARD + ": the variance is the plain mean of the squares",
        ),
        "the reference with x² in place of (x - mean)²": (1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPS), FORWARD),
        "the reference with the larger of the variance and eps, not their sum": (
            1 / np.sqrt(np.maximum(variance, EPS)),
            EPSILON,
        ),
        "the reference with the mean distance from the mean in place of its root mean square": (
            1 / (np.abs(x - mean).mean(-1, keepdims=True) + EPS),
            FORWARD,
        ),
        "the reference with the norm of x - mean, divided by C, in place of the variance": (
            1 / np.sqrt(np.sqrt(C * variance) / C + EPS),
            FORWARD,
        ),
        "1 / variance: the root is missing": (1 / (variance + EPS), FORWARD),
        "the reference with the sum of the squares in place of their mean": (
            1 / np.sqrt(C * variance + EPS),
            FORWARD,
        ),
    }
    rstd = 1 / np.sqrt(variance + EPS)  # (B, T, 1)
    norm = (x - mean) * rstd  # (B, T, C)
    wrong_out = {
        f"{text}, in what makes out": ((x - mean) * r * w + b, where) for text, (r, where) in wrong_rstd.items()
    }
    wrong_out |= {
        "norm alone: w and b are missing": (norm, FORWARD),
        "norm · w: b is missing": (norm * w, FORWARD),
        "norm + b: w is missing": (norm + b, FORWARD),
        "(norm + b) · w: b is added after w has scaled": ((norm + b) * w, FORWARD),
        "norm · b + w: w and b are swapped": (norm * b + w, FORWARD),
        "the reference without subtracting the mean": (x * rstd * w + b, FORWARD),
        "the reference divided by rstd: rstd is already 1/std": ((x - mean) / rstd * w + b, FORWARD),
        "norm · w - b: b is subtracted": (norm * w - b, FORWARD),
        "(x - mean · rstd) · w + b: the brackets around x - mean are missing": ((x - mean * rstd) * w + b, FORWARD),
        "x - mean · rstd · w + b: the brackets around x - mean are missing": (x - mean * rstd * w + b, FORWARD),
        "(x - mean) · w + b: rstd is missing": ((x - mean) * w + b, FORWARD),
    }
    only_rstd = {
        "the standard deviation, not 1 divided by it": (np.sqrt(variance + EPS), FORWARD),
        "the variance, not 1 / √(variance + eps)": (variance, FORWARD),
    }
    squeezed = {text: (array[..., 0], where) for text, (array, where) in (wrong_rstd | only_rstd).items()}
    wrong_mean = {
        "rstd: the order is out, mean, rstd": (rstd[..., 0], FORWARD),
        "the variance: the second result is the mean": (variance[..., 0], FORWARD),
    }
    if x.ndim == 3:
        for axis, letter in enumerate("BT"):
            if x.shape[axis] > 1:
                other = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + EPS)  # (B, T, C)
                text = f"the reference normalised along {letter}, axis {axis}: each row of C is normalised on its own"
                wrong_out[text] = (other * w + b, FORWARD)
        of_sequences = x.mean(axis=(1, 2))[:, None] + 0 * mean[..., 0]  # (B, T)
        wrong_mean["the mean over a whole sequence, axes T and C: every row of C has its own"] = (of_sequences, FORWARD)
    return {"mean": wrong_mean, "rstd": squeezed, "out": wrong_out}


def backward_mistakes(dout, x, w, b=None, dx=None) -> dict:
    """Known wrong dx, dw and db; with b, also those of the variant from out, w and b, in whose dx norm shows."""
    dout, x, w = (np.asarray(array, np.float64) for array in (dout, x, w))
    norm, rstd = normalised(x)  # (B, T, C), (B, T, 1)
    rows = tuple(range(x.ndim - 1))
    dw, db = (dout * norm).sum(axis=rows), dout.sum(axis=rows)  # (C,)
    wrong_dx, wrong_dw = {}, {}
    for text, stand_in in [] if b is None else _stand_ins(norm, rstd, w, b):
        wrong_dx[text] = (_dx(dout * w, stand_in, rstd), RECOMPUTE)
        wrong_dx |= _half(text, dout * w, norm, stand_in, rstd, RECOMPUTE)
        wrong_dw[text] = ((dout * stand_in).sum(axis=rows), RECOMPUTE)
    if b is not None:
        text = "the reference with dnorm = dout / w: norm is out - b divided by w, dnorm is dout times w"
        wrong_dx[text] = (_dx(dout / w, norm, rstd), FORMULA)
    wrong_dx |= _wrong_dx(dout, x, w, norm, rstd)
    wrong_dw |= {
        "the reference with x in place of norm": ((dout * x).sum(axis=rows), PARAMETERS),
        "the reference with x - mean in place of norm: rstd is missing": (
            (dout * norm / rstd).sum(axis=rows),
            PARAMETERS,
        ),
        "the reference with norm = (x - mean) / rstd: rstd is already 1/std": (
            (dout * norm / rstd**2).sum(axis=rows),
            PARAMETERS,
        ),
        "db: norm is missing": (db, PARAMETERS),
        DNORM_IN_DW: (dw * w, PARAMETERS),
    }
    if b is not None:  # dw alone does not tell these two apart
        wrong_dw[TIMES_W] = wrong_dw.pop(TIMES_W)  # the less likely one, where dx is right
        array = wrong_dx[TIMES_W][0]
        if np.shape(dx) == array.shape and np.allclose(dx, array, rtol=1e-6):
            del wrong_dw[DNORM_IN_DW]
    wrong_db = {
        "what belongs in dw": (dw, PARAMETERS),
        DNORM_IN_DW: (db * w, PARAMETERS),
    }
    return {"dx": wrong_dx, "dw": wrong_dw, "db": wrong_db}


def _dx(dnorm, norm, rstd):
    """The formula of the lesson, with whatever stands in for its parts."""
    return (dnorm - dnorm.mean(-1, keepdims=True) - norm * (dnorm * norm).mean(-1, keepdims=True)) * rstd


def _wrong_dx(dout, x, w, norm, rstd):
    """dx with one part of the formula missing or mistaken."""
    dnorm, C = dout * w, x.shape[-1]  # (B, T, C)
    mean, both = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)  # (B, T, 1)
    return {
        "the reference without the mean(dnorm) term": ((dnorm - norm * both) * rstd, MEAN_ROAD),
        "the reference without the norm · mean(dnorm · norm) term": ((dnorm - mean) * rstd, RSTD_ROAD),
        "dnorm · rstd: both mean terms are missing": (dnorm * rstd, ROADS),
        "the reference without rstd": (_dx(dnorm, norm, 1.0), FORMULA),
        "the reference times rstd once more: it multiplies the bracket once": (_dx(dnorm, norm, rstd**2), FORMULA),
        "the reference with means of dout in place of dnorm = dout · w": (
            (dnorm - dout.mean(-1, keepdims=True) - norm * (dout * norm).mean(-1, keepdims=True)) * rstd,
            FORMULA,
        ),
        "the reference with w taken out of the two means: it differs from channel to channel": (
            w * _dx(dout, norm, rstd),
            FORMULA,
        ),
        "the reference with half of the norm · mean(dnorm · norm) term": (
            (dnorm - mean - norm * both / 2) * rstd,
            RSTD_ROAD,
        ),
        "the reference divided by rstd in place of multiplied": (_dx(dnorm, norm, 1 / rstd), FORMULA),
        "the reference with dout in place of dnorm: w is missing": (_dx(dout, norm, rstd), FORMULA),
        "the reference with mean(dnorm · norm) not multiplied by norm": ((dnorm - mean - both) * rstd, FORMULA),
        "the reference with plus in front of the mean terms": ((dnorm + mean + norm * both) * rstd, FORMULA),
        "the reference with plus in front of norm · mean(dnorm · norm): both means are subtracted": (
            (dnorm - mean + norm * both) * rstd,
            FORMULA,
        ),
        "the reference with plus in front of mean(dnorm): both means are subtracted": (
            (dnorm + mean - norm * both) * rstd,
            FORMULA,
        ),
        "the reference with rstd multiplying dnorm alone: it multiplies all three terms": (
            dnorm * rstd - mean - norm * both,
            FORMULA,
        ),
        "the reference with rstd multiplying the last term alone: it multiplies all three": (
            dnorm - mean - norm * both * rstd,
            FORMULA,
        ),
        "the reference with norm = (x - mean) / rstd: rstd is already 1/std": (
            _dx(dnorm, norm / rstd**2, rstd),
            FORMULA,
        ),
        **_divided_by_another_axis(dnorm, norm, rstd),
        **_projected(dnorm, norm, rstd),
        "the reference with x in place of norm": (_dx(dnorm, x, rstd), FORMULA),
        **_half("the reference with x in place of norm", dnorm, norm, x, rstd, FORMULA),
        "the reference with x - mean in place of norm": (_dx(dnorm, norm / rstd, rstd), FORMULA),
        **_half("the reference with x - mean in place of norm", dnorm, norm, norm / rstd, rstd, FORMULA),
        "the reference with a sum over C in place of mean(dnorm · norm): the variance is a mean, so its slope "
        "has 1/C": ((dnorm - mean - C * norm * both) * rstd, RSTD_ROAD),
        "the reference with a sum over C in place of mean(dnorm): the slope of a mean has 1/C": (
            (dnorm - C * mean - norm * both) * rstd,
            MEAN_ROAD,
        ),
        "the reference with sums over C in place of means": ((dnorm - C * mean - C * norm * both) * rstd, FORMULA),
        "the reference with means over the rows, axes B and T, in place of means over C": (
            (dnorm - dnorm.mean((0, 1)) - norm * (dnorm * norm).mean((0, 1))) * rstd,
            FORMULA,
        ),
        "the reference with means over the whole array": (
            (dnorm - dnorm.mean() - norm * (dnorm * norm).mean()) * rstd,
            FORMULA + "; every row has its own means",
        ),
    }


def _half(text, dnorm, norm, stand_in, rstd, where):
    """dx with something in place of one norm of norm · mean(dnorm · norm), in words that follow `text`."""
    mean = dnorm.mean(-1, keepdims=True)  # (B, T, 1)
    inside, outside = (
        (dnorm - mean - one * (dnorm * other).mean(-1, keepdims=True)) * rstd
        for one, other in ((norm, stand_in), (stand_in, norm))
    )
    if np.allclose(inside, outside):  # the stand-in is norm times one number in each row
        return {f"{text}, in one of the two places of norm alone": (inside, where)}
    return {
        f"{text}, inside mean(dnorm · norm) alone": (inside, where),
        f"{text}, in front of mean(dnorm · norm) alone": (outside, where),
    }


def _projected(dnorm, norm, rstd):
    """dx with the components along 1 and along norm removed otherwise than by a mean."""
    C = dnorm.shape[-1]
    mean, both = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)  # (B, T, 1)
    root = np.sqrt(C)  # and, nearly, the length of norm
    along = "what v has along u (1 or norm) is u · mean(v · u)"
    centred = dnorm - root * mean  # (B, T, C)
    return {
        f"the reference with both components divided by √C, not by C: {along}": (
            (centred - norm * (centred * norm).sum(-1, keepdims=True) / root) * rstd,
            FORMULA,
        ),
        f"the reference with the component along norm divided by √C, not by C: {along}": (
            (dnorm - mean - norm * root * both) * rstd,
            FORMULA,
        ),
        f"the reference with the component along 1 divided by √C, not by C: {along}": (
            (dnorm - root * mean - norm * both) * rstd,
            FORMULA,
        ),
    }


def nearly_right(dout, x, w, again=False) -> dict:
    """Wrong dx and dw that differ from the right ones only because of eps: the variance of norm is not quite 1.

    again: norm is given, in effect, and may be normalised once more; else x is.
    """
    dout, x, w = (np.asarray(array, np.float64) for array in (dout, x, w))
    norm, rstd = normalised(x)  # (B, T, C), (B, T, 1)
    dnorm, rows = dout * w, tuple(range(x.ndim - 1))
    wrong = {"dx": {}, "dw": {}}
    square = np.square(norm).mean(-1, keepdims=True)  # (B, T, 1)   nearly 1
    if again:
        text = "the reference with norm normalised once more{}, which changes it a little, because of eps"
        spreads = {text.format(""): np.sqrt(square), text.format(", with eps"): np.sqrt(square + EPS)}
    else:
        text = "the reference with 1 / the standard deviation of x, without eps or with a smaller one, in place of rstd"
        spreads = {text: np.sqrt(square)}
    for text, spread in spreads.items():
        wrong["dx"][text] = (_dx(dnorm, norm / spread, rstd if again else rstd / spread), FORMULA)
        wrong["dw"][text] = ((dout * norm / spread).sum(axis=rows), PARAMETERS)
    mean, both = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)  # (B, T, 1)
    text = "the reference with sum(dnorm · norm) divided by sum(norm²), which is not quite C, because of eps"
    wrong["dx"][text] = ((dnorm - mean - norm * both / square) * rstd, FORMULA)
    return wrong


def scratch_mistakes(dx0, dout, x, w) -> dict:
    """Known wrong dx, without what it held before, of answers that compute in the buffer dx itself."""
    dx0, dout, x, w = (np.asarray(array, np.float64) for array in (dx0, dout, x, w))
    norm, rstd = normalised(x)  # (B, T, C), (B, T, 1)
    right, text = _dx(dout * w, norm, rstd), "the reference, but what dx held before was"
    changes = {
        "put through the same formula": _dx(dx0, norm, rstd),
        "multiplied by rstd": dx0 * rstd,
        "freed of its mean, too": dx0 - dx0.mean(-1, keepdims=True),
        "freed of its component along norm, too": dx0 - norm * (dx0 * norm).mean(-1, keepdims=True),
        "multiplied by w, and put through the same formula": _dx(dx0 * w, norm, rstd),
    }
    return {f"{text} {how}": (right + changed - dx0, ACCUMULATE) for how, changed in changes.items()}


def _divided_by_another_axis(dnorm, norm, rstd):
    """dx with the sums over C divided by the length of another axis."""
    C, wrong = norm.shape[-1], {}
    for axis, letter in enumerate("BT"[: norm.ndim - 1]):
        share = C / norm.shape[axis]
        mean, both = dnorm.mean(-1, keepdims=True), (dnorm * norm).mean(-1, keepdims=True)  # (B, T, 1)
        sentence = f"the reference with sums divided by {letter} = x.shape[{axis}]: C is x.shape[-1]"
        wrong[sentence] = ((dnorm - share * mean - share * norm * both) * rstd, FORMULA)
    return wrong


def _stand_ins(norm, rstd, w, b):
    """What a learner may take for norm = (out - b) / w."""
    out = norm * w + b  # (B, T, C)
    centred = out - out.mean(axis=-1, keepdims=True)  # (B, T, C)
    return [
        ("the reference with out in place of norm", out),
        ("the reference with norm = out / w: b is not subtracted", out / w),
        ("the reference with norm = out - b: not divided by w", out - b),
        ("the reference with norm = (out - b) · w: multiplied, not divided, by w", (out - b) * w),
        ("the reference with norm = (out + b) / w: b is added", (out + b) / w),
        ("the reference with norm = (out - w) / b: w and b are swapped", (out - w) / b),
        ("the reference with norm · rstd in place of norm: rstd is already in there", norm * rstd),
        ("the reference with norm = out / w - b: b is subtracted after the division", out / w - b),
        ("the reference with out normalised again in place of norm", normalised(out)[0]),
        ("the reference with norm = (out - its mean) · rstd: out is not x", centred * rstd),
        ("the reference with norm = out - its mean", centred),
        ("the reference with norm = out · rstd: rstd is in out already, and so are w and b", out * rstd),
    ]
