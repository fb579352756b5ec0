"""Of which parts is a wrong number or array a sum? "the loss is 0.5 · batch 0 + 0.25 · batch 1; expected 0.5 and 0.5"

A mean over unequal batches, a share that is applied twice, a moving average with exchanged weights: each of them is a
sum of the right parts with the wrong weights. The weights are found by least squares, from at least as many numbers
more than there are parts.
"""

import numpy as np

from llmc.course.old.checks.beside import digits_apart

SURE = 3  # numbers more than there are parts
NONE = 1e-7  # a weight that is none
MANY = 4  # parts that a sentence lists
SMALL = 1e-6  # of the numbers: what may remain unexplained


def weights(got, parts) -> np.ndarray | None:
    """(parts,) with which the parts, arrays of got's shape, add up to got; None if they do not, or not in one way."""
    columns = np.stack([np.ravel(part) for part in parts], axis=1).astype(np.float64)  # (n, parts)
    got = np.ravel(got).astype(np.float64)  # (n,)
    if len(got) < len(parts) + SURE or not np.isfinite(columns).all() or not np.isfinite(got).all():
        return None
    scale = np.abs(columns).max(axis=0)
    if not scale.all() or np.linalg.cond(columns / scale) > 1e4:
        return None
    found = np.linalg.lstsq(columns / scale, got, rcond=None)[0] / scale
    rest = np.abs(columns @ found - got).max()
    return found if rest <= SMALL * np.abs(got).max() else None


def as_a_sum(what, got, expected, parts) -> str | None:
    """A sentence about the weights of these parts, {name: array}, in a wrong array and in the right one; or None."""
    mine, right = (weights(array, list(parts.values())) for array in (got, expected))
    if mine is None or right is None or np.allclose(mine, right, rtol=1e-4, atol=1e-6):
        return None
    wrong = [name for name, a, b in zip(parts, mine, right) if not np.isclose(a, b, rtol=1e-4, atol=1e-6)]
    count = sum(abs(a) > NONE or abs(b) > NONE for a, b in zip(mine, right))  # of the parts that take part
    if len(wrong) < count > MANY:
        some = [[pair[k] for pair in zip(parts, mine, right) if pair[0] in wrong] for k in range(3)]
        digits = digits_apart([*zip(*some[1:])], 4)
        there, wanted = (_sum(some[0], numbers, digits) for numbers in some[1:])
        return f"{what} has {there} in it, and should have {wanted}: the other {count - len(wrong)} weights are right"
    digits = digits_apart([(a, b) for name, a, b in zip(parts, mine, right) if name in wrong], 4)
    told = f"{what} is {_sum(parts, mine, digits)}, and should be {_sum(parts, right, digits)}"
    if len(wrong) == count > 1:
        return told
    times = [a / b if abs(b) > NONE else 0 for name, a, b in zip(parts, mine, right) if name in wrong]
    if len(wrong) > 1 and abs(times[0]) > NONE and np.allclose(times, times[0], rtol=1e-4, atol=0):
        return f"{told}: {' and '.join(wrong)} count {times[0]:.4g} times as much as they should"
    return f"{told}: look at {' and '.join(wrong)}"


def _sum(names, numbers, digits) -> str:
    parts = [f"{k:.{digits}g} · {name}" for name, k in zip(names, numbers) if abs(k) > NONE]
    return " + ".join(parts).replace("+ -", "− ") or "nothing"
