"""Lesson 18: fp8 with one scale per tensor: real tensors to quantise, and what is wrong with codes or a scale.

Any scale may be chosen, so the codes are judged by the scale that came with them: each must be the nearest of the 253
numbers of e4m3. Then the error is compared with that of the usual choice, amax / 448.
"""

from contextlib import suppress
from functools import lru_cache

import ml_dtypes
import numpy as np

from llmc.course.lessons.number_formats.formats import E4M3, decode, encode
from llmc.course.lessons.number_formats.steps import After, Letters, letter_model
from llmc.course.old.checks import evidence
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.contrast import outcome

# where to look; a test compares these titles with the headings of notebooks/18_number_formats.ipynb
SCALE = 'lesson 18, section "7 · Eight bits and one scale"'
LOOK = f"→ Where to look: {SCALE}"
NEAR = 0.004  # of a number: how far bf16, with its 8 digits, may move it
MANY = 400  # numbers of another call
LARGER = 16.0  # times: the numbers of one more
HINT = f"The goal is 3%, which the best of several scales between amax / 448 and twice that reaches.\n{LOOK}"


@lru_cache
def real_tensors() -> dict:
    """{name: float32 array} of a small GPT-2 on letters, in the middle of its 60th step."""
    from threadpoolctl import threadpool_limits  # here, because importing a check needs NumPy alone

    batches, gradients = Letters(), []
    model = letter_model(After("numpy", gradient=lambda array: gradients.append(array.copy())))
    with threadpool_limits(1, user_api="blas"):  # the arrays are small: more threads would only wait for each other
        for _ in range(60):
            gradients.clear()
            model.zero_grad()
            model.forward(*batches.next_batch(), dloss=1.0)
            model.backward()
            model.update(2e-3, weight_decay=0.1)
    V = model.config.V
    return {
        "weights of fc": model.params["fcw"][0].copy(),  # (4C, C)
        "gradient of the logits": gradients[0][..., :V].copy(),  # (B, T, V)
        "gradient of wte": model.grads["wte"][:V].copy(),  # (V, C)
        "gradient of qkv": gradients[-3].copy(),  # (B, T, 3C)
    }


def dequantised(codes, scale):
    """float64 numbers that codes (uint8) and a scale stand for."""
    return decode(codes, E4M3) * scale


def error(codes, scale, x) -> float:
    """Root of the mean squared error over the root of the mean square of x; 0 where x is 0 and stays 0."""
    x = x.astype(np.float64)
    missed = np.sqrt(np.mean((dequantised(codes, scale) - x) ** 2))
    return float(missed / np.sqrt(np.mean(x**2))) if missed else 0.0


def usual(x):
    """(codes, scale) with the largest number of x at the largest of e4m3."""
    scale = float(np.abs(x).max()) / E4M3.largest or 1.0
    return codes_of(x.astype(np.float64) / scale), scale


def codes_of(y):
    """uint8 codes of the nearest e4m3 numbers; beyond the largest, the largest."""
    return encode(np.clip(y, -E4M3.largest, E4M3.largest), E4M3).astype(np.uint8)


def compared(codes, scale, x) -> tuple[float, float, str]:
    """(error, that of the usual scale, both in words)."""
    mine, (usual_codes, usual_scale) = error(codes, scale, x), usual(x)
    theirs = error(usual_codes, usual_scale, x)
    times = f"your scale is {scale / usual_scale:.3g} · amax / 448"
    return mine, theirs, f"{mine:.3%}, and that of the scale amax / 448 is {theirs:.3%}; {times}"


def explain(result, x):
    """What is wrong with a result for x, as a sentence; None if nothing is. Raises WrongAnswer for a wrong kind."""
    if not (isinstance(result, tuple | list) and len(result) == 2):
        return "return two things, `return codes, scale`"
    codes, scale = result
    if np.ndim(scale) != 0:
        return f"the scale is one number for the whole tensor, but an array of shape {np.shape(scale)} was returned"
    if not isinstance(scale, float | int | np.floating | np.integer):
        return f"the scale should be a number, but is a {type(scale).__name__}"
    if getattr(codes, "dtype", None) == ml_dtypes.float8_e4m3fn:
        return "the codes are the numbers themselves, of dtype float8_e4m3fn: `.view(np.uint8)` gives their codes"
    compare("codes", codes, np.zeros(x.shape, np.uint8), rtol=0, atol=np.inf)  # type, shape and dtype alone
    if not (np.isfinite(scale) and scale > 0):
        of_zeros = "; all of x is 0" if not x.any() else ""
        return f"the scale is {float(scale):g}, and should be positive and finite{of_zeros}"
    return _wrong_codes(codes, float(scale), x)


