"""Lesson 17: tensors to plan memory for, and what is wrong with a plan. A tensor is (size, first, last)."""

import io
from contextlib import redirect_stdout, suppress
from numbers import Integral

import numpy as np

from llmc import blocks
from llmc.config import GPT2Config
from llmc.course.checks import evidence
from llmc.course.checks.explain import WrongAnswer, describe, stopped
from llmc.course.checks.leftovers import of_same_call
from llmc.course.own_names import learners_names

UNIT = 16  # bytes: what every place is a multiple of


def floor(tensors) -> int:
    """The largest sum of sizes that live in one step."""
    steps = {first for _, first, _ in tensors}
    return max(sum(size for size, first, last in tensors if first <= step <= last) for step in steps)


def needed(offsets, tensors) -> int:
    """Bytes of the array."""
    return max(int(offset) + size for offset, (size, _, _) in zip(offsets, tensors))


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
            raise WrongAnswer(f"the place of tensor {k} is {offset}, which is no multiple of {UNIT}: round up.")
    _explain_overlaps(offsets, tensors, where)


def _explain_overlaps(offsets, tensors, where):
    """WrongAnswer about the first two tensors that share a byte while both live."""
    pair = _overlapping(offsets, tensors)
    if pair:
        more = _more_plans()
        said = _left_over(offsets, tensors) or _other_order(more)
        cause = [said] if said else _overlap(*pair, offsets, tensors, more)
        raise WrongAnswer("\n".join([*_two(*pair, offsets, tensors), *cause, f"→ Where to look: {where}."]))


def _left_over(offsets, tensors) -> str:
    """A sentence if the learner's function now plans the same tensors otherwise; "" if it does not."""
    function = evidence.learners_function()
    with redirect_stdout(io.StringIO()):
        said = of_same_call(function, (list(tensors),), offsets) if function else None
    return f"{said[0].upper()}{stopped(said[1:])}" if said else ""


def _overlapping(offsets, tensors):
    """The first two tensors (j, k), j < k, that share a byte while both live; None if there are none."""
    for k, (size, first, last) in enumerate(tensors):
        for j in range(k):
            other, begins, ends = tensors[j]
            meet = offsets[j] < offsets[k] + size and offsets[k] < offsets[j] + other
            if meet and first <= ends and begins <= last:
                return j, k
    return None


def _two(j, k, offsets, tensors):
    """Which two tensors overlap."""
    yield f"tensors {j} and {k} overlap while both live."
    for index, (n, a, b) in ((j, tensors[j]), (k, tensors[k])):
        yield f"    tensor {index}: bytes {offsets[index]} to {offsets[index] + n - 1}, steps {a} to {b}"


def _by_a_few_bytes(j, k, offsets, tensors) -> bool:
    """Does one of the two begin in the last bytes of the other?"""
    ends = offsets[j] + tensors[j][0], offsets[k] + tensors[k][0]
    return 0 < ends[0] - offsets[k] <= UNIT or 0 < ends[1] - offsets[j] <= UNIT


def _overlap(j, k, offsets, tensors, more):
    """The sentences about what the places and steps of two tensors say of the cause. more: _more_plans()."""
    (_, first, last), (_, begins, ends) = tensors[k], tensors[j]
    others = [(_overlapping(*plan), *plan) for plan in more if _overlapping(*plan)]
    few = _by_a_few_bytes(j, k, offsets, tensors)
    pairs = _plans_of(PAIRS)
    compares = bool(pairs) and not any(_overlapping(*plan) for plan in pairs)
    if compares and not few:
        yield _of_the_search()
        return
    always = few and len(others) > 1 and all(_by_a_few_bytes(*pair, *plan) for pair, *plan in others)
    if (first == ends or begins == last) and not always:
        yield "One is read for the last time in the step that writes the other: both belong to that step."
    elif few:
        yield "They overlap by a few bytes only: is an end rounded down?"
    elif begins < first and last < ends:
        yield f"Tensor {k} lives only while tensor {j} does: neither of {j}'s two steps lies between those of {k}."
    elif first < begins and ends < last:
        yield f"Tensor {j} lives only while tensor {k} does: neither of {k}'s two steps lies between those of {j}."
    if not pairs or compares:
        gap = "look at the search for a gap: from block to block, a place only grows"
        yield f"If your comparison of steps is right, {gap}."


