"""Where no known mistake fits: which rows or columns are wrong, and what the wrong entries have in common."""

import math
import warnings

import numpy as np

from llmc.course.old.checks.case import Case

FEW = 6  # indices that a sentence lists
CHANCE = 1e-3  # that entries are right by chance, of which a sentence may say that they are right
MOST = 0.9  # of the entries of whole float4s, to be called wrong as a whole
NEARLY = 1e-3  # of the largest entry: errors smaller than this come from inexact numbers
LANES = 32  # of a warp, each of which may take every 32nd entry of a row
FEWEST = 3  # numbers of an input that others hardly equal by chance
LIKE_INPUT = 0.02  # of a number, by which a difference of large numbers may miss it
NOTHING = 1e-3  # a factor that is no mistake: all of the right numbers is lost
STEADY = 1e-3  # ratios or differences that vary by less than this share are one number


def narrowed(case: Case, lanes=False, launch=None, cause=(), inputs=None) -> list[str]:
    """A few sentences; none of them says more than the numbers do.

    Where an entry is wrong for one of two bounds alone, the check's and that of rounding, its place is not spoken of.

    cause: sentences about it that rest on other evidence. lanes: were they made by the lanes of warps? launch: the
    kernel's (blocks, threads of a block) along x. inputs: {name: value} of the call's arguments.
    """
    wrong, _ = _wrong(case)
    if not wrong.any() or wrong.ndim == 0:
        return []
    if cause:
        return [*nearly(case, cause)] or [*cause]
    refused = wrong if case.refused is None else case.refused
    places = [_places(each, case.expected != 0, launch) for each in (wrong, refused)]
    where = places[0] if places[0] == places[1] else []
    return [*nearly(case), *where, *_in_common(case, wrong | refused, lanes, inputs or {})]


def _places(wrong, counts, launch) -> list[str]:
    """Sentences on where the wrong entries are."""
    return [*_where(wrong, counts, launch)] or _from_on(wrong)


def nearly(case: Case, cause=()) -> list[str]:
    """Sentences if the wrong entries are nearly right: then no term is missing. cause: what evidence says of it."""
    wrong, scale = _wrong(case)
    error, size = np.abs(case.got - case.expected)[wrong], np.abs(case.expected)[wrong]
    if wrong.ndim == 0 or not wrong.any() or error.max() > NEARLY * scale:
        return []
    if np.median(error) > 10 * NEARLY * np.median(size):
        return []
    told = f"It is nearly right, up to {error.max() / scale:.1g} of the largest entry"
    return [f"{told}.", *cause]