def _wrong_codes(codes, scale, x):
    """The first code that is not the nearest, in a sentence with the likely reason."""
    y, got = x.astype(np.float64) / scale, decode(codes, E4M3)
    best = decode(codes_of(y), E4M3)
    wrong = ~(np.abs(got - y) <= np.abs(best - y) * (1 + 1e-6) + 1e-12)  # NaN, too
    if not wrong.any():
        return None
    at, more = tuple(np.argwhere(wrong)[0]), _of_many_numbers()
    reason = _reason(got, best, y, scale, more)
    if reason is None and _beside_a_tie(got, best, y)[wrong].all():
        numbers = f"{int(wrong.sum())} of {x.size} codes are wrong, each by less than {NEAR:.1%} from halfway"
        return f"{numbers}: x / scale = {_number(y[at])} stands for {got[at]:g}, and {best[at]:g} is nearer"
    if reason is None and (other := _scale_of(codes, x)) and (more is None or _scale_of(more[0], more[2])):
        return f"the codes are right for another scale, about {other:.6g}, and not for the one returned, {scale:.6g}"
    if reason is None and np.isnan(got).any():
        at = tuple(np.argwhere(np.isnan(got))[0])
        beyond = abs(y[at]) > E4M3.largest
        ends = f", and e4m3 ends at ±448{_why_beyond(scale, x)}" if beyond else ""
        return (
            f"codes{_index(at)} is 0x{codes[at]:02X}, which is NaN: {_number(x[at])} / scale is {_number(y[at])}{ends}"
        )
    numbers = f"codes{_index(at)} stands for {got[at]:g}, and the nearest number to x / scale = {_number(y[at])} is "
    reason = reason or "the codes are not those of the nearest numbers of e4m3"
    return f"{reason}.\n{numbers}{best[at]:g}; {int(wrong.sum())} of {x.size} are wrong"


def _why_beyond(scale, x) -> str:
    """What is known of a scale with which numbers are too large for e4m3, as a further sentence; else ""."""
    function = evidence.learners_function()
    said = _fixed(scale, x) or (of_another_largest(function, scale, x) if function else None)
    return f". {said.removesuffix('.')}" if said else ""


def _fixed(scale, x) -> str | None:
    """A sentence if the learner's scale is the same for larger numbers."""
    function = evidence.learners_function()
    with np.errstate(over="ignore"):
        result = outcome(function, x * x.dtype.type(LARGER)) if function else None
    if not (isinstance(result, tuple | list) and len(result) == 2 and np.array_equal(result[1], scale)):
        return None
    return f"For numbers {LARGER:.0f} times as large your scale is {scale:g}, too"


def of_another_largest(function, scale, x) -> str | None:
    """Is it amax over another whole number than 448, for x and for other numbers?"""
    y = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    found = returned_scale(outcome(function, y))
    largest = [float(np.abs(each).max()) / s for each, s in ((x, scale), (y, found)) if s]
    whole = round(largest[0])
    if len(largest) < 2 or whole == 448 or not np.allclose(largest, whole, rtol=1e-5):
        return None
    return f"Your scale is amax / {whole}, here and for other numbers; the largest number of e4m3 is 448."


def returned_scale(result) -> float | None:
    """The scale of what the learner's function returned, (codes, scale), if that is a positive number; else None."""
    pair = isinstance(result, tuple | list) and len(result) == 2
    scale = result[1] if pair else None
    right = isinstance(scale, float | int | np.floating) and np.isfinite(scale) and scale > 0
    return float(scale) if right else None


def _of_many_numbers():
    """(codes, scale, x) of the learner's function for numbers of all sizes: so many that nothing fits them by chance.

    None outside of a check, and if it gives no such pair.
    """
    function, rng = evidence.learners_function(), np.random.default_rng(0)
    x = (rng.standard_normal(MANY) * 10 ** rng.uniform(-4, 0, MANY)).astype(np.float32)
    result = outcome(function, x.copy()) if function else None
    with suppress(Exception):
        codes, scale = result
        if codes.shape == x.shape and codes.dtype == np.uint8 and 0 < float(scale) < np.inf:
            return codes, float(scale), x
    return None


