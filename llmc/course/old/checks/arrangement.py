"""Signatures of the right numbers in the wrong places, and of positions that see the future. See `signatures.py`."""

import ast

import numpy as np

from llmc.course.old.checks import evidence, text
from llmc.course.old.checks.case import LIKE, Case, same

FEW = 6  # entries; fewer of them may be alike by chance
FAR = 30  # times as far from its place as from the number that it should be
MANY = 1_000_000  # entries; larger arrays are not searched


def off_by_one(case: Case):
    """Shifted by one along an axis; the entry at the end may wrap around or be anything."""
    for axis, length in enumerate(case.got.shape):
        if length < 3:
            continue
        first, last = np.arange(length - 1), np.arange(1, length)
        for here, there, word in ((first, last, "next"), (last, first, "previous")):
            got, wanted = case.got.take(here, axis), case.expected.take(there, axis)
            if got.size >= 3 and same(got, wanted) and not same(wanted, case.expected.take(here, axis)):
                return f"{case.what} is off by one along axis {axis}: each index holds what belongs to the {word} one"
    return None


def other_order(case: Case):
    """The slices along one axis are right, but in another order."""
    for axis in range(case.got.ndim):
        order = _order_of(np.moveaxis(case.got, axis, 0), np.moveaxis(case.expected, axis, 0))
        if order is not None:
            return f"{case.what} is right, except for the order along axis {axis}: {_permutation(order)}"
    return None


def _order_of(got, expected):
    """order with got[i] = expected[order[i]], or None. (n, …) each."""
    n = len(got)
    if n < 2 or got.size < 3 or got.size > MANY or not _distinct(expected):
        return None
    weights = np.random.default_rng(0).uniform(
        1, 2, got[0].size
    )  # one random projection of each slice, to sort them by
    mine, theirs = (array.reshape(n, -1) @ weights for array in (got, expected))
    by_mine, by_theirs = mine.argsort(kind="stable"), theirs.argsort(kind="stable")
    if not same(got[by_mine], expected[by_theirs]):
        return None
    if np.abs(got - expected).max() <= FAR * np.abs(got[by_mine] - expected[by_theirs]).max():
        return None  # only inexact
    order = np.empty(n, int)
    order[by_mine] = by_theirs
    return order if (order != np.arange(n)).any() else None


def _distinct(array) -> bool:
    """Do most of its numbers differ from each other? Zeros and ones are in some order by chance."""
    return np.count_nonzero(np.diff(np.sort(array, axis=None))) > array.size / 2


def _permutation(order) -> str:
    n = len(order)
    if (order == np.arange(n)[::-1]).all() and n > 2:
        return "it is reversed"
    if n > 8:
        return "its entries are permuted"
    return f"0, 1, … hold what belongs to {', '.join(map(str, order))}"


def _head_counts(case: Case):
    """Ways to cut the last axis, C, into n heads; the NH that the check named comes first."""
    length = case.got.shape[-1] if case.got.ndim else 0
    named = [n for name, n in case.sizes.items() if name == "NH"]
    counts = [n for n in (*named, *range(2, length)) if 1 < n < length and length % n == 0]
    return dict.fromkeys(counts if case.got.size <= MANY else [])


def names(*words) -> bool:
    """Does the text of the learner's function have one of these words? Where nobody knows the text, it may."""
    function = evidence.learners_function()
    tree = text.tree_of(function)
    return function is None or tree is not None and any(word in ast.unparse(tree) for word in words)


def _may_have_heads() -> bool:
    """Has the learner's function heads, NH of them? A kernel's arguments are not known by name."""
    return "NH" in evidence.inputs() or not evidence.of_arrays() or evidence.running() is None


