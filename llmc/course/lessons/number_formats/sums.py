"""Sums over the first axis of x (n, C), in its own precision, whose rounding errors grow in different ways.

Source: Kahan, "Further remarks on reducing truncation errors" (1965).
"""

from math import fsum

import numpy as np


def plain(x):
    """(C,) one row after the other."""
    return sum(x, np.zeros_like(x[0]))


def pairwise(x):
    """(C,) the sum of the sums of both halves."""
    return x[0].copy() if len(x) == 1 else pairwise(x[: len(x) // 2]) + pairwise(x[len(x) // 2 :])


def kahan(x):
    """(C,) with a second number: what each addition has added in excess."""
    total, excess = np.zeros_like(x[0]), np.zeros_like(x[0])  # (C,) both
    for row in x:
        wanted = row - excess  # (C,)
        new = total + wanted
        excess = (new - total) - wanted
        total = new
    return total


def exact(x):
    """(C,) float64, rounded once, at the very end."""
    return np.array([fsum(column) for column in x.astype(np.float64).T])
