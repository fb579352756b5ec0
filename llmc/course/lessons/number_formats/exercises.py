"""Lesson 18's exercises: what is right, what is tried, and which mistakes have a name."""

from types import FunctionType

import numpy as np

from llmc.course.checks.comparison import compare
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.checks.search import PythonSearch
from llmc.course.lessons.number_formats.formats import BF16, E4M3, FP32, Format, decode, encode, fields
from llmc.course.lessons.number_formats.steps import real_tensors
from llmc.course.lessons.number_formats.sums import exact, plain  # noqa: F401, for the notebook

# ------------------------------------------------------------------------------------------------ rounding by bits


def to_round(c):
    """float32 x, one kind of number in each call: ordinary ones, ties, tiny and large ones, NaNs, and then any bits."""
    draw, any_bits = c.rng.permutation, lambda *shape: c.rng.integers(0, 1 << 32, shape)
    some = (0x3580 + any_bits(5, 9) % 0x1400 << 16) + (any_bits(5, 9) & 0x8000FFFF)  # 2^-20 … 2^20, of both signs
    some[0] &= 0xFFFF0000  # what bf16 holds exactly
    some[1, 2:4] = 0x407FC123, 0xBFFF9876  # round up into the next exponent
    ties = draw(np.r_[0x3F80:0x3F88, 0xC0F8:0xC100]).reshape(4, 4) * 65536 + 0x8000  # odd and even ones
    zeros = 0, 0x80000000, 1, 0x80000001, 0x8000, 0x8001, 0x1FFFF, 0x8005FFFF
    tiny = draw(np.r_[zeros, draw(np.r_[1:8, 0x8001:0x8008]) * 65536 + np.r_[0x7FF9:0x8007]])
    large = 0x7F7F7FFF, 0xFF7F7FFF, 0x7F7F8000, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F7EFFFF, 0x7F7F0000
    nan = 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF808000, 0x7FBF8000
    for bits in (some, ties, tiny, draw(large), draw(nan), any_bits(37, 11), any_bits(37, 11), any_bits(2, 3, 5)):
        yield bits.astype(np.uint32).view(np.float32)


def shorter(c):
    """x, mantissa: 7, and two smaller ones, with which the same bits of x are cut off further to the left."""
    for bits in (x.view(np.uint32) for x in to_round(c)):
        for less in (0, *c.rng.permutation(range(1, 7))[:2].tolist()):
            yield (bits & 0xFF800000 | bits << less & 0x7FFFFF).view(np.float32), 7 - less


def pairs(c):
    """The same several times, and uint8 random, which often makes a sum of 255, 256 or 257; finally 1.001."""
    for kind in to_round(c):
        x = np.concatenate([kind] * 6)
        edge = 256 - (x.view(np.uint32) >> 8 & 0xFF) + c.rng.integers(-1, 2, x.shape)
        yield x, np.where(c.rng.random(x.shape) < 0.5, edge, c.rng.integers(0, 256, x.shape)).astype(np.uint8)
    yield np.full((9, 300), 1.001, np.float32), c.rng.integers(0, 256, (9, 300)).astype(np.uint8)


def nearest(x, mantissa):
    """By arithmetic, where the exercise uses bits."""
    return encode(x, Format("", 8, mantissa)).astype(np.uint16) << 7 - mantissa


def by_chance(x, random):
    return np.where(np.isnan(x), 0x7FC0, x.view(np.uint32) + random.astype(np.int64) * 256 >> 16).astype(np.uint16)


