"""A wrong array and the right one, as the signatures of mistakes get them, and what "the same" means there."""

from dataclasses import dataclass, field

import numpy as np

LIKE = 1e-4  # two arrays are "the same" when they differ by less than this share of the largest entry


@dataclass
class Case:
    """A wrong array and the right one: the same shape, float64, finite.

    If the call had to add to a buffer (`adds`), these are what it added and what it should have added.
    """

    name: str
    got: np.ndarray
    expected: np.ndarray
    before: np.ndarray | None = None  # what the buffer held before the call, where there was a buffer
    adds: bool = False
    rounding: float = 1e-9  # of the largest entry: errors that are smaller are none
    sizes: dict = field(default_factory=dict)  # names of lengths, {"C": 7, "B·T": 15}, to name a factor
    refused: np.ndarray | None = None  # bool: the entries that the check's own bounds call wrong, where they are known
    bounds: tuple = (0.0, 0.0)  # the check's own, (rtol, atol)

    @property
    def what(self) -> str:
        """What `got` is, in a sentence: the array, or what was added to it."""
        return f"what was added to {self.name}" if self.adds else self.name

    @property
    def held(self):
        """What the buffer holds after the call."""
        return self.got + self.before if self.adds else self.got


def same(a, b) -> bool:
    """Equal up to LIKE, and not both zero; what holds an infinity is like nothing."""
    largest = max(np.abs(a).max(), np.abs(b).max())
    return bool(0 < largest < np.inf and np.abs(a - b).max() <= LIKE * largest)
