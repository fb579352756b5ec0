"""Durations of a run, for its speed and the time left."""

import time
from collections import deque
from dataclasses import dataclass, field

RECENT = 20  # steps over which the speed is averaged


@dataclass
class Stopwatch:
    """Starts when it is made. Seconds in all training steps (`steps`), in the `last` one, in one `validation`."""

    start: float = field(default_factory=time.perf_counter)
    steps: float = 0.0
    last: float = 0.0
    validation: float = 0.0
    recent: deque = field(default_factory=lambda: deque(maxlen=RECENT))

    def add_step(self, seconds):
        """Count one training step."""
        self.last = seconds
        self.steps += seconds
        self.recent.append(seconds)

    @property
    def mean(self) -> float:
        """Seconds per step, over the latest steps."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def left(self, steps: int, val_every: int) -> float:
        """Estimated seconds for `steps` more steps, including the validations between them."""
        return steps * self.mean + -(-steps // val_every) * self.validation
