"""Lesson 20: what AdamW with master weights and stochastic rounding should give, and what known mistakes give instead.

Mistakes are {sentence after "m equals ": (float64 array, where to look)}.
"""

import re
from typing import NamedTuple

import numpy as np

from llmc.backends.mixed import random_bits
from llmc.course.lessons.adamw import optimizer
from llmc.course.lessons.mixed_training.places import CHANCE, UPDATE
from llmc.course.lessons.mixed_training.sixteen import BF16, widened
from llmc.course.old.checks.comparison import compare
from llmc.course.old.checks.explain import WrongAnswer, stopped

FEW = 8  # wrong weights, at most, that show no cause


class Updated(NamedTuple):
    """After a step: the weights before they are rounded, m, v; (n,) float64."""

    exact: np.ndarray
    m: np.ndarray
    v: np.ndarray


def settings(rng):
    """lr, beta1, beta2, eps, weight_decay, factor, as float32."""
    some = rng.uniform(0.02, 0.1), rng.uniform(0.8, 0.95), rng.uniform(0.9, 0.999), 0.05, 0.3, rng.uniform(0.1, 0.5)
    return [np.float32(x) for x in some]


def cleared(grads, held):
    """WrongAnswer unless grads, bfloat16 (n,), are 0. held: what they were."""
    known = {"what it held before: every step ends with gradients of 0": (widened(held).astype(np.float32), UPDATE)}
    got = grads.astype(np.float32)
    compare("grads", got, np.zeros_like(got), known=known, look=UPDATE)


def updated(weights, grads, m, v, numbers, t) -> Updated:
    """One step from weights (n,), float32 or bfloat16; gradients count `factor` times."""
    lr, beta1, beta2, eps, decay, factor = (float(x) for x in numbers)
    start = weights.astype(np.float64)
    step = optimizer.adamw(
        start, widened(grads) * factor, *(a.astype(np.float64) for a in (m, v)), lr, beta1, beta2, eps, decay, t
    )
    return Updated(step.params, step.m, step.v)


def update_mistakes(weights, rounded, grads, m, v, numbers, t, has_master) -> dict:
    """{"weights", "m", "v": known mistakes}. rounded: what params held; weights: what the step begins with."""
    lr, beta1, beta2, eps, decay, factor = (float(x) for x in numbers)
    start, m, v = (a.astype(np.float64) for a in (weights, m, v))
    g = widened(grads)
    rest = lr, beta1, beta2, eps, decay, t
    known = optimizer.adamw_mistakes(start, g * factor, m, v, *rest)
    found = {
        ours: {_with_a_factor(said): (array, UPDATE) for said, (array, _) in known[theirs].items()}
        for ours, theirs in (("m", "m"), ("v", "v"), ("weights", "params"))
    }
    others = {
        "the reference without the factor: gradients count `factor` times": g,
        "the reference with gradients divided by factor, not multiplied by it": g / factor,
        "the reference with the factor applied twice": g * factor**2,
        "a step with gradients of 0": 0 * g,
        "the reference with a gradient's bits taken for a number": (grads.view(np.uint16).astype(np.float64) * factor),
    }
    for said, gradient in others.items():
        step = optimizer.adamw(start, gradient, m, v, *rest)
        for name, array in (("weights", step.params), ("m", step.m), ("v", step.v)):
            found[name][said] = array, UPDATE
    words = "the reference with factor · grads² in place of (factor · grads)²: v is of the gradient after the factor"
    found["v"][words] = beta2 * v + (1 - beta2) * factor * g * g, UPDATE
    new_v = beta2 * v + (1 - beta2) * (factor * g) ** 2
    steps = {
        "a step along the gradient in place of m": g * factor / (1 - beta1**t),
        "a step along the gradient in place of m, without bias correction": g * factor,
    }
    for said, step in steps.items():
        moved = start * (1 - lr * decay) - lr * step / (np.sqrt(new_v / (1 - beta2**t)) + eps)
        found["weights"][f"{said}: m is its mean"] = moved, UPDATE
    if not has_master:
        words = "what it held before: without master weights, params are what is trained"
        found["weights"][words] = widened(rounded), UPDATE
    if has_master:
        step = optimizer.adamw(widened(rounded), g * factor, m, v, *rest)
        decayed = optimizer.adamw(start, g * factor, m, v, *rest).params + lr * decay * (start - widened(rounded))
        found["weights"]["the reference with the decay of params' weight: master's decays"] = decayed, UPDATE
        words = "a step from params, not from master: small updates are lost again"
        found["weights"][words] = step.params, UPDATE
        found["weights"]["what it held before: the new weights belong in master, too"] = start, UPDATE
        found["weights"]["what params held before: master gets the weight as it was computed"] = (
            widened(rounded),
            UPDATE,
        )
    return found


def _with_a_factor(said) -> str:
    """Words of lesson 09, in which the gradient has no factor and the weights are always params."""
    said = re.sub("grads²", "(factor · grads)²", said) if "grads²" in said else said.replace("grads", "factor · grads")
    return re.sub(r"(?:the )?\bparams\b", "the weights", said)


def rounded_master(master, params):
    """A sentence if master, float32 (n,), is params, bfloat16, after they were rounded; else None."""
    if np.isfinite(master).all() and np.array_equal(master, widened(params).astype(np.float32)):
        return "master equals the rounded weight that params hold: it must keep the number from before rounding"
    return None


