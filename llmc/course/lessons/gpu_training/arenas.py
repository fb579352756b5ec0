"""Lesson 17, exercise 5: tensors to plan memory for, and what is wrong with a plan. A tensor is (size, first, last)."""

from contextlib import suppress
from numbers import Integral

import numpy as np

from llmc import blocks
from llmc.config import GPT2Config
from llmc.course.checks.exercise import Exercise
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer, describe
from llmc.course.mutation.named import Mistake
from llmc.course.mutation.program import solution_of

UNIT = 16  # bytes: what every place is a multiple of


def sets_of_tensors(c):
    """name, lists of tensors, how many times the floor their plans may take on average (None: any size is right)."""
    yield "a few tensors", [_drawn(c.rng, n, 6, 5, 1, 200) for n in (5, 12, 2, 1) for _ in range(6)], None
    yield "a GPT-2", [gpt2_tensors(GPT2Config(maxT=64, V=500, L=4, NH=2, C=64), B=2, T=64)], 1.1
    # The smallest first: placed in this order, they leave gaps too small to use.
    yield "random tensors", [sorted(_drawn(c.rng, 120, 40, 20, 200, 2000)) for _ in range(12)], 1.18


def _drawn(rng, n, steps, lives, least, most):
    """n tensors of `least` to `most` bytes, and their lives, which begin within these steps."""
    first = rng.integers(0, steps, n)
    last, size = first + rng.integers(0, lives, n), rng.integers(least, most, n)
    return [(int(s), int(a), int(b)) for s, a, b in zip(size, first, last)]


def gpt2_tensors(config, B, T) -> list:
    """The activations of a training step and their gradients: when each is first written and last read.

    A step is a layer's work, forward 0 … L + 1 and then backward. What the backward pass reads lives until then.
    """
    L, end = config.L, 2 * config.L + 3
    tensors = []
    for tensor in blocks.activation_table(config, B, T, stats=(B, config.NH, T)):
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


def judge_plans(c, function, name, sets, most):
    """WrongAnswer unless the function gives each tensor of each set a place of its own, and needs few bytes."""
    plans = []
    for tensors in sets:
        plans.append((c.call(function, list(tensors)), tensors))
        judge_plan(c, *plans[-1])
    if most is None:
        return
    share = float(np.mean([needed(*plan) / floor(plan[1]) for plan in plans]))
    if share > most:
        told = f"no two tensors meet, but the plan of {name} takes {share:.2f} times the floor; the goal is {most}"
        raise WrongAnswer(told, Kind.DEMAND, more=_explained(c, *plans[-1], repair=False), look=c.exercise.look_for())
    c.say(f"{name[0].upper()}{name[1:]}: {share:.3f} times the floor.")


def judge_plan(c, offsets, tensors):
    """WrongAnswer unless every tensor has a place, and no two of them overlap."""
    if not isinstance(offsets, list | tuple | np.ndarray) or len(offsets) != len(tensors):
        told = f"return the first byte of each of the {len(tensors)} tensors as a list, not {describe(offsets)}"
        raise WrongAnswer(told, Kind.SHAPE)
    for k, offset in enumerate(offsets):
        if not isinstance(offset, Integral) or isinstance(offset, bool) or offset < 0 or offset % UNIT:
            wanted = f"an int, 0 or more, and a multiple of {UNIT}"
            raise WrongAnswer(f"the place of tensor {k} is {offset!r}, and should be {wanted}", Kind.SHAPE)
    if pair := overlapping(offsets, tensors):
        more = []
        for k in pair:
            size, first, last = tensors[k]
            more.append(f"    tensor {k}: bytes {offsets[k]} to {offsets[k] + size - 1}, steps {first} to {last}")
        told = "tensors {} and {} overlap while both live".format(*pair)
        raise WrongAnswer(told, more=[*more, *_explained(c, offsets, tensors)], look=c.exercise.look_for())


def overlapping(offsets, tensors):
    """The first two tensors (j, k), j < k, that share a byte while both live; None if there are none."""
    for k, (size, first, last) in enumerate(tensors):
        for j in range(k):
            other, begins, ends = tensors[j]
            meet = offsets[j] < offsets[k] + size and offsets[k] < offsets[j] + other
            if meet and first <= ends and begins <= last:
                return j, k
    return None


def floor(tensors) -> int:
    """The largest sum of sizes that live in one step."""
    steps = {first for _, first, _ in tensors}
    return max(sum(size for size, first, last in tensors if first <= step <= last) for step in steps)


def needed(offsets, tensors) -> int:
    """Bytes of the array."""
    return max(int(offset) + size for offset, (size, _, _) in zip(offsets, tensors))


def _explained(c, offsets, tensors, repair=True) -> list:
    """A sentence about the edit, of our solution or of the learner's function, that explains this plan; [] if none."""
    c.comparing, solution = "places", solution_of(c.exercise.name)
    search = c.search(offsets, solution.function()(list(tensors))) if c.explains else None
    c.comparing = ""
    with suppress(MemoryError):  # an edit of a plan can make a list that holds itself, and NumPy unpacks it
        if search and (told := search.right_when_new()):
            return [f"The plan is wrong, and {told}."]
        if search and isinstance(mistake := search.mistake(), Mistake):
            return [f"The list of places equals {mistake.made}."]
        if search and repair and (edit := search.repair()):
            return [f"Your function passes this whole check {edit.there}."]
    return []


Exercise(
    "plan_memory",
    "17",
    returns="places",
    cases=sets_of_tensors,
    look="3.2 · An arena",
    mistakes=r"""
        = our solution's with lives that end before their last step
            | first <= ends and begins <= last => first < ends and begins < last
        = our solution's where only a tensor that begins during another's life meets it
            | first <= ends and begins <= last => begins <= first <= ends
        = our solution's with ends rounded down to a multiple of 16
            | -(-(place + size) // 16) * 16 => (place + size) // 16 * 16
        = our solution's in the order in which it places the tensors, not in the order of the list
            | return offsets => return [offsets[k] for k in sorted(range(len(tensors)), key=lambda k: -tensors[k][0])]
        = our solution's where a place steps back to the end of the last tensor below it: keep the highest end
            | max(place, end) => end
        = our solution's where one free byte is enough: a gap must be as large as the tensor
            | place + size <= offset => place + 1 <= offset
        = our solution's with the tensors placed in the order of the list, not the largest first | -tensors[k][0] => k
        = our solution's with the smallest tensors placed first | -tensors[k][0] => tensors[k][0]
        = our solution's where a tensor lies above all that live at the same time, and no gap is used
            | if place + size <= offset => if False
    """,
)