LIVES = [(a, b) for a in range(3) for b in range(a, 3)]
PAIRS = [[(64, *one), (32, *other)] for one in LIVES for other in LIVES]
LOWER = [(256, 0, 1), (192, 1, 2), (112, 3, 3), (96, 2, 3)]  # by size, 1 lies on 0, 2 at byte 0: no room for 3 there
SMALLER = [(208, 0, 0), (96, 1, 1), (64, 1, 1), (48, 0, 1)]  # by size, 2 lies on 1, both below the end of 0


def _of_the_search() -> str:
    """What small lists show of the learner's search for a gap, if two tensors alone never meet.

    The lists tell only of a function that places the largest tensor first, and puts it at the lowest place.
    """
    alone = "Of two tensors alone, those that live together never overlap, so look at the search for a gap"
    lower, smaller = [offsets for offsets, _ in _plans_of([LOWER, SMALLER])] or (None, None)
    if smaller == [0, 0, 96, 160]:
        return f"{alone}: from block to block, a place only grows."
    if lower == [0, 256, 0, 0]:
        return (
            f"{alone}. Of {LOWER}, your function puts the last tensor at byte 0, where the third lies: there is room "
            "below the second, but a search may end at a block only if none of those after it lies lower. "
            "Walk the blocks by their offsets, the lowest first."
        )
    return f"{alone}."


ORDERS = {  # in which the tensors (size, first, last) may have been placed
    "from the largest to the smallest": lambda t: -t[0],
    "from the smallest to the largest": lambda t: t[0],
    "by the step that writes them": lambda t: t[1],
    "by the step that writes them, the latest first": lambda t: -t[1],
    "by the step that reads them last": lambda t: t[2],
    "by the step that reads them last, the latest first": lambda t: -t[2],
    "from the longest life to the shortest": lambda t: t[1] - t[2],
    "from the shortest life to the longest": lambda t: t[2] - t[1],
    "from the largest size times life to the smallest": lambda t: t[0] * (t[1] - t[2] - 1),
    "from the last in the list to the first": None,
}


def _more_plans() -> list:
    """What the learner's function says about more tensors, which have no size, step or life twice: (offsets, tensors).

    What one plan shows may be chance; what all of them show is not. [] outside of a check, and if it raises.
    """
    return _plans_of(_all_different(np.random.default_rng(17)))


def _plans_of(sets) -> list:
    """(offsets, tensors) of each list, as the learner's function plans it; [] outside of a check, and if it raises."""
    function, plans = evidence.learners_function(), []
    with suppress(Exception), learners_names(), redirect_stdout(io.StringIO()):
        plans = [([int(place) for place in function(list(tensors))], tensors) for tensors in sets]
    return plans if all(len(offsets) == len(tensors) for offsets, tensors in plans) else []


def _other_order(plans) -> str:
    """A sentence if the plans are right, but in another order than the tensors'; else ""."""
    if not any(_overlapping(*plan) for plan in plans):
        return ""
    for words, key in ORDERS.items():
        if all(_fits_in_order(*plan, key) for plan in plans):
            return (
                f"The places are right, but in the order of placing: they fit the tensors {words}. "
                "Return them in the order of the list: the first one is the place of tensors[0]."
            )
    return ""


def _fits_in_order(offsets, tensors, key) -> bool:
    """Is offsets[i] a good place for the tensor that is number i in this order?"""
    ordered = sorted(tensors, key=key) if key else tensors[::-1]
    return _overlapping(offsets, ordered) is None


def _all_different(rng, n=10):
    """Eight lists of n tensors with different sizes, first steps, last steps, lives and products of size and life."""
    found = []
    while len(found) < 8:
        size, first, life = rng.permutation(np.arange(30, 240, 3))[:n], rng.permutation(2 * n)[:n], rng.permutation(n)
        if all(len(set(some)) == n for some in ((first + life).tolist(), (size * (life + 1)).tolist())):
            found.append([(int(s), int(a), int(a + more)) for s, a, more in zip(size, first, life)])
    return found


def demand(name, plans, most, where) -> float:
    """The mean of array over floor; WrongAnswer above `most`. plans: (offsets, tensors) of several sets of tensors."""
    share = float(np.mean([needed(*plan) / floor(plan[1]) for plan in plans]))
    if share <= most:
        return share
    why, left = f"The goal is at most {most}.", _left_over(*plans[-1])
    if left:
        why = f"{why}\n{left}"
    elif all(needed(offsets, tensors) >= 0.98 * sum(size for size, _, _ in tensors) for offsets, tensors in plans):
        why = f"That is all of them one after the other: nothing is used twice. {why}"
    sentence = f"no two tensors meet, but the plan of {name} takes {share:.2f} times the floor. {why}"
    raise WrongAnswer(f"{sentence}\n→ Where to look: {where}.")


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
