"""Lesson 17: why do two tensors of a plan overlap, and why is a plan large? More plans of the learner's function tell.

A tensor is (size, first, last), a plan (offsets, tensors). A sentence tells what such plans showed; each cause that it
names has been tried.
"""

import io
from contextlib import redirect_stdout, suppress
from itertools import accumulate

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.explain import stopped
from llmc.course.old.checks.leftovers import of_same_call
from llmc.course.own_names import learners_names

LIVES = [(a, b) for a in range(3) for b in range(a, 3)]
PAIRS = [[(64, *one), (32, *other)] for one in LIVES for other in LIVES]
ALIKE = {  # two tensors each
    "size": [(64, 0, 1), (64, 1, 2)],
    "steps": [(64, 0, 1), (48, 0, 1)],
    "size and the same steps": [(64, 0, 1), (64, 0, 1)],
}
NARROW = [(160, 0, 0), (144, 0, 1), (112, 1, 1), (96, 1, 1)]  # by size, 2 lies at byte 0: 48 bytes are free up to 1
BELOW = [(160, 0, 0), (144, 0, 1), (112, 1, 1)]  # by size, 1 lies on 0, whose place is free in step 1
LOWER = [(256, 0, 1), (192, 1, 2), (112, 3, 3), (96, 2, 3)]  # by size, 1 lies on 0, 2 at byte 0: no room for 3 there
SMALLER = [(208, 0, 0), (96, 1, 1), (64, 1, 1), (48, 0, 1)]  # by size, 2 lies on 1, both below the end of 0
ODD = [(size, 0, 0) for size in (20, 75, 38, 54, 49, 65)]  # they all live together, and each ends between two multiples
SPLIT = [(320, 0, 0), (160, 1, 1), (144, 1, 1)]  # the last two have room in the bytes of the first
JOINED = [(160, 0, 0), (144, 0, 0), (304, 1, 1)]  # the last one has room in the bytes of the first two


def floor(tensors) -> int:
    """The largest sum of sizes that live in one step."""
    steps = {first for _, first, _ in tensors}
    return max(sum(size for size, first, last in tensors if first <= step <= last) for step in steps)


def needed(offsets, tensors) -> int:
    """Bytes of the array."""
    return max(int(offset) + size for offset, (size, _, _) in zip(offsets, tensors))


def times_the_floor(plans) -> float:
    """The mean of array over floor."""
    return float(np.mean([needed(*plan) / floor(plan[1]) for plan in plans]))


def overlapping(offsets, tensors):
    """The first two tensors (j, k), j < k, that share a byte while both live; None if there are none."""
    for k, (size, first, last) in enumerate(tensors):
        for j in range(k):
            other, begins, ends = tensors[j]
            meet = offsets[j] < offsets[k] + size and offsets[k] < offsets[j] + other
            if meet and first <= ends and begins <= last:
                return j, k
    return None


def _plans_of(sets) -> list:
    """(offsets, tensors) of each list, as the learner's function plans it; [] outside of a check, and if it raises."""
    function, plans = evidence.learners_function(), []
    with suppress(Exception), learners_names(), redirect_stdout(io.StringIO()):
        plans = [([int(place) for place in function(list(tensors))], tensors) for tensors in sets]
    return plans if all(len(offsets) == len(tensors) for offsets, tensors in plans) else []


def _left_over(offsets, tensors) -> str:
    """A sentence if the learner's function now plans the same tensors otherwise; "" if it does not."""
    function = evidence.learners_function()
    with redirect_stdout(io.StringIO()):
        said = of_same_call(function, (list(tensors),), offsets) if function else None
    return f"{said[0].upper()}{stopped(said[1:])}" if said else ""


# ------------------------------------------------------------------------------------------------------------- overlaps


def of_overlap(offsets, tensors):
    """Sentences about why tensors of this plan overlap; none where nothing is known."""
    tries = _of_twins, _other_order, _of_steps, _of_rounding, _of_the_search
    said = _left_over(offsets, tensors) or next(filter(None, (look() for look in tries)), "")
    return [said] if said else []


def _of_twins() -> str:
    """A sentence if tensors that are alike in something get one place, and only such overlap; else ""."""
    plans, alike = _plans_of(_all_different(np.random.default_rng(17))), _plans_of(ALIKE.values())
    if not plans or any(overlapping(*plan) for plan in plans):
        return ""
    for what, (offsets, tensors) in zip(ALIKE, alike):
        if offsets[0] == offsets[1]:
            return (
                f"Tensors of the same {what} get the same place, as the two of {tensors}; of tensors that differ in "
                "sizes and steps, none overlap."
            )
    return ""


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


