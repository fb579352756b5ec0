"""Where a training step spends its time: when each call of a backend function began, and how long it took.

`profile` returns the calls of one step in order, for a timeline; `by_function` returns their sums, for a table.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from llmc.backends.contract import Around


@dataclass(frozen=True)
class Call:
    """One call of a backend function. start: seconds since the step began · seconds: its duration."""

    name: str
    start: float
    seconds: float


class ProfiledBackend(Around):
    """A backend that does what another backend does, and records each call of one of its functions as a Call.

    The clock is read when all that a function has launched is done. clock: a function that returns seconds.
    """

    def __init__(self, backend, clock=perf_counter):
        super().__init__(backend, self._around)
        self._clock, self._wait = clock, backend.synchronize
        self.begin()

    def begin(self):
        """Forget the calls so far; starts are counted from now."""
        self.calls, self._zero = [], self._clock()

    def _around(self, name, function):
        def timed(*arguments, **named):
            start = self._clock()
            result = function(*arguments, **named)
            self._wait()
            self.calls.append(Call(name, start - self._zero, self._clock() - start))
            return result

        return timed


def profile(model, step, clock=perf_counter) -> list[Call]:
    """The backend calls of step(), a function that trains `model`, in order. clock: a function that returns seconds."""
    backend = model.backend
    model.backend = ProfiledBackend(backend, clock)
    try:
        step()
        return model.backend.calls
    finally:
        model.backend = backend


def by_function(profiles) -> dict:
    """{function: seconds per step}, slowest first: the median over several profiles of equal steps."""
    sums = defaultdict(list)
    for calls in profiles:
        total = defaultdict(float)
        for call in calls:
            total[call.name] += call.seconds
        for name, seconds in total.items():
            sums[name].append(seconds)
    return dict(sorted(((name, median(s)) for name, s in sums.items()), key=lambda item: -item[1]))
