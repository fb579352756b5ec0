"""A wrong array beside the right one, as the signatures of mistakes see it, and what "the same" means to them."""

from dataclasses import dataclass, field

import numpy as np

LIKE = 1e-4  # two arrays are "the same" when they differ by less than this share of the largest entry


@dataclass
class Case:
    """A wrong array beside the right one: same shape, float64, finite.

    When the call was to add to a buffer (`adds`), got and expected are what was and should have been added.
    """

    name: str
    got: np.ndarray
    expected: np.ndarray
    before: np.ndarray | None = None  # what the buffer held before the call, where there was a buffer
    adds: bool = False
    sizes: dict = field(default_factory=dict)  # names of lengths, {"C": 7, "B·T": 15}, to name a factor

    @property
    def held(self):
        """What the buffer holds after the call."""
        return self.got + self.before if self.adds else self.got


def same(a, b) -> bool:
    """Equal up to LIKE, and not both zero."""
    largest = max(np.abs(a).max(), np.abs(b).max())
    return bool(largest > 0 and np.abs(a - b).max() <= LIKE * largest)
