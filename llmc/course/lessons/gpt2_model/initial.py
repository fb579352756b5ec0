"""Lesson 07: what is wrong with a fresh model's first weights."""

import numpy as np

from llmc.course.lessons.gpt2_model.places import FRESH, INIT

ONES = ("ln1w", "ln2w", "lnfw")
TO_THE_STREAM = ("attprojw", "fcprojw")


def explain_initial(name, shape, L, got, drawn=True):
    """What is wrong with the initial values `got` of tensor `name`, and where to look; None when nothing is.

    drawn: has the generator that was given moved on?
    """
    wrong, where = _wrong_start(name, shape, got, drawn), FRESH
    if wrong is None and name not in ONES and not name.endswith("b"):
        wrong, where = _of_layers(name, got), INIT
        if wrong is None:
            wrong, where = _wrong_distribution(name, got), FRESH
        if wrong is None:
            wrong, where = _wrong_width(name, shape, L, got)
    return wrong and f"{wrong}.\n→ Where to look: {where}"


def _wrong_start(name, shape, got, drawn):
    """Shape, dtype, the ones and zeros, and whether the rest is drawn with this rng."""
    if not isinstance(got, np.ndarray) or got.shape != shape:
        return f"{name} should be an array of shape {shape}, not {getattr(got, 'shape', type(got).__name__)}"
    if got.dtype != np.float32:
        return f"{name} has dtype {got.dtype}, expected float32"
    if name in ONES:
        return None if (got == 1).all() else f"{name} should be ones: a layernorm starts by changing nothing"
    if name.endswith("b"):
        return None if (got == 0).all() else f"{name} should be zeros: it is a bias"
    if got.std() == 0:
        return f"{name} is constant: its numbers must differ, or all channels learn the same thing"
    if not drawn:
        return f"{name} was not drawn from the given rng: the caller decides, with its seed, which numbers come"
    zeros = float((got == 0).mean())
    return f"{zeros:.1%} of the numbers of {name} are 0" if zeros > 0.01 else None


def _of_layers(name, got):
    """A sentence about layers with different standard deviations; None if there are none."""
    layers = [float(layer.std()) for layer in got] if got.ndim == 3 else [1.0]
    if max(layers) <= 1.1 * min(layers):
        return None
    each = ", ".join(f"{one:.5f}" for one in layers[:3])
    told = f"the layers of {name} have different standard deviations, {each}{', …' * (len(layers) > 3)}"
    same = np.array(layers) * np.sqrt(np.arange(1, len(layers) + 1))
    own = ", with the number of layers in it, not the layer's own" * bool(np.ptp(same) < 0.1 * same.max())
    return f"{told}: it is the same for all{own}"


def _wrong_distribution(name, got):
    """Is it normal, with mean 0, and does each layer have numbers of its own?"""
    std = float(got.std())
    largest = float(np.abs(got).max())
    clipped = float((np.abs(got) == largest).mean())
    if clipped > 0.01:
        return f"{name} is not from a normal distribution: {clipped:.1%} of its numbers are ±{largest:.2g}"
    if largest < 2.7 * std:  # a normal distribution's largest of thousands is beyond 3
        halves = float((np.abs(got) < largest / 2).mean())
        if abs(halves - 0.5) < 0.05:
            return f"{name} is uniform, between ±{largest:.2g}, not from a normal distribution"
        return (
            f"{name} is not from a normal distribution: its numbers lie between ±{largest:.2g}. It has some farther "
            "out, too"
        )
    near = float((np.abs(got - got.mean()) < std).mean())
    if not 0.63 < near < 0.73:  # 0.68 of a normal distribution; 0.58 of a uniform one, 0.76 of a Laplace distribution
        return f"{name} is not from a normal distribution: {near:.0%} lie within one standard deviation, not 68%"
    if got.ndim == 3 and (got[0] == got[1]).all():
        return f"{name} is the same in every layer"
    return f"{name} has mean {got.mean():.3g}, expected 0" if abs(float(got.mean())) > 0.1 * std else None


def _wrong_width(name, shape, L, got):
    """(what is wrong with the standard deviation, where to look), or (None, None)."""
    scale, std = np.sqrt(2 * L), float(got.std())
    wanted = 0.02 / scale if name in TO_THE_STREAM else 0.02
    if abs(std / wanted - 1) < 5 / np.sqrt(2 * got.size):  # five times what chance does to it
        return None, None
    reasons = {
        0.02**0.5: ("0.02 is the standard deviation, not the variance", FRESH),
        0.02**0.5 / scale: ("0.02 is the standard deviation, not the variance", FRESH),
        0.02**2: ("0.02 is the standard deviation, and this is its square", FRESH),
        1.0: (f"{name} is not scaled by 0.02", FRESH),
        1 / np.sqrt(shape[-1]): (f"{name} has 1/√(its inputs); here it does not depend on them", FRESH),
    }
    reasons |= _of_the_factor(name, L)
    close = (reason for value, reason in reasons.items() if abs(std / value - 1) < 0.05 < abs(wanted / value - 1))
    reason, where = next(close, ("", FRESH if wanted == 0.02 else INIT))
    return f"{name} has standard deviation {std:.5f}, expected {wanted:.5f}" + f". {reason}" * bool(reason), where


def _of_the_factor(name, L) -> dict:
    """{standard deviation: (reason, where to look)} of a wrong factor; of any factor where there should be none."""
    scale = np.sqrt(2 * L)
    wrong = {
        0.02 / np.sqrt(L): "It is divided by √L, but every block writes to the stream twice: the factor is 1/√(2L)",
        0.02 / (2 * L): "1/(2L) lacks a root: variances add up, so the factor is 1/√(2L)",
        0.02 / L: "1/L lacks a root, and every block writes twice: the factor is 1/√(2L)",
        0.02 * scale: "It is multiplied by √(2L), where it should be divided",
        0.02 / np.sqrt(2): "It is divided by √2, and the factor is 1/√(2L)",
    }
    if name in TO_THE_STREAM:
        wrong[0.02] = f"{name} writes to the residual stream, so it needs 1/√(2L) too"
    else:
        only = f"{name} does not write to the residual stream: only attprojw and fcprojw get the factor"
        wrong = dict.fromkeys([*wrong, 0.02 / scale], only)
    return {std: (why, INIT) for std, why in wrong.items()}
