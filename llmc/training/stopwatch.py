"""Durations of a run, for its speed and the time left."""

import time
from collections import deque
from dataclasses import dataclass, field

RECENT = 20  # steps over which the speed is averaged


@dataclass
class Stopwatch:
    """Starts when it is made. Counts the seconds of all training steps (`steps`), of the `last` one, of one
    `validation`, and of one `scoring` on HellaSwag."""

    start: float = field(default_factory=time.perf_counter)
    steps: float = 0.0
    last: float = 0.0
    validation: float = 0.0
    scoring: float = 0.0
    recent: deque = field(default_factory=lambda: deque(maxlen=RECENT))

    def add_step(self, seconds):
        """Count one training step."""
        self.last = seconds
        self.steps += seconds
        self.recent.append(seconds)

    @property
    def mean(self) -> float:
        """Mean seconds per step over the latest steps."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    def left(self, steps: int, val_every: int, hellaswag_every: int = 0) -> float:
        """Estimated seconds for `steps` more steps, including the measurements between them."""
        scoring = -(-steps // hellaswag_every) * self.scoring if hellaswag_every else 0.0
        return steps * self.mean + -(-steps // val_every) * self.validation + scoring