def compare_chance(params, exact, before, key, start):
    """WrongAnswer unless params, bfloat16, is exact (float32, (n,)) rounded up or down by the random bits of key.

    Where float32's last digits decide, either neighbour will do. before: what params held. start: the weights before
    the step, float32 or bfloat16.
    """
    bits = np.asarray(exact, np.float32).view(np.uint32).astype(np.int64)
    places = np.arange(len(bits))
    random = _low(key, places)  # (n,)
    got = params.view(np.uint16).astype(np.int64)
    upper, lower = bits >> 16, bits & 0xFFFF
    expected, close = (bits + random) >> 16, np.abs(lower + random - 0x10000) <= 256
    near = (got == expected) | close & ((got == upper) | (got == upper + 1))
    if near.all():
        return
    nearest = np.asarray(exact, np.float32).astype(BF16).view(np.uint16)
    wrong = {
        "rounded to the nearest: the random bits make no difference": nearest,
        "cut off: nothing ever goes up": upper,
        "what it held before": before.view(np.uint16),
        "rounded by the random bits of place 0 for all: a weight's place is i": (bits + _low(key, 0 * places)) >> 16,
        "rounded by random bits that do not depend on the key: then each step rounds alike": (bits + _low(0, places))
        >> 16,
        "rounded by the random bits of the thread's number within its block: a weight's place is i": (
            (bits + _low(key, places % 256)) >> 16
        ),
        "the weight's upper 16 bits, and 1 more where the random bits' last one is 1, whatever the lower half is": upper
        + (random & 1),
        "the weight's upper 16 bits, and 1 more where the random bits' bit 15 is 1, whatever the lower half is": upper
        + (random >> 15),
        "the weight's upper 16 bits with the random bits added to them": upper + random & 0xFFFF,
        "rounded by the upper 16 of the random bits: the lower 16 are wanted": (
            (bits + (random_bits_of(key, places) >> 16)) >> 16
        ),
        "rounded by 8 random bits: 16 are needed, for the 16 that are cut off": (bits + (random & 0xFF)) >> 16,
        "rounded up where random < lower: as likely, but the task says up where lower + random overflows": (
            upper + (random < lower)
        ),
        "rounded up where lower < random: that is likely where lower is small, and must be rare there": (
            upper + (lower < random)
        ),
        "rounded in the other direction where it is negative: bits hold sign and size": (
            np.where(np.asarray(exact) < 0, bits - random, bits + random) >> 16
        ),
        "the weight before the step, rounded": (
            (np.asarray(start, np.float32).view(np.uint32).astype(np.int64) + random) >> 16
        ),
        "the integer part of the weight: __float_as_uint reads the bits as they are": (
            (np.asarray(exact, np.float64).astype(np.int64) >> 16) & 0xFFFF
        ),
        "rounded by all 32 random bits: only the lower 16 may be added": (
            (bits + random_bits_of(key, places) & 0xFFFFFFFF) >> 16
        ),
        "rounded to the nearest after the random bits were added: what is cut off counts twice": (
            (bits + random + 0x7FFF + (bits + random >> 16 & 1)) >> 16
        ),
        "the lower 16 bits: a bfloat16 is the upper half": (bits + random) & 0xFFFF,
        "0 everywhere: the upper half of __float_as_uint(p) + random is wanted, shifted down by 16 bits": 0 * bits,
        "rounded by 15 random bits: 16 are needed, for the 16 that are cut off": (bits + (random & 0x7FFF)) >> 16,
        "rounded with the random bits subtracted, not added": (bits - random) >> 16,
        "rounded by the random bits of the next place, i + 1: a weight's place is i": (
            (bits + _low(key, places + 1)) >> 16
        ),
        "the weight's upper 16 bits and 1 more wherever random is not 0": upper + (random > 0),
    }
    same = {said: np.asarray(codes).astype(np.int64) == got for said, codes in wrong.items()}  # (n,) each
    enough = (~near).sum() > FEW  # one of two neighbours is hit by chance
    alike = {said: min(each.mean(), each[~near].mean()) * enough for said, each in same.items()}
    said = max(alike, key=alike.get)
    at, off = int(np.argmin(near)), int((~near).sum())
    values = "params has wrong values, though the weights before rounding are right"
    if ((got == upper) | (got == upper + 1)).all():
        values = (
            "params holds one of the two neighbours of each weight, but not always the one that the lower 16 of the "
        )
        values += "random bits for its key and its place choose"
    lines = [stopped(f"params is {said}" if alike[said] > 0.99 else values)]
    lines += [f"→ Where to look: {CHANCE}.", "", f"Wrong: {off} of {len(got)}. The first of them, number {at}:"]
    lines += [f"    before rounding  0x{bits[at]:08X}, so lower = 0x{lower[at]:04X}; random 0x{random[at]:04X}"]
    lines += [f"    expected 0x{expected[at]:04X}   got 0x{got[at]:04X}"]
    raise WrongAnswer("\n".join(lines))


def random_bits_of(key, places):
    """All 32 random bits of these places (n,); int64."""
    few = random_bits(int(key), 0, int(np.max(places)) + 1)
    return few[np.asarray(places)].astype(np.int64)


def _low(key, places):
    return random_bits_of(key, places) & 0xFFFF
