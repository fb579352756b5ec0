"""Is an array wrong only at multiples of some number, where slices meet that are worked on one after the other?"""

import numpy as np

from llmc.course.old.checks.explain import listed

AGAIN = "done twice"
FEW = 3  # multiples that there must be; fewer may lie like that by chance
DENSE = 0.9  # of a run of entries: as many are wrong, and the others by less than rounding
APART = 16  # entries at least between two runs
SHOWN = 3  # runs that are listed
CLOSE = 1e-4  # of the largest entry, what counts as the same value


def at_multiples(wrong) -> tuple[int, int] | None:
    """(period, offset) if it is wrong at offset, offset + period, … of its first axis, and at nothing else; or None.

    wrong: (n, …), True where it is. With offset -1 these are the last places of slices.
    """
    bad = np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1)) if wrong.ndim else np.array([], int)
    if len(bad) < 2 or len(np.unique(np.diff(bad))) != 1:
        return None
    period = int(bad[1] - bad[0])
    offset = 0 if bad[0] % period == 0 else -1 if (bad[0] + 1) % period == 0 else None
    if offset is None or period < 2:
        return None
    skips_none = bad[0] <= period and bad[-1] + period >= len(wrong)
    enough = len(bad) >= FEW or len(bad) == 2 and bad[0] == period + offset
    return (period, offset) if skips_none and enough else None


def said_of_overlap(got, expected, twice, wrong) -> list[str]:
    """A sentence if runs of entries, the only wrong ones, hold what a second call of ours makes of them; else []."""
    bad = np.flatnonzero(wrong)
    if twice is None or len(bad) < FEW or wrong.ndim != 1:
        return []
    runs = np.split(bad, np.flatnonzero(np.diff(bad) > APART) + 1)
    dense = all(len(run) >= max(FEW, DENSE * (run[-1] + 1 - run[0])) for run in runs)
    if np.abs(got - twice)[wrong].max() > CLOSE * np.abs(expected).max() or not dense:
        return []
    shown = [f"{run[0]:,} to {run[-1]:,}" for run in runs[:SHOWN]]
    where = listed(shown) if len(runs) <= SHOWN else f"{', '.join(shown)} and so on"
    return [f"Entries {where} hold what two such calls make of them: they are {AGAIN}."]


def said_of_slices(name, got, expected, before, twice, wrong) -> list[str]:
    """Sentences if an array is wrong only where slices meet; [] if not.

    before: what it held before the call; None if it was no buffer. twice: the array that a second call of ours makes of
    the right one; None where unknown.
    """
    found = at_multiples(wrong)
    if found is None:
        return []
    period, offset = found
    scale, length = np.abs(expected).max(), f"{period:,}"
    places = f"multiples of {length}" if offset == 0 else f"{length} - 1 and every {length} places further on"
    at = f"{name} is wrong only at {places}, where slices of that length meet"

    def like(other):
        return other is not None and np.abs(got - other)[wrong].max() <= CLOSE * scale

    if like(before):
        return [f"{at}: nothing is done there."]
    if like(twice):
        return [f"{at}: these places are {AGAIN}."]
    return [f"{at}."]
