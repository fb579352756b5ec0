"""Is a single number too large, or too small, by the length of an axis, here and in other calls? A sum for a mean."""

import math
from contextlib import suppress

import numpy as np

from llmc.course.own_names import learners_names

LIKE = 1e-5  # relative: as near as two such numbers must be
MORE = 8  # calls that are looked at
FOR_MEAN = "is a sum not divided by it?"
ONCE_MORE = "is a division made, or a mean taken, once too often?"
SEVERAL = 2  # different factors that tell a length from a number that happens to be as large


def times_a_length(name, got, function, right, last, more) -> str | None:
    """A sentence about a number `got` of the call `last`, of which the right one is what right() gives; or None.

    function: the learner's; right(): our solution's function. more: other calls.
    """
    if np.ndim(got):
        return None
    ratios, lengths = [], []  # of each call: the factor, and {words: number} of what that may be
    for call in [last, *more][:MORE]:
        with suppress(Exception), learners_names():
            mine, its = call.run(function), call.run(right())
            places = [k for k, value in enumerate(mine) if not np.ndim(value) and not isinstance(value, np.ndarray)]
            k = places[0] if len(places) == 1 else mine.index(got)
            ratio = float(mine[k]) / float(its[k])
            if math.isfinite(ratio) and ratio:
                ratios.append(ratio)
                lengths.append(_lengths(call.named(function)))
    if len(ratios) < SEVERAL or math.isclose(ratios[0], 1, rel_tol=LIKE):
        return None
    for words in lengths[0]:
        numbers = [found.get(words, 0) for found in lengths]
        if len(set(numbers)) < SEVERAL or not all(numbers):
            continue
        if all(math.isclose(r, n, rel_tol=LIKE) for r, n in zip(ratios, numbers)):
            return f"{name} is {numbers[0]} times what it should be, {words}, and so in other calls: {FOR_MEAN}"
        if all(math.isclose(r * n, 1, rel_tol=LIKE) for r, n in zip(ratios, numbers)):
            return f"{name} is 1/{numbers[0]} of what it should be, with {words}, and so in other calls: {ONCE_MORE}"
    if all(math.isclose(r, ratios[0], rel_tol=LIKE) for r in ratios):
        return f"{name} is {ratios[0]:.6g} times what it should be, here and in other calls"
    return None


def _lengths(named) -> dict:
    """{words: how many} of the axes of the arrays among these arguments, and of the first axes together."""
    found = {}
    for name, value in named.items():
        if isinstance(value, np.ndarray):
            found |= {f"the length of axis {k} of `{name}`": n for k, n in enumerate(value.shape)}
            for k in range(2, value.ndim):
                found[f"the product of the first {k} lengths of `{name}`"] = math.prod(value.shape[:k])
            found[f"the number of entries of `{name}`"] = value.size
    return found