def _beside_a_tie(got, best, y):
    """Where does y lie so near the middle between two codes that rounding it before could decide?"""
    middle = (np.abs(got) + np.abs(best)) / 2
    return np.abs(np.abs(y) - middle) <= NEAR * np.abs(y)


def _scale_of(codes, x) -> float | None:
    """A scale for which every code is the nearest; None if there is none."""
    numbers = decode(np.arange(127, dtype=np.uint8), E4M3)  # (127,)   from 0 to 448
    middle = (numbers[1:] + numbers[:-1]) / 2  # (126,)
    low, high = np.append(0, middle), np.append(middle, np.inf)  # (127,) each   what is rounded to each number
    size, index = np.abs(x.astype(np.float64)).ravel(), (codes & 0x7F).ravel()
    if (index == 127).any() or not size.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.nanmax(size / high[index])
        most = np.nanmin(np.where(low[index] > 0, size / low[index], np.inf))
    if not (np.isfinite(most) and least <= most):
        return None
    scale = float((least + most) / 2)
    return scale if np.array_equal(decode(codes_of(x.astype(np.float64) / scale), E4M3), decode(codes, E4M3)) else None


def _reason(got, best, y, scale, more):
    """A known mistake that explains every code, those of many other numbers, too; None if there is none.

    more: _of_many_numbers()
    """
    known = _known(y, scale)
    same = [text for text in known if not np.array_equal(known[text], best)]
    same = [text for text in same if np.array_equal(known[text], got, equal_nan=True)]
    if more:
        codes, other, x = more
        elsewhere, there = _known(x.astype(np.float64) / other, other), decode(codes, E4M3)
        same = [text for text in same if np.array_equal(elsewhere[text], there, equal_nan=True)]
    return next(iter(same), None)


def _known(y, scale) -> dict:
    """{known mistake: the numbers that its codes stand for} where y is x / scale."""
    nearest, sizes = decode(codes_of(y), E4M3), np.abs(y)
    size, code = np.abs(nearest), codes_of(sizes).astype(int)
    lower = np.where(size > sizes, decode(np.maximum(code - 1, 0), E4M3), size)
    upper = np.where(size < sizes, decode(np.minimum(code + 1, 126), E4M3), size)
    whole = np.rint(np.clip(y, -448, 448)).astype(np.int64) & 0xFF
    with np.errstate(invalid="ignore"):  # a negative number as uint8
        changed = codes_of(y).view(ml_dtypes.float8_e4m3fn).astype(np.uint8)
    twice = {
        f"the codes are those of x / scale rounded to {name} first": decode(codes_of(rounded), E4M3)
        for name, rounded in (
            ("float16", np.clip(y, -E4M3.largest, E4M3.largest).astype(np.float16).astype(np.float64)),
            ("bfloat16", y.astype(ml_dtypes.bfloat16).astype(np.float64)),
        )
    }
    return twice | {
        "the codes have lost the sign": size,
        "the codes are cut off, not rounded to the nearest": np.copysign(lower, y),
        "the codes are rounded up, away from 0, not to the nearest": np.copysign(upper, y),
        "the codes are those of the next larger number, not of the nearest": np.where(y < 0, -lower, upper),
        "the codes are those of the next smaller number, not of the nearest": np.where(y < 0, -upper, lower),
        "the codes have subnormal numbers set to 0": np.where(size < E4M3.smallest_normal, 0, nearest),
        "the codes are those of x · scale, and will be multiplied by the scale": (
            decode(codes_of(y * scale * scale), E4M3)
        ),
        "the codes are those of x itself: it was not divided by the scale": decode(codes_of(y * scale), E4M3),
        "the codes are the numbers changed to uint8, as astype does: view(np.uint8) reads their bits": decode(
            changed, E4M3
        ),
        "the codes are whole numbers, as int8 has them": decode(whole, E4M3),
    }


def _index(at) -> str:
    return str([int(i) for i in at])


def _number(x) -> str:
    return f"{float(x):.6g}"