def _wrong(case):
    """(which entries are wrong, the largest entry)."""
    scale = np.abs(case.expected[np.isfinite(case.expected)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):  # inf - inf
        return np.abs(case.got - case.expected) > case.rounding * scale, scale


def _where(wrong, counts, launch):
    """ "Along axis 1 it is wrong only at index 3." for every axis along which some slices are right.

    counts: entries that are not right by chance, as zeros are. launch: a kernel's, as above.
    """
    for axis, length in enumerate(wrong.shape):
        others = tuple(k for k in range(wrong.ndim) if k != axis)
        bad = np.flatnonzero(wrong.any(axis=others))
        right = np.setdiff1d(np.flatnonzero(counts.any(axis=others)), bad)
        if len(right) and (len(bad) == 1 or not _by_chance(wrong, counts, axis, bad, right)):
            few = len(right) <= FEW < len(bad) == length - len(right) and (np.diff(bad) > 1).any()
            what = f"right only at {_indices(right, length)}" if few else f"wrong only at {_indices(bad, length)}"
            last = launch is not None and axis == wrong.ndim - 1
            yield f"Along axis {axis} it is {what}{_share(wrong, counts, bad, *launch) if last else '.'}"


def _from_on(wrong):
    """A sentence if all is right up to some entry, counted row after row, and nearly nothing from there on."""
    flat = wrong.ravel()
    first = int(flat.argmax())
    if wrong.ndim > 1 and (1 - flat[first:].mean()) ** first < CHANCE and first >= FEW:
        at = [int(i) for i in np.unravel_index(first, wrong.shape)]
        return [f"Counted row after row, the first {first} of {flat.size} are right; the wrong ones begin at {at}."]
    return []


def _share(wrong, counts, bad, blocks, threads) -> str:
    """Which of a kernel's threads have the bad indices of the last axis: those of float4s, or with a second number."""
    length = wrong.shape[-1]
    whole = length // 4 * 4
    if blocks > 1 and np.array_equal(bad, np.arange(blocks * threads, length)):
        second = f"those from gridDim.x * blockDim.x = {blocks * threads} on, from the second turn of a loop on"
        return f": {second}."
    if np.array_equal(bad, np.arange(threads, length)):
        return f": those from blockDim.x = {threads} on."
    share = wrong[..., :whole].sum() / max(counts[..., :whole].sum(), 1)
    if bad[-1] >= whole or share < MOST or (1 - min(share, 1)) ** counts[..., whole:].sum() > CHANCE:
        return "."
    return ": in the whole fours, and not behind them."


def _by_chance(wrong, counts, axis, bad, right) -> bool:
    """Could so few right slices be right by chance, as a target is that happens to be the one next to it?"""
    share = wrong.take(bad, axis).sum() / max(counts.take(bad, axis).sum(), 1)
    return (1 - min(share, 1)) ** counts.take(right, axis).sum() > CHANCE


def _indices(bad, length) -> str:
    """ "index 3", "indices 0, 2, 4", "indices 5 to 32, the last", "the even indices"."""
    if len(bad) == 1:
        end = {0: ", the first", length - 1: ", the last"}.get(int(bad[0]), "")
        return f"index {bad[0]}{end}"
    if (np.diff(bad) == 1).all():
        return f"indices {bad[0]} to {bad[-1]}" + (", the last" if bad[-1] == length - 1 else "")
    for start, word in ((0, "even"), (1, "odd")):
        if np.array_equal(bad, np.arange(start, length, 2)):
            return f"the {word} indices"
    listed = ", ".join(map(str, bad[:FEW]))
    return f"indices {listed}" + (f", … ({len(bad)} of {length})" if len(bad) > FEW else "")


def _in_common(case, wrong, lanes, inputs):
    """What got / expected, or got - expected, does along an axis: the same number everywhere, or one in each row."""
    if not case.held[wrong].any():
        yield "Each wrong entry is 0."
        return
    finite = np.isfinite(case.expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(finite & (case.expected != 0), case.got / case.expected, np.nan)
        difference = np.where(finite, case.got - case.expected, np.nan)
    for word, values in (("times", ratio), ("plus", difference)):
        if lanes and _same_for_lanes(values, wrong, word):
            apart = f"entries {LANES} apart are the right ones {word} the same number, and neighbours differ"
            yield f"Along the last axis, {apart}: what is wrong differs from lane to lane."
            return
        for axis in reversed(range(values.ndim)):
            sentence = _steady_along(values, wrong, axis, word)
            if sentence:
                yield sentence
                yield from _is_input(values, axis, word, inputs)
                return


def _is_input(values, axis, word, inputs):
    """A sentence if these ratios or differences, the same along `axis`, are an input's numbers, or some times those."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a slice may be NaN altogether
        middle = np.nanmedian(values, axis=axis)
    for name, array in inputs.items():
        vector = isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.ndim == 1
        if not vector or middle.shape[-1:] != array.shape or len(array) < FEWEST or np.ptp(array) == 0:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            times = (middle / array).ravel()
        times = times[np.isfinite(times)]
        k = round(float(np.median(times))) if len(times) else 0
        if k and (k == 1 or word == "plus") and np.abs(times - k).max() <= LIKE_INPUT * abs(k):
            yield _said_of_input(name, k, word)
            return


def _said_of_input(name, k, word) -> str:
    if word == "times":
        return f"That is `{name}`: is it multiplied by `{name}` once more than it should?"
    if k == -1:
        return f"That is `{name}` with a minus: `{name}` is not added, or once too rarely."
    again = "once more" if k == 1 else f"{k} times more" if k > 0 else f"{-k} times too rarely"
    return f"That is {f'{k} · ' * (k != 1)}`{name}`: it is added {again}{' than it should' * (k > 0)}."


def _same_for_lanes(values, wrong, word) -> bool:
    """Do the values vary along the last axis, but not between every 32nd entry?"""
    rows, length = math.prod(values.shape[:-1]), values.shape[-1]
    whole = length // LANES * LANES
    if whole < 3 * LANES or _steady_along(values, wrong, values.ndim - 1, word):
        return False
    by_turn = (array[..., :whole].reshape(rows, -1, LANES) for array in (values, wrong))
    return _steady_along(*by_turn, 1, word) is not None


def _steady_along(values, wrong, axis, word):
    """A sentence if the values vary between the slices along `axis`, but not along it; else None."""
    if values.shape[axis] < 3:
        return None
    values = np.where(wrong, values, np.nan)
    rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
    rows = rows[np.isfinite(rows).any(axis=1)]
    if not (np.isfinite(rows).sum(axis=1) >= 3).any():
        return None
    middle = np.nanmedian(rows, axis=1)
    if word == "times" and np.abs(middle).max() < NOTHING:
        return None  # nothing but rounding is left of the right numbers
    far = np.abs(middle - 1) if word == "times" else np.abs(middle)  # a factor of 1 is no mistake
    if (np.nanmax(np.abs(rows - middle[:, None]), axis=1) > STEADY * far + 1e-12).any():
        return None
    if np.ptp(middle) <= STEADY * np.abs(middle).max():
        if not (np.abs(values[wrong] - middle[0]) <= STEADY * far[0] + 1e-12).all():  # also in rows with fewer of them
            return None
        return f"Each wrong entry is the right one {word} {middle[0]:.6g}."
    each = ", ".join(f"{value:.4g}" for value in middle[:3])
    return (
        f"Along axis {axis} every wrong entry is the right one {word} the same number, which differs elsewhere: "
        f"{each}{', …' if len(middle) > 3 else '.'}"
    )
