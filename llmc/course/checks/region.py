"""Where no explainer finds the mistake: which rows or columns are wrong, and what the wrong entries have in common."""

import numpy as np

from llmc.course.checks.comparison import Difference

FEW = 6  # indices that a sentence lists
CHANCE = 1e-3  # that entries are right by chance, of which a sentence may say that they are right
NEARLY = 1e-3  # of the largest entry: errors smaller than this come from inexact numbers
STEADY = 1e-3  # ratios or differences that vary by less than this share are one number


def region(it: Difference) -> list[str]:
    """A few sentences; none of them says more than the numbers do."""
    if it.wrong.ndim == 0:
        return []
    if not it.finite:
        bad = ~np.isfinite(it.held) & np.isfinite(it.target)
        at = [int(i) for i in np.argwhere(bad)[0]]
        kinds = [word for word, there in (("NaN", np.isnan), ("infinite", np.isinf)) if there(it.held[bad]).any()]
        return [f"{bad.sum()} of {bad.size} entries are {' or '.join(kinds)}, the first at {at}.", *_along_axes(bad)]
    with np.errstate(all="ignore"):
        return [*_nearly(it), *(_along_axes(it.wrong) or _from_on(it.wrong)), *_in_common(it)]


def _nearly(it):
    """A sentence if the wrong entries are nearly right: then no term is missing."""
    scale = np.abs(it.target[np.isfinite(it.target)]).max(initial=0.0)
    error = np.abs(it.held - it.target)[it.wrong].max()
    return [f"It is nearly right, up to {error / scale:.1g} of the largest entry."] if error < NEARLY * scale else []


def _along_axes(wrong) -> list[str]:
    """ "Along axis 1 it is wrong only at index 3." for every axis along which some slices are right."""
    said = []
    for axis, length in enumerate(wrong.shape):
        bad = wrong.any(axis=tuple(k for k in range(wrong.ndim) if k != axis))  # (length,)
        share = wrong.take(np.flatnonzero(bad), axis).mean()
        right = wrong.size // length * (length - bad.sum())
        if bad.all() or (1 - min(share, 1)) ** right > CHANCE:
            continue
        few = (~bad).sum() <= FEW < bad.sum() and (np.diff(np.flatnonzero(bad)) > 1).any()
        what = f"right only at {_indices(~bad)}" if few else f"wrong only at {_indices(bad)}"
        said.append(f"Along axis {axis} it is {what}.")
    return said


def _indices(flags) -> str:
    """ "index 3", "indices 0, 2, 4", "indices 5 to 32, the last", "the even indices"."""
    at, length = np.flatnonzero(flags), len(flags)
    last = ", the last" if at[-1] == length - 1 else ""
    if len(at) == 1:
        return f"index {at[0]}{', the first' if at[0] == 0 else last}"
    if (np.diff(at) == 1).all():
        return f"indices {at[0]} to {at[-1]}{last}"
    for start, word in ((0, "even"), (1, "odd")):
        if np.array_equal(at, np.arange(start, length, 2)):
            return f"the {word} indices"
    return f"indices {', '.join(map(str, at[:FEW]))}" + (f", … ({len(at)} of {length})" if len(at) > FEW else "")


def _from_on(wrong) -> list[str]:
    """A sentence if all is right up to some entry, counted row after row, and nearly nothing from there on."""
    flat, first = wrong.ravel(), int(wrong.argmax())
    if wrong.ndim > 1 and first >= FEW and (1 - min(flat[first:].mean(), 1)) ** first < CHANCE:
        at = [int(i) for i in np.unravel_index(first, wrong.shape)]
        return [f"Counted row after row, the first {first} of {flat.size} are right; the wrong ones begin at {at}."]
    return []


def _in_common(it) -> list[str]:
    """What got / expected, or got - expected, is along an axis: the same number everywhere, or one in each row."""
    if not it.got[it.wrong].any():
        return [f"Nothing was added to {it.name} there." if it.adds else "Each wrong entry is 0."]
    for word, values in (("times", it.got / it.expected), ("plus", it.got - it.expected)):
        values = np.where(it.wrong & np.isfinite(values), values, np.nan)
        for axis in reversed(range(values.ndim)):
            rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
            rows = rows[np.isfinite(rows).sum(axis=1) >= 3]
            if not len(rows):
                continue
            middle = np.nanmedian(rows, axis=1)
            far = np.abs(middle - 1) if word == "times" else np.abs(middle)  # a factor of 1 is no mistake
            if (np.nanmax(np.abs(rows - middle[:, None]), axis=1) > STEADY * far + 1e-12).any() or not middle.any():
                continue
            if np.ptp(middle) <= STEADY * np.abs(middle).max():
                everywhere = np.nanmax(np.abs(values - middle[0])) <= STEADY * far[0] + 1e-12
                return [f"Each wrong entry is the right one {word} {middle[0]:.6g}."] if everywhere else []
            each = ", ".join(f"{value:.4g}" for value in middle[:3])
            some = f"{each}{', …' if len(middle) > 3 else ''}"
            return [f"Along axis {axis} every wrong entry is the right one {word} one number, another in each: {some}."]
    return []