def judge_bits(c, function, x, other):
    """Call it, and compare all patterns (uint16); a NaN may have any pattern of a NaN. Returns the patterns."""
    got, right = c.call(function, x, other), c.exercise.reference(x, other)
    wrong, look = np.zeros(x.shape, bool), c.exercise.look
    if isinstance(got, np.ndarray) and (got.shape, got.dtype) == (x.shape, np.uint16):
        right = np.where(((got & 0x7FFF) > 0x7F80) & ((right & 0x7FFF) > 0x7F80), got, right)
        wrong = got != right
        if wrong.any() and not np.array_equal(c.calls[-1].run(function)["result"], got):
            raise WrongAnswer("called again with the same numbers, your function gives other patterns")
        look = "2.4 · The edges" if np.isin(right[wrong] & 0x7F80, (0, 0x7F80)).all() else look
    try:
        compare("the result", got, right, look=c.exercise.place(look))
    except WrongAnswer as error:
        if wrong.any():
            found = error.diagnosis
            found.table, found.picture = in_bits(got, right, wrong, x, other), None
            found.more *= found.kind is not Kind.PLACE  # which speaks of sizes
        raise
    return got


def in_bits(got, right, wrong, x, other):
    """Lines: the first wrong patterns, each below its input; a bar in a float32 shows where it is cut."""
    lines = [f"{wrong.sum()} of {wrong.size} patterns are wrong. The first of them (sign, exponent, mantissa):"]
    for at in [tuple(map(int, index)) for index in np.argwhere(wrong)[:3]]:
        bits, drawn = fields(x[at].view(np.uint32), FP32), isinstance(other, np.ndarray)
        end, more = (18, f"random 0x{other[at]:02X}") if drawn else (11 + other, f"mantissa {other}")
        lines.append(f"    x{list(at)}".ljust(14) + f"{bits[:end]}|{bits[end:]}  {x[at]:.9g}   {more}")
        for word, code in (("expected", right[at]), ("got", got[at])):
            lines.append(f"    {word:<10}{fields(code, BF16):<37}{float(decode(code, BF16)):.9g}")
    return lines


def by_hand(function):
    """Raise WrongAnswer if the function, or one of its notebook that it calls, names a library's bfloat16."""
    function = getattr(function, "py_func", function)  # what Numba compiled
    globals_of_it = getattr(function, "__globals__", {})
    called = [function, *map(globals_of_it.get, function.__code__.co_names)] if globals_of_it else []
    codes = [each.__code__ for each in called if isinstance(each, FunctionType)]
    names = {name for code in codes for name in (*code.co_names, *code.co_consts)}
    if "bfloat16" in names - {code.co_name for code in codes}:
        raise WrongAnswer("the bits are right, but a library's bfloat16 made them: compute them from the bits of x")


