"""Durations of a run, for its speed and the time left."""

import time
from collections import deque
from dataclasses import dataclass, field

RECENT = 20  # steps over which speed is averaged


@dataclass
class Stopwatch:
    """Runs from its making on. Seconds: `steps` in all training steps, `last` in the last one, `validation` of one."""

    start: float = field(default_factory=time.perf_counter)
    steps: float = 0.0
    last: float = 0.0
    validation: float = 0.0
    recent: deque = field(default_factory=lambda: deque(maxlen=RECENT))

    def add_step(self, seconds):
        """Take note of one training step."""
        self.last = seconds
        self.steps += seconds
        self.recent.append(seconds)

    @property
    def mean(self) -> float:
        """Seconds per step, over the last ones."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.start

    def left(self, steps: int, val_every: int) -> float:
        """Estimated seconds that so many more steps take, with the validations between them."""
        return steps * self.mean + -(-steps // val_every) * self.validation
