"""Inputs that catch mistakes: awkward numbers, read-only arrays, buffers that notice a write outside of them.

You cannot see a forgotten mean where the mean is 0, a forgotten weight where it is 1, or `=` instead of `+=` where the
buffer was empty. So no mean here is 0, no spread is 1, and no buffer is empty.
"""

from dataclasses import dataclass

import numpy as np

BAND = 64  # guard elements on each side of a buffer
GUARD = 123456.0  # exact in float32 and float64; in float16 it becomes inf, which is as good


def awkward(rng, *shape, dtype=np.float64):
    """Random array (…, n): every row has its own mean, 1 to 4 away from 0, and its own spread, 0.5 to 2."""
    rows = (*shape[:-1], 1)
    mean = rng.uniform(1.0, 4.0, rows) * rng.choice([-1.0, 1.0], rows)  # (…, 1)
    spread = rng.uniform(0.5, 2.0, rows)  # (…, 1)
    return (rng.standard_normal(shape) * spread + mean).astype(dtype)  # (…, n)


def read_only(array):
    """A read-only copy; setting its flag back does not help, because it is a view of a locked array."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy.view()


@dataclass
class Buffer:
    """`array` is what the learner's function gets; `whole` surrounds it with guard elements."""

    array: np.ndarray
    whole: np.ndarray

    def written_outside(self):
        """How many guard elements changed before and after the array: (0, 0) when all is well."""
        guard = guard_of(self.whole.dtype)
        front, back = self.whole[:BAND], self.whole[-BAND:]
        return int((front != guard).sum()), int((back != guard).sum())


def guard_of(dtype):
    """GUARD as a number of this type."""
    with np.errstate(over="ignore"):
        return np.asarray(GUARD).astype(dtype)


def guarded(values) -> Buffer:
    """A C-contiguous buffer that holds `values`, with guard bands around it; messages do not see it as a view."""
    values = np.asarray(values)
    whole = np.full(values.size + 2 * BAND, guard_of(values.dtype))
    array = np.frombuffer(whole.view("u1").data, values.dtype, values.size, BAND * whole.itemsize).reshape(values.shape)
    array[...] = values
    return Buffer(array, whole)
