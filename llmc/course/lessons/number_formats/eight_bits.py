"""Lesson 18's fifth exercise: fp8 with one scale per tensor.

Any scale may be chosen, so the codes are judged by the scale that came with them: each must be the nearest of the 253
numbers of e4m3. Then the error is compared with that of the usual scale, amax / 448.
"""

from functools import lru_cache

import ml_dtypes
import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.lessons.number_formats.formats import E4M3, decode, encode
from llmc.course.lessons.number_formats.steps import After, Letters, letter_model
from llmc.course.mutation.program import solution_of


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


def tensors(c):
    """name, x: random ones, tiny and huge ones, awkward ones, and at last four real ones."""
    sizes = [*[((n,), 1) for n in (1000, 1001, *range(8, 40, 2), *range(1002, 1012))], ((3, 5), 1), ((3, 5), 1)]
    for shape, size in [*sizes, ((7,), 1e-30), ((2, 3, 4), 1e30)]:
        yield "random numbers", size * c.random(*shape, dtype=np.float32)
    awkward = [-700, 3, 0.02, -0.5, 600, 0], [[3e-3]], [[0, 0, 0]] * 2, [1e-40, -3e-41, 7e-43]
    for numbers in (*awkward, [np.finfo(np.float32).max, -1e38, 3e35, 0]):
        yield f"the numbers {numbers}", np.array(numbers, np.float32)
    yield from real_tensors().items()


def codes_of(y):
    """uint8 codes of the nearest e4m3 numbers; beyond the largest, the largest."""
    return encode(np.clip(y, -E4M3.largest, E4M3.largest), E4M3).astype(np.uint8)


def error(x, codes, scale) -> float:
    """Root of the mean squared error over the root of the mean square of x."""
    missed = np.mean((decode(codes, E4M3) * scale - x.astype(np.float64)) ** 2)
    return float(np.sqrt(missed / (np.mean(x.astype(np.float64) ** 2) or 1.0)))


def gain(x, codes, scale) -> float:
    """Which share of the usual scale's error is saved? Its largest number lies at 448. Errors up to 1e-7 are none."""
    usual = float(np.abs(x).max()) / E4M3.largest or 1.0
    most = error(x, codes_of(x.astype(np.float64) / usual), usual)
    return (most + 1e-7 - error(x, codes, scale)) / max(most, 1e-9)


def judge_quantised(c, function, name, x) -> float:
    """Call it, judge codes and scale. Returns which share of the usual scale's error it saves."""
    result, look = c.call(function, x), c.exercise.look_for()
    told = _wrong_kind(result)
    if told:
        raise WrongAnswer(f"{name}: {told}", look=look)
    (codes, scale), c.comparing = result, "codes"
    compare("codes", codes, np.zeros(x.shape, np.uint8), rtol=0, atol=np.inf, look=look)  # type, shape and dtype alone
    y, times = x.astype(np.float64) / scale, scale / (float(np.abs(x).max()) / E4M3.largest or 1.0)
    got, best = decode(codes, E4M3), decode(codes_of(y), E4M3)
    if np.isnan(got).any() and (np.abs(y[np.isnan(got)]) > E4M3.largest).all():
        told = f"{name}: x / scale goes up to {np.abs(y).max():.4g}, e4m3 ends at 448, and codes beyond it are NaN"
        raise WrongAnswer(f"{told}. Your scale is {times:.3g} · amax / 448", look=look)
    right = np.abs(got - y) <= np.abs(best - y) * (1 + 1e-6) + 1e-12  # NaN never is
    known = {words: np.where(decode(each, E4M3) == got, codes, each) for words, each in _known(y, scale, times).items()}
    compare("codes", codes, np.where(right, codes, codes_of(y)), look=look, known=known)
    c.comparing, saved = "scale", gain(x, codes, scale)
    if saved < -0.001:
        told = f"for {name}, the error is {1 - saved:.4g} times that of amax / 448; your scale is {times:.3g} times it"
        try:
            compare("scale", float(scale), solution_of(c.exercise.name).function()(x)[1], look=look)
        except WrongAnswer as wrong:
            if wrong.diagnosis.kind is Kind.PLACE:
                raise WrongAnswer(f"the codes are right, but the scale is not good: {told}", look=look) from None
            wrong.diagnosis.more, wrong.diagnosis.table = [f"F{told[1:]}."], []  # ours is not the only right one
            raise
    c.comparing = ""
    return saved


def _wrong_kind(result):
    if not isinstance(result, tuple | list) or len(result) != 2:
        return "return two things, `return codes, scale`"
    codes, scale = result
    if not isinstance(scale, float | int | np.floating | np.integer) or not 0 < scale < np.inf:
        return f"the scale should be one number for the whole tensor, positive and finite, but is {describe(scale)}"
    floats = getattr(codes, "dtype", None) == ml_dtypes.float8_e4m3fn
    return (
        "the codes are float8_e4m3fn, the numbers themselves: `.view(np.uint8)` gives their codes" if floats else None
    )


def _known(y, scale, times) -> dict:
    """{what wrong codes equal: these codes} where y is x / scale."""
    codes, sizes, halves = codes_of(y), np.abs(y), np.clip(y, -448, 448).astype(np.float16)
    near, sign, value = codes & 0x7F, codes & 0x80, decode(codes & 0x7F, E4M3)
    with np.errstate(all="ignore"):  # a negative number as uint8
        changed = codes.view(ml_dtypes.float8_e4m3fn).astype(np.uint8)
    return {
        "the reference without the sign": near,
        "those of x / scale cut off, not rounded to the nearest": sign | near - (value > sizes),
        "those of x / scale rounded up, away from 0": sign | np.minimum(near + (value < sizes), 126),
        "the reference with subnormal numbers set to 0": np.where(near & 0x78, codes, sign),
        "those of x · scale, and will be multiplied by the scale": codes_of(y * scale * scale),
        "those of x itself: it was not divided by the scale": codes_of(y * scale),
        "the numbers changed to uint8, as astype does: view(np.uint8) reads their bits": changed,
        "whole numbers, as int8 has them": np.rint(np.clip(y, -448, 448)).astype(np.int64).astype(np.uint8),
        "those of x / scale rounded to float16 first": codes_of(halves),
        "those of x / scale rounded to bfloat16 first": codes_of(y.astype(ml_dtypes.bfloat16).astype(np.float64)),
        "those of x divided by amax / 448, which is not the scale that was returned": codes_of(y * times),
    }


def judge_gains(c, gains):
    """Raise WrongAnswer unless the error on the real tensors is 3% smaller, on average, than with the usual scale."""
    c.calls.clear()  # this is about all of them
    real = {name: np.round(gains[name], 4) + 0.0 for name in real_tensors()}  # without a −0
    mean, each = np.mean(list(real.values())), ", ".join(f"{name} {gain:.1%}" for name, gain in real.items())
    found = f"smaller than that of amax / 448 by {mean:.1%} on average: {each}"
    if mean < 0.03:
        goal = "The goal is 3%, which the best of several scales between amax / 448 and twice that reaches"
        raise WrongAnswer(f"right, but the error is {found}. {goal}", look=c.exercise.look_for())
    c.say(f"Its error is {found}.")


SCALES = r"""
    = 1 for every tensor | scale = min( => scale = 1.0 #
    = amax / 448 with the largest of x as amax, not that of np.abs(x) | scale = min( => scale = np.abs(y.max()) / 448 #
"""
LOOK = "7 · Eight bits and one scale"

Exercise("quantize_e4m3", "18", returns="codes scale", cases=tensors, look=LOOK, mistakes=SCALES)