EDGES = r"""
    with a NaN as the addition leaves it: its ones are cut off, or a carry runs on | return … => return rounded
    with the upper half of a NaN, which may be infinity | np.uint16(0x7FC0) => (BITS >> 16).astype(np.uint16)
    with infinity in place of NaN, which has ones in its mantissa, as 0x7FC0 has | 0x7FC0 => 0x7F80
    with NaN in place of infinity | np.isnan(x) => ~np.isfinite(x)
    without the sign | rounded) => rounded & 0x7FFF)
    with the carry lost where a mantissa of ones rounds up: it becomes 0, and the exponent must grow by 1
        | rounded) => (BITS >> 16 & 0xFF80 | rounded & 0x7F).astype(np.uint16))
    with subnormal numbers set to 0 | rounded) => np.where(rounded & 0x7F80, rounded, rounded & 0x8000))
"""
TO_THE_NEAREST = r"""
    = x cut off, not rounded | + half + last =>
    with 7 bits of mantissa, whatever `mantissa` says | 23 - mantissa => 16
    rounded twice, to 7 bits of mantissa first: what lies just above a tie becomes one
        | x.view(np.uint32), => (BITS + 0x7FFF + (BITS >> 16 & 1)) & 0xFFFF0000,
    with 0x7FFF added, whatever is cut off: half a step, less 1, depends on `mantissa` | half = … => half = 0x7FFF
    with the last of 7 bits deciding ties, not the last that is kept | bits >> cut & 1 => bits >> 16 & 1
    with what is cut off still in the last of the 7 bits | >> cut << cut >> 16 => >> 16
    with the numbers converted to uint32: view reads the bits as they are | x.view(np.uint32) => x.astype(np.uint32)
    with ties rounded away from 0: a tie goes to the neighbour whose last bit is 0 | half + last => half + 1
    with ties to the ODD neighbour: the last bit that is kept must become 0 | half + last => half + 1 - last
"""
BY_CHANCE = r"""
    = x rounded to the nearest: random makes no difference | + noise => + 0x7FFF + (BITS >> 16 & 1)
    = x cut off: random makes no difference, as where random << 8 stays uint8 and loses all its bits | + noise =>
    with negative numbers moved towards 0, not away from it
        | rounded) => np.where(x < 0, 2 * (BITS >> 16) - rounded, rounded).astype(np.uint16))
    = x rounded up where 256 · random > lower: that must be rare where lower is small
        | (BITS + noise) >> 16 => (BITS >> 16) + (noise > BITS & 0xFFFF)
    = x rounded up where 256 · random < lower, not where their sum is 65536 or more
        | (BITS + noise) >> 16 => (BITS >> 16) + (noise < (BITS & 0xFFFF))
    with random in place of 256 · random: its 8 bits belong to the highest of those that are cut off | << 8 =>
"""
TO_THE_NEAREST, BY_CHANCE = ((own + EDGES).replace("BITS", "x.view(np.uint32)") for own in (TO_THE_NEAREST, BY_CHANCE))

Exercise("to_bfloat16", "18", nearest, "result", cases=shorter, look="2.2 · One addition", mistakes=TO_THE_NEAREST)
Exercise("stochastic_bfloat16", "18", by_chance, "result", cases=pairs, look="6.3 · By bits", mistakes=BY_CHANCE)

# ------------------------------------------------------------------------------------------------------------ sums


