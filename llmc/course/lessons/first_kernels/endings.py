"""Lesson 12: a loop that leaves out the last numbers. The kernel is launched again with a smaller n: what is left?"""

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.kernel_checks import not_finite

ALIKE = 1e-3  # of the largest
N = 3  # the argument of axpy(y, x, a, n) that says how many


def without_the_last(a, x, y, blocks, threads) -> dict:
    """{words: what was added to y (n,)} if the running check's last launch lacks two or more of the last numbers."""
    last, n = evidence.last_call(), x.size
    if last is None or last.arrays is None or not np.array_equal((not_finite.arguments() or [None])[0], y):
        return {}
    right = a * np.asarray(x, np.float64)  # (n,)
    rest = _last_missing(last.arrays[0] - y.astype(np.float64), right)
    if rest < 2:
        return {}
    less = _with_n(n - 1, right, y)
    words = f"the reference without the last {rest} numbers"
    if less == rest:
        words += f", and so it is with n = {n - 1}"
    elif less == rest - 1:
        words = f"the reference for the first {n - rest} numbers alone, and so it is with n = {n - 1}"
    for what, parts in (("threads", blocks * threads), ("gridDim.x", blocks)):
        if n % parts == rest and less == rest - 1 and _with_n(n - parts, right, y) == rest:
            words = f"the reference without the last {rest} numbers, n % {what}"
            break
    return {words: np.where(np.arange(n) < n - rest, right, 0)}


def _with_n(n, right, y) -> int | None:
    """How many of the last of n numbers the kernel leaves out; None if it fails."""
    after = not_finite.launched({N: n})
    return None if after is None else _last_missing(after[0][:n] - y[:n].astype(np.float64), right[:n])


def _last_missing(added, right) -> int:
    """How many of the last numbers were not added, if that is all that is wrong; else 0."""
    missing = np.flatnonzero(np.abs(added - right) > ALIKE * np.abs(right).max())
    count = len(missing)
    return count if 0 < count < len(right) and not added[-count:].any() and missing[0] == len(right) - count else 0
