"""Lesson 11: what a function costs on one thread, in processor time, and what a ratio of two costs is called.

Processor time counts only while this program runs, so other programs on the machine hardly change it. It adds up the
seconds of all threads; with a single one it is the time that the function would take on a quiet machine.
"""

import sys
from contextlib import contextmanager
from time import perf_counter, process_time

from numba import get_num_threads, set_num_threads
from threadpoolctl import threadpool_limits

from llmc.course.checks.speed.timing import race

CLOCK = perf_counter if sys.platform == "win32" else process_time  # on Windows, processor time moves in steps of 16 ms
CLOSE = 1.05  # costs within 5% of each other count as equal


@contextmanager
def one_thread():
    """Allow Numba and every BLAS library of this process one thread."""
    threads = get_num_threads()
    with threadpool_limits(1, user_api="blas"):
        set_num_threads(1)
        try:
            yield
        finally:
            set_num_threads(threads)


def processor_seconds(*functions, rounds=9, seconds=0.5):
    """`race` on one thread, by processor time: median seconds of each function of nothing."""
    with one_thread():
        return race(*functions, rounds=rounds, seconds=seconds, clock=CLOCK)


def times_as_fast(ratio) -> str:
    """A measured ratio of two times in words.

    >>> [times_as_fast(ratio) for ratio in (3.14, 1.02, 0.5)]
    ['3.1 times as fast', 'about as fast', 'slower, 2.0 times the time']
    """
    if ratio >= CLOSE:
        return f"{ratio:.1f} times as fast"
    return "about as fast" if ratio > 1 / CLOSE else f"slower, {1 / ratio:.1f} times the time"