def columns(c):
    """x (n, 6): sums that halves lose, that rows lose, of numbers that become smaller, of numbers of both signs, of
    equal ones, whose last bits a plain sum loses in any order, and of two large ones that cancel, among small ones."""
    c.search = lambda array, right: ToTheLastBit(c, "sum", c.calls[-1].outputs.get("sum"), right)
    for n, dtype in [(6, "f4"), (256, "f4"), (256, "f4"), (512, "f2"), (256, "f8"), (77, "f4")]:
        eps, i = float(np.finfo(dtype).eps), np.arange(n)
        x = c.rng.uniform(0.5, 1.5, (n, 6))  # (n, 6)
        place = i % 64  # in a block: 1, then six groups of 1, 2, 4, … 32 numbers, each nearly half the last bit of 1
        x[:, 0] = np.where(place == 0, 1, 0.49 * eps / 2 ** np.floor(np.log2(np.maximum(place, 1))))
        x[:, 1] = c.rng.uniform(0.8, 0.98, n)
        x[n // 3, 1] = 2 / eps * c.rng.uniform(1, 1.5)  # its last bit is 2; from both ends, others come after it
        x[:, 2] *= np.linspace(1, 0.01, n) * 2 / eps / n
        x[:, 3] *= c.rng.choice([-0.3, 1], n)
        x[[n // 4, -2], 5] = np.array([1, -1]) * c.rng.uniform(4, 8) / eps * (-1) ** (n % 3)  # half a last bit is ≥ 2
        x[:, 4] = 1 + eps * (2 ** max(0, int(n - 1).bit_length() - 2) - 1)  # just below half a large total's last bit
        yield (x * (2.0**-30 if n == 77 else 1)).astype(dtype)  # finally so small that a kept excess shows


def allowed(x):
    """(C,) float64: a rounding of the sum, and the sizes times Neumaier's n² eps² or, if that is less, Kahan's eps."""
    eps, sizes = float(np.finfo(x.dtype).eps), np.abs(x.astype(np.float64)).sum(axis=0)
    return eps * (np.abs(exact(x)) + min(1, len(x) ** 2 * eps) * sizes)


class ToTheLastBit(PythonSearch):
    """Here rounding errors are the mistake: a mistake explains a sum if every bit is the same."""

    alike = staticmethod(lambda one, other: np.array_equal(one, other, equal_nan=True))
    same_error = staticmethod(lambda made, got, *_: np.isfinite(got).any() and ToTheLastBit.alike(made, got))

    def mends(self, program):
        (x,), made = self.case.arguments, self.run(program, self.case).get("sum")
        return np.shape(made) == self.right.shape and bool((np.abs(np.float64(made) - self.right) <= allowed(x)).all())


KAHAN = r"""
    = the plain sum: what an addition drops is never added again | total - excess => total
    = the plain sum from the last row to the first | for row in x => for row in x[::-1] ;; total - excess => total
    = the pairwise sum: it often loses less than a plain sum, but never adds again what it lost
        | add = lambda x: x[0] if len(x) == 1 else add(x[: len(x) // 2]) + add(x[len(x) // 2 :])\nreturn add(x)
    = the plain sum in float64, rounded at the end | return sum(x.astype(np.float64)).astype(x.dtype)
    = Kahan's sum, as the lesson has it: its excess is wrong where a row is larger than the total
        | total = excess = np.zeros_like(x[0])\nfor row in x:\n    wanted = row - excess\n    new = total + wanted
        \n    total, excess = new, (new - total) - wanted\nreturn total
    with row > total, not their sizes, deciding which is larger | np.abs(row) > np.abs(total) => row > total
    with large and small exchanged: new - small is rounded | (new - large) - small => (new - small) - large
"""
HOW = dict(rtol=0, atol=allowed, look="3.3 · Kahan", mistakes=KAHAN)

Exercise("kahan_sum", "18", lambda x: exact(x).astype(x.dtype), "sum", cases=columns, **HOW)

# --------------------------------------------------------------------------------------------------------- scaling


def steps(c):
    """grads, scale, good_steps, interval, max_norm: runs of ten steps; after the first of them the scale is doubled.

    Of three float16 arrays the first has numbers that float16 loses when they are divided by the scale, and in step 3
    some are near its largest, and sums overflow. The odd steps are clipped."""
    sizes = {(3, 5): (-4, -3.3), (7,): (-1, 3), (2, 3, 2): (-2, 1)}  # powers of ten
    bad = {1: (2, np.inf), 4: (0, np.nan), 5: (1, -np.inf), 9: (2, np.nan)}  # array, what it holds somewhere
    for scale, interval in [(1024.0, 2), (32768.0, 3), (0.25, 1), (2.0**24, 2)]:
        good = interval - 1
        for step in range(10):
            powers = [10.0 ** c.rng.uniform(*ends, shape) for shape, ends in sizes.items()]
            grads = [(c.rng.standard_normal(p.shape) * p).astype(np.float16) for p in powers]
            if step == 3:
                grads[1].flat[c.rng.permutation(7)[:2]], grads[2].flat[c.rng.integers(12)] = 60000, 65504
            if step in bad:
                array, value = bad[step]
                grads[array].flat[c.rng.integers(grads[array].size)] = value
            norm = np.sqrt(sum(np.sum(np.nan_to_num(g, posinf=1, neginf=1).astype(float) ** 2) for g in grads)) / scale
            yield grads, scale, good, interval, float(norm * (3, 0.3)[step % 2])
            _, scale, good = unscaled(grads, scale, good, interval, 1.0)


def unscaled(grads, scale, good_steps, interval, max_norm):
    """The rule of PyTorch's GradScaler: {k: clipped gradient} or None, the next scale, good steps so far."""
    if not all(np.isfinite(g).all() for g in grads):
        return None, scale / 2, 0
    exact = [np.float64(g) / scale for g in grads]
    factor = min(1, max_norm / np.sqrt(sum(np.sum(g * g) for g in exact)))
    divided = {k: np.float32(g * factor) for k, g in enumerate(exact)}
    return (divided, 2 * scale, 0) if good_steps + 1 == interval else (divided, scale, good_steps + 1)


def skips(tried):
    """A sentence if a step was skipped that should not have been, or the reverse; or if arrays are missing."""
    got, grads = tried.got["unscaled"], tried.given["grads"]
    bad = [f"grads[{k}] holds {g[~np.isfinite(g)][0]}" for k, g in enumerate(grads) if not np.isfinite(g).all()]
    if bad and got is not None:
        return f"{bad[0]}: this step must be skipped, so return None for the gradients"
    if got is None and not bad:
        return f"all gradients are finite, the largest is {max(map(np.max, grads)):g}, but None was returned for them"
    listed = bad or isinstance(got, list | tuple) and len(got) == len(grads)
    return None if listed else f"there are {len(grads)} gradients: return a list of as many arrays for them"


SCALER = r"""
    with the quotients computed in float16, where small ones become 0 again
        | g.astype(np.float32) / np.float32(scale) => (g / np.float16(scale)).astype(np.float32)
    divided by the next scale: these were made with the present one
        | np.float32(scale) => np.float32(scale * (1 + (good_steps + 1 == interval)))
    clipped by their norm from before the division, `scale` times as large | norm = np.sqrt => norm = scale * np.sqrt
    with each array clipped by its own norm | max_norm / norm => max_norm / max(max_norm, np.linalg.norm(g))
    without clipping | g * np.float32(max_norm / norm) => g
    with all gradients brought to max_norm, smaller ones too: they stay as they are | if norm > max_norm => if norm
    if the scale is doubled one step late: this good step counts, too | good_steps == interval => good_steps > interval
    with scale and good_steps exchanged | None, scale / 2, 0 => None, 0, scale / 2
        ;; unscaled, 2 * scale, 0 => unscaled, 0, 2 * scale ;; unscaled, scale, … => unscaled, good_steps, scale
    going on with the count after an overflow: it starts again from 0 | scale / 2, 0 => scale / 2, good_steps
    without starting again from 0 when the scale is doubled | 2 * scale, 0 => 2 * scale, good_steps
"""
HOW = dict(rules=(skips,), rtol={"unscaled": 3e-6, "": 0}, atol=0, look="5.3 · Dynamic", mistakes=SCALER)

Exercise("unscale_gradients", "18", unscaled, "unscaled scale good_steps", cases=steps, **HOW)

# ------------------------------------------------------------------------------------------------------ eight bits


def tensors(c):
    """name, x: random ones, tiny and huge ones, awkward ones, and finally four real ones."""
    sizes = [*[((n,), 1) for n in (1000, 1001, *range(8, 40, 2), *range(1002, 1012))], ((3, 5), 1), ((3, 5), 1)]
    for shape, size in [*sizes, ((7,), 1e-30), ((2, 3, 4), 1e30)]:
        yield "random numbers", size * c.random(*shape, dtype=np.float32)
    awkward = [-700, 3, 0.02, -0.5, 600, 0], [[3e-3]], [[0, 0, 0]] * 2, [1e-40, -3e-41, 7e-43], [3e38, -1e38, 3e35]
    for numbers in awkward:
        yield f"the numbers {numbers}", np.array(numbers, np.float32)
    yield from real_tensors().items()


def codes_of(y):
    """uint8 codes of the nearest e4m3 numbers; beyond the largest, the largest."""
    return encode(np.clip(y, -E4M3.largest, E4M3.largest), E4M3).astype(np.uint8)


def judge_quantised(c, function, name, x) -> float:
    """Call it, judge the codes by the scale that came with them, and then the error, by that of the scale amax / 448.

    Returns what share of that error is saved.
    """
    result, x, look = c.call(function, x), x.astype(np.float64), c.exercise.look_for()
    codes, scale = result if isinstance(result, tuple | list) and len(result) == 2 else (result, None)
    if not (np.isscalar(scale) and 0 < scale < np.inf):
        told = f"{name}: `return codes, scale`, a scale that is one number, positive and finite, not {describe(scale)}"
        raise WrongAnswer(told, Kind.SHAPE, look=look)
    y, best = x / scale, codes_of(x / scale)
    compare("codes", codes, best, rtol=0, atol=np.inf, look=look)  # type, shape and dtype alone
    got, usual = decode(codes, E4M3), np.abs(x).max() / E4M3.largest or 1.0
    right = np.abs(got - y) <= np.abs(decode(best, E4M3) - y) + 1e-6 * np.abs(y)  # float32 may turn a tie; NaN never is
    known = {words: np.where(decode(each, E4M3) == got, codes, each) for words, each in mistaken(x, scale, usual)}
    compare("codes", codes, np.where(right, codes, best), look=look, known=known)
    most, missed = (np.sqrt(np.mean((n - x) ** 2)) for n in (decode(codes_of(x / usual), E4M3) * usual, got * scale))
    most += 1e-7 * (np.abs(x).max() or 1.0)  # smaller errors are none
    if missed > 1.001 * most:
        told = f"the error is {missed / most:.4g} times that of amax / 448; your scale is {scale / usual:.3g} times it"
        raise WrongAnswer(f"the codes are right, but the scale is not good: for {name}, {told}", look=look)
    return 1 - missed / most


def mistaken(x, scale, usual):
    """(what wrong codes equal, these codes)."""
    y, codes, within = x / scale, codes_of(x / scale), np.clip(x / scale, -448, 448)
    near, sign, value = codes & 0x7F, codes & 0x80, decode(codes & 0x7F, E4M3)
    yield "those of numbers up to more than 448, where e4m3 ends: codes beyond it are NaN", encode(y, E4M3).astype("u1")
    yield "the reference without the sign", near
    yield "those of x / scale cut off, not rounded to the nearest", sign | near - (value > np.abs(y))
    yield "those of x / scale rounded up, away from 0", sign | np.minimum(near + (value < np.abs(y)), 126)
    yield "the reference with subnormal numbers set to 0", np.where(near & 0x78, codes, sign)
    yield "those of x · scale, and will be multiplied by the scale", codes_of(x * scale)
    yield "those of x itself: it was not divided by the scale", codes_of(x)
    yield "those of x divided by amax / 448, which is not the scale that was returned", codes_of(x / usual)
    yield "whole numbers, as int8 has them", np.rint(within).astype(np.int64).astype(np.uint8)
    yield "the numbers changed to uint8: view(np.uint8) reads their bits", decode(codes, E4M3).astype("i8").astype("u1")
    yield "those of x / scale rounded to float16 first", codes_of(within.astype(np.float16))


def judge_gains(c, gains):
    """Raise WrongAnswer unless the error on the real tensors is 3% smaller, on average, than with the usual scale."""
    c.calls.clear()  # this is about all of them
    real = {name: np.round(gains[name], 4) + 0.0 for name in real_tensors()}  # without a −0
    mean, each = np.mean([*real.values()]), ", ".join(f"{name} {gain:.1%}" for name, gain in real.items())
    found = f"smaller than that of amax / 448 by {mean:.1%} on average: {each}"
    if mean < 0.03:
        goal = "The goal is 3%, which the best of several scales between amax / 448 and twice that reaches"
        raise WrongAnswer(f"right, but the error is {found}. {goal}", look=c.exercise.look_for())
    c.say(f"Its error is {found}.")


Exercise("quantize_e4m3", "18", returns="codes scale", cases=tensors, look="7 · Eight bits and one scale")
