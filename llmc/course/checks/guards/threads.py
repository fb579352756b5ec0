"""Threads that a function has started and not waited for: what it returns may look right a moment later."""

import threading
import time

from llmc.course.checks.diagnosis import WrongAnswer

SAMPLE = 4096  # numbers
PATIENCE = 1.0  # seconds in which such a thread ends; those that wait for more work do not end


class LeftRunning:
    """Around one call: `begin`, then `inspect` as soon as it has returned."""

    def begin(self):
        """Which threads were there before?"""
        self._before = set(threading.enumerate())

    def inspect(self, arrays):
        """Raise WrongAnswer if threads of the call still change one of these arrays."""
        started = [thread for thread in threading.enumerate() if thread not in self._before]
        if not started:
            return
        returned = [_sample(array) for array in arrays]
        end = time.monotonic() + PATIENCE
        for thread in started:
            thread.join(max(end - time.monotonic(), 0))
        if any(_sample(array).tobytes() != sample.tobytes() for array, sample in zip(arrays, returned)):
            raise WrongAnswer(
                "your function returned while threads that it had started were still writing: wait for each of them,"
                " with join(), or for a future with result()."
            )


def _sample(array):
    """Some thousand numbers from all over the array: a copy of all would take so long that the threads catch up."""
    return array.reshape(-1)[:: array.size // SAMPLE + 1].copy()