def interleaved_heads(case: Case):
    """(…, T, C) whose heads were merged or split by a reshape without the transpose that belongs to it.

    Rows that are equal, as those of several ranks, show no order. A matrix has no heads unless the check names NH.
    """
    shape = case.got.shape
    for n in _head_counts(case) if _distinct(case.expected) else ():
        hs = shape[-1] // n
        by_head = case.expected.reshape(*shape[:-1], n, hs)  # (…, T, n, hs)
        heads = "NH" in case.sizes or len(shape) > 2 and _may_have_heads()
        if same(by_head.swapaxes(-1, -2).reshape(shape), case.got):
            if not heads:
                return f"{case.what} has its last axis in the order ({hs}, {n}) instead of ({n}, {hs})"
            return f"{case.what} has its channels in the order (hs, NH) instead of (NH, hs), with NH = {n}"
        if len(shape) < 2:
            continue
        if not heads:
            if same(by_head.swapaxes(0, 1).reshape(shape), case.got):
                return f"{case.what} is ({n}, {shape[0]}, {hs}) reshaped to {shape}: exchange its first two axes before"
            continue
        if same(by_head.swapaxes(-2, -3).reshape(shape), case.got):
            cause = "(NH, T, hs) was reshaped to (T, C): move the head axis behind T first"
            return f"{case.what} has its heads interleaved with its positions, with NH = {n}; {cause}"
        cut = case.expected.reshape(*shape[:-2], n, shape[-2], hs)  # (…, n, T, hs)
        if same(cut.swapaxes(-2, -3).reshape(shape), case.got):
            cause = "(T, C) was reshaped to (NH, T, hs): make it (T, NH, hs), then move the head axis"
            return f"{case.what} has its heads interleaved with its positions, with NH = {n}; {cause}"
    return None


def reordered_blocks(case: Case):
    """The last axis consists of blocks (q, k and v; heads) that are right, but in another order."""
    for n in (*(n for n in (3,) if n in _head_counts(case)), *_head_counts(case)):
        blocks = (*case.got.shape[:-1], n, case.got.shape[-1] // n)
        got, expected = (np.moveaxis(array.reshape(blocks), -2, 0) for array in (case.got, case.expected))
        order = _order_of(got, expected)
        if order is not None:
            return f"{case.what} has the {n} blocks of its last axis in another order: {_permutation(order)}"
    return None


def scattered(case: Case):
    """Every number is there, but in the wrong place; only for arrays most of whose numbers differ from each other."""
    got, expected = np.sort(case.got, axis=None), np.sort(case.expected, axis=None)
    moved = np.abs(case.got - case.expected).max() > 1e3 * np.abs(got - expected).max()  # else they are only inexact
    if 6 <= got.size <= MANY and _distinct(expected) and moved and np.allclose(got, expected, rtol=1e-6, atol=0):
        return f"{case.what} has the right numbers in the wrong places"
    return None


def one_for_all(case: Case) -> list[str]:
    """A sentence if each row, or column, of two or more numbers holds one number only, and should not; or []."""
    for axis in range(case.got.ndim) if case.got.ndim > 1 and case.got.size >= FEW else ():
        apart = [np.ptp(array, axis=axis) > LIKE * np.abs(array).max(axis=axis) for array in (case.got, case.expected)]
        if case.got.any() and not apart[0].any() and apart[1].all():
            what = f"What was added to {case.name} is the same" if case.adds else "It holds one number"
            return [f"{what} at all indices of axis {axis}, and each should have its own."]
    return []


def _constant_in_rows(difference) -> bool:
    """Is the same number added to every entry of a row? Then it says nothing about the future."""
    return same(difference, np.broadcast_to(difference[..., :1], difference.shape))


def leaking(case: Case):
    """Later positions leak: entries above the diagonal of (…, T, T) that should be 0."""
    if case.got.ndim < 2:
        return None
    T, n = case.got.shape[-2:]
    wrong = np.abs(case.got - case.expected) > LIKE * np.abs(case.expected).max()
    above = np.triu(np.ones((T, n), bool), 1)
    zero_above = T == n >= 2 and case.expected.any() and not case.expected[..., above].any()
    if zero_above and wrong[..., above].any() and not _constant_in_rows(case.got - case.expected):
        leaks = np.abs(case.got) > 1e-12 * np.abs(case.expected).max()  # also where it is far too little to be wrong
        first = [int(i) for i in np.argwhere(leaks & above)[0]]
        where = f"it is not 0 above the diagonal, where a position looks at later ones, the first at {first}"
        return f"{case.name} has wrong values: {where}"
    return None