def _other_order() -> str:
    """A sentence if plans are right, but in another order than the tensors'; else ""."""
    plans = _plans_of(_all_different(np.random.default_rng(17)))
    if not any(overlapping(*plan) for plan in plans):
        return ""
    for words, key in ORDERS.items():
        if all(_fits_in_order(*plan, key) for plan in plans):
            return f"The places are right, but not in the order of the list: they fit the tensors {words}."
    return ""


def _fits_in_order(offsets, tensors, key) -> bool:
    """Is offsets[i] a good place for the tensor that is number i in this order?"""
    ordered = sorted(tensors, key=key) if key else tensors[::-1]
    return overlapping(offsets, ordered) is None


def _all_different(rng, n=10):
    """Eight lists of n tensors with different sizes, first steps, last steps, lives and products of size and life."""
    found = []
    while len(found) < 8:
        size, first, life = rng.permutation(np.arange(30, 240, 3))[:n], rng.permutation(2 * n)[:n], rng.permutation(n)
        if all(len(set(some)) == n for some in ((first + life).tolist(), (size * (life + 1)).tolist())):
            found.append([(int(s), int(a), int(a + more)) for s, a, more in zip(size, first, life)])
    return found


RELATIONS = {  # of the lives (a, b) of a tensor and (c, d) of another
    "of which the {one} begins first": lambda a, b, c, d: a < c,
    "of which the {one} ends last": lambda a, b, c, d: b > d,
    "of which the {one} begins in the other's last step": lambda a, b, c, d: a == d,
    "of which the {one} begins first and ends last": lambda a, b, c, d: a < c and d < b,
    "that begin in different steps": lambda a, b, c, d: a != c,
    "that end in different steps": lambda a, b, c, d: b != d,
    "that begin in the same step": lambda a, b, c, d: a == c,
    "that end in the same step": lambda a, b, c, d: b == d,
    "that live in the same steps": lambda a, b, c, d: (a, b) == (c, d),
    "that do not live in the same steps": lambda a, b, c, d: (a, b) != (c, d),
}
BOTH_ENDS = "Two lives meet if each begins no later than the other ends."


def _of_steps() -> str:
    """A sentence if two tensors alone overlap: which are those? Else ""."""
    plans = [plan for plan in _plans_of(PAIRS) if overlapping(*plan)]
    lives = [[tensor[1:] for tensor in tensors] for _, tensors in plans]
    if not lives:
        return ""
    together = [[one, other] for one in LIVES for other in LIVES if one[0] <= other[1] and other[0] <= one[1]]
    if lives == together:
        at_0 = ": both lie at byte 0" * (not any(place for offsets, _ in plans for place in offsets))
        return f"Of two tensors alone, all overlap that live together, whatever their steps{at_0}."
    if which := _exactly(lives, together):
        return f"Of two tensors alone that live together, just those overlap {which}. {BOTH_ENDS}"
    if all(b == c or a == d for (a, b), (c, d) in lives):
        which = "of which one is read for the last time in the step that writes the other"
        return f"Of two tensors alone, only such overlap {which}: both belong to that step."
    if all(a < c and d < b or c < a and b < d for (a, b), (c, d) in lives):
        which = "of which one lives only while the other does"
        return f"Of two tensors alone, only such overlap {which}: it begins later and ends earlier than that."
    if all(max(a, c) == min(b, d) for (a, b), (c, d) in lives):
        return (
            f"Of two tensors alone, only such overlap, {len(lives)} pairs, as live together in a single step, in which "
            "one of them is read for the last time: it still needs its place in that step."
        )
    shown = " and ".join(f"steps {a} to {b}" for a, b in lives[0])
    return f"Of two tensors alone, {len(lives)} of the {len(together)} pairs that live together overlap, as {shown}."


def _exactly(lives, together) -> str:
    """Words for the pairs of lives, of the larger and of the smaller tensor, of which all overlap, and no others.

    They hold for a list that begins with the smaller one, too; where only the place in the list counts, "".
    """
    turned = [plan for plan in _plans_of([pair[::-1] for pair in PAIRS]) if overlapping(*plan)]
    if [[larger[1:], smaller[1:]] for _, (smaller, larger) in turned] != lives:
        return ""
    for words, holds in RELATIONS.items():
        for which, order in (("larger", 1), ("smaller", -1)):
            if lives == [pair for pair in together if holds(*pair[::order][0], *pair[::order][1])]:
                return words.format(one=which)
    return ""


