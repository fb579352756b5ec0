"""Timing that a noisy two-core machine cannot upset: all candidates take turns, and the median of each is told."""

from statistics import median
from time import perf_counter


def race(*functions, rounds=9, seconds=1.2):
    """Median seconds of each function of nothing. They run in turns, so that a slow moment hits all of them alike.

    One untimed turn warms up caches. Ends after `rounds` turns; or after 3 when `seconds` have passed, so that a slow
    candidate does not keep one waiting; or after 1 when four times that have passed.
    """
    times = [[] for _ in functions]
    start = perf_counter()
    for turn in range(rounds + 1):
        for function, taken in zip(functions, times, strict=True):
            begin = perf_counter()
            function()
            if turn:
                taken.append(perf_counter() - begin)
        passed = perf_counter() - start
        if (turn >= 3 and passed > seconds) or (turn >= 1 and passed > 4 * seconds):
            break
    return [median(taken) for taken in times]
