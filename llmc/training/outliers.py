"""Spotting a bad batch before it does harm: how far its loss or gradient norm lies from those of the last steps.

Follows llm.c's outlier_detector.h: the z-score of the newest of the last 128 values among these 128, so it never
exceeds √127 = 11.3. Until there are 128 values, there is no z-score, and nothing counts as an outlier.
"""

from collections import deque
from math import sqrt

WINDOW = 128


class OutlierDetector:
    """The last 128 values of one kind. Its whole state is `values`.

    limit: the z-score above which a value is an outlier, 0 for never · values: the initial values, oldest first.
    """

    def __init__(self, limit: float = 0.0, values=()):
        self.limit = limit
        self.values = deque(values, maxlen=WINDOW)
        self.z = None  # z-score of the newest value

    def add(self, value: float) -> bool:
        """Add a value; returns whether it is an outlier. `z` is its z-score, None while the window is not full."""
        self.values.append(value)
        self.z = self._z() if len(self.values) == WINDOW else None
        return self.is_outlier

    @property
    def is_outlier(self) -> bool:
        """Whether the newest value lies above the limit."""
        return bool(self.limit) and self.z is not None and self.z > self.limit

    def _z(self):
        mean = sum(self.values) / WINDOW
        away = [value - mean for value in self.values]
        variance = sum(x * x for x in away) / WINDOW  # x**2 would raise for the 1e300 of a damaged file
        return away[-1] / sqrt(variance) if variance > 0 else 0.0