def _up(place, unit=16):
    return -(-place // unit) * unit


ROUNDED = {  # places of tensors (sizes) that are put one behind the other
    "the sums of the sizes as they are, rounded up to 16 only afterwards": lambda sizes: [
        _up(place) for place in (0, *accumulate(sizes))
    ],
    "the sums of the sizes rounded DOWN to multiples of 16": lambda sizes: [
        0,
        *accumulate(size // 16 * 16 for size in sizes),
    ],
    "the sums of the sizes rounded to the NEAREST multiple of 16": lambda sizes: [
        0,
        *accumulate(round(size / 16) * 16 for size in sizes),
    ],
    "the sums of the sizes less one, rounded up to 16: a tensor of 17 bytes takes 32": lambda sizes: [
        0,
        *accumulate(_up(size - 1) for size in sizes),
    ],
}


def _of_rounding() -> str:
    """A sentence if plans are right as soon as all sizes are multiples of 16, and not before; else ""."""
    tensors = _all_different(np.random.default_rng(17))
    plans = _plans_of([[(16 * size, *life) for size, *life in each] for each in tensors])
    odd = _plans_of([ODD, *tensors])
    if not plans or any(overlapping(*plan) for plan in plans) or not any(overlapping(*plan) for plan in odd):
        return ""
    said = "With sizes that are multiples of 16, your plans never overlap."
    (offsets, _), order = odd[0], sorted(range(len(ODD)), key=lambda k: odd[0][0][k])
    sizes = [ODD[k][0] for k in order]
    for words, places in ROUNDED.items():
        if places(sizes)[:-1] == sorted(offsets):
            return f"{said} Of tensors that all live together, your places are {words}."
    return said


def _of_the_search() -> str:
    """What small lists show of the learner's search for a gap, if two tensors alone never meet.

    The lists tell only of a function that places the largest tensor first, and puts it at the lowest place.
    """
    if not _plans_of(PAIRS):
        return ""
    alone = "Of two tensors alone, those that live together never overlap: it takes more of them"
    lower, smaller, narrow = [offsets for offsets, _ in _plans_of([LOWER, SMALLER, NARROW])] or (None, None, None)
    if narrow == [0, 160, 0, 112]:
        return (
            f"{alone}. Of {NARROW}, your function puts the last tensor, of 96 bytes, at byte 112: only 48 bytes are "
            "free there, up to the second. A gap must be as large as the tensor."
        )
    if smaller == [0, 0, 96, 160]:
        return (
            f"{alone}. Of {SMALLER}, your function puts the last tensor at byte 160, where the third ends and the "
            "first still lies."
        )
    if lower == [0, 256, 0, 0]:
        return (
            f"{alone}. Of {LOWER}, your function puts the last tensor at byte 0, where the third lies; below the "
            "second, the bytes 112 to 255 are free."
        )
    return f"{alone}."


# ---------------------------------------------------------------------------------------------------------------- sizes


def of_size(plans, most) -> list:
    """Sentences about why these plans are larger than `most` times the floor."""
    if left := _left_over(*plans[-1]):
        return [left]
    if all(needed(offsets, tensors) >= 0.98 * sum(size for size, _, _ in tensors) for offsets, tensors in plans):
        return ["That is all of them one after the other: nothing is used twice."]
    if slots := _of_slots():  # of what is never used again, another order may hide a part
        return [slots, *filter(None, [_of_gaps()])]
    return [*filter(None, (_of_the_order([tensors for _, tensors in plans], most), _of_gaps()))]


def _of_the_order(sets, most) -> str:
    """A sentence if the same tensors in another order give small plans, or if the small ones are placed first."""
    turned, alone = _plans_of([sorted(tensors, reverse=True) for tensors in sets]), _plans_of([ODD])
    if turned and times_the_floor(turned) <= most:
        share = f"{times_the_floor(turned):.2f} times the floor"
        return f"With the same tensors listed from the largest to the smallest your function takes {share}."
    sizes = [size for _, (size, *_) in sorted(zip(*alone[0]))] if alone else []
    if sizes == sorted(sizes) != []:
        return "Of tensors that all live together, your function puts the smallest at byte 0 and the largest last."
    return ""


def _of_slots() -> str:
    """A sentence if the bytes of one tensor never serve two later ones, or those of two a larger one; else ""."""
    wasteful = [tensors for offsets, tensors in _plans_of([SPLIT, JOINED]) if needed(offsets, tensors) > floor(tensors)]
    said = []
    if SPLIT in wasteful:
        said.append("two tensors of 160 and 144 bytes are not both put where one of 320 bytes has lived before")
    if JOINED in wasteful:
        said.append("one of 304 bytes is not put where two of 160 and 144 bytes have lived, side by side")
    return f"Of three tensors alone, {', and '.join(said)}." if said else ""


def _of_gaps() -> str:
    """A sentence if room below a tensor is never used; else ""."""
    if [offsets for offsets, _ in _plans_of([BELOW])] != [[0, 160, 304]]:
        return ""
    return (
        f"Of {BELOW}, your function puts the last tensor at byte 304, above the second, though the 160 bytes below the "
        "second are free in step 1."
    )
