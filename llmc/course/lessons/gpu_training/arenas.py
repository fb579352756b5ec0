"""Lesson 17: tensors to plan memory for, and what is wrong with a plan. A tensor is (size, first, last)."""

from numbers import Integral

import numpy as np

from llmc import blocks
from llmc.config import GPT2Config
from llmc.course.lessons.gpu_training.arena_causes import of_overlap, of_size, overlapping, times_the_floor
from llmc.course.old.checks.explain import WrongAnswer, describe

UNIT = 16  # bytes: what every place is a multiple of
LOOK = "→ Where to look: "


def explain(offsets, tensors, where):
    """WrongAnswer unless every tensor has a place of its own."""
    if not isinstance(offsets, list | tuple | np.ndarray) or len(offsets) != len(tensors):
        got = f"{len(offsets)} of them" if isinstance(offsets, list | tuple | np.ndarray) else describe(offsets)
        raise WrongAnswer(f"return the first byte of each of the {len(tensors)} tensors as a list, not {got}.")
    for k, offset in enumerate(offsets):
        if not isinstance(offset, Integral) or isinstance(offset, bool):
            raise WrongAnswer(f"the place of tensor {k} is {describe(offset)}, but a place is a whole number of bytes.")
        if offset < 0:
            raise WrongAnswer(f"the place of tensor {k} is {offset}: the array begins at byte 0.")
        if offset % UNIT:
            raise WrongAnswer(f"the place of tensor {k} is {offset}, which is no multiple of {UNIT}.")
    _explain_overlaps(offsets, tensors, where)


def _explain_overlaps(offsets, tensors, where):
    """WrongAnswer about the first two tensors that share a byte while both live."""
    pair = overlapping(offsets, tensors)
    if pair:
        raise WrongAnswer("\n".join([*_two(*pair, offsets, tensors), *of_overlap(offsets, tensors), f"{LOOK}{where}."]))


def _two(j, k, offsets, tensors):
    """Which two tensors overlap."""
    yield f"tensors {j} and {k} overlap while both live."
    for index, (n, a, b) in ((j, tensors[j]), (k, tensors[k])):
        yield f"    tensor {index}: bytes {offsets[index]} to {offsets[index] + n - 1}, steps {a} to {b}"


def demand(name, plans, most, where) -> float:
    """The mean of array over floor; WrongAnswer above `most`. plans: (offsets, tensors) of several sets of tensors."""
    share = times_the_floor(plans)
    if share <= most:
        return share
    sentence = f"no two tensors meet, but the plan of {name} takes {share:.2f} times the floor. The goal is at most"
    raise WrongAnswer("\n".join([f"{sentence} {most}.", *of_size(plans, most), f"{LOOK}{where}."]))


# --------------------------------------------------------------------------------------------------------- the tensors


def few(rng, n):
    """n random tensors within a few steps."""
    first = rng.integers(0, 6, n)
    last = first + rng.integers(0, 5, n)
    return [(int(size), int(a), int(b)) for size, a, b in zip(rng.integers(1, 200, n), first, last)]


def cases(rng):
    """(name, several lists of tensors, how many times the floor their plans may take on average)."""
    gpt2 = gpt2_tensors(GPT2Config(maxT=64, V=500, L=4, NH=2, C=64), B=2, T=64)
    return [("a GPT-2", [gpt2], 1.1), ("random tensors", [_random(rng, 120) for _ in range(12)], 1.18)]


def _random(rng, n):
    """Tensors of many lives and sizes, the smallest first: placed in this order, they leave gaps too small to use."""
    first = rng.integers(0, 40, n)
    last, size = first + rng.integers(0, 20, n), rng.integers(200, 2000, n)
    return sorted((int(s), int(a), int(b)) for s, a, b in zip(size, first, last))


def gpt2_tensors(config, B, T) -> list:
    """The activations of a training step and their gradients: when each is written first and read last.

    A step is a layer's work, forward 0 … L + 1 and then backward. What the backward pass reads lives until then.
    """
    L, end = config.L, 2 * config.L + 3
    table = blocks.activation_table(config, B, T, stats=(B, config.NH, T))
    tensors = []
    for tensor in table:
        size = 4 * int(np.prod(tensor.shape[1:] if tensor.stacked else tensor.shape))
        for l in range(L) if tensor.stacked else [None]:
            written = {"encoded": 0, "attproj": 1, "fcproj": 1}.get(tensor.name, L + 1) if l is None else l + 1
            last = end if tensor.name == "encoded" else L if l is None and written == 1 else end - written
            tensors.append((size, written, last))
    C = config.C
    tensors += [(4 * B * T * config.Vp, L + 1, L + 2), (4 * B * T * C, L + 2, end)]  # logits, dresidual
    for step in range(L + 2, end + 1):  # a layer's gradients
        tensors += [(4 * B * T * width * C, step, step) for width in (1, 3, 4)]
    return tensors
