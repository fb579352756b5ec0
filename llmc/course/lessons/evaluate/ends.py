"""Lesson 24: at which percentiles of the draws do the ends of a learner's interval lie?"""

import numpy as np

from llmc.course.lessons.evaluate.laws import drawn
from llmc.course.old.checks.contrast import outcome

NEAR = 0.01  # percent: nearer are two percentiles the same
MORE = (41, 90, 200)  # draws in other calls


def percentiles(found, function, losses, draws, statistic):
    """A function of nothing: a sentence if low and high are the same two percentiles in other calls, too; or None.

    found: (low, high) of this call of the learner's function.
    """

    def look():
        rng, places = np.random.default_rng(24), [_places(found, losses, draws, statistic)]
        for R in MORE:
            other = rng.integers(0, losses.shape[1], (R, *losses.shape))  # (R, n, S)
            did = outcome(function, losses.copy(), other.copy(), statistic)
            if isinstance(did, Exception) or np.shape(did) != (2,):
                return None
            places.append(_places(did, losses, other, statistic))
        low, high = np.mean(places, axis=0)
        inside = all(NEAR < end < 100 - NEAR for end in (low, high))
        if not inside or np.ptp(places, axis=0).max() > NEAR:
            return None
        told = f"low and high are the percentiles {low:.4g} and {high:.4g} of the statistic over all draws"
        return f"{told}: for the middle 95% take 2.5 and 97.5"

    return look


def _places(found, losses, draws, statistic):
    """(low, high) in percent of the statistics that lie below, as np.percentile counts."""
    values = np.sort([statistic(row) for row in drawn(losses, draws)])  # (R,)
    return np.interp(np.asarray(found, np.float64), values, np.linspace(0, 100, len(values)))
