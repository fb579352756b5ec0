"""How many times as fast one function is as another, on a machine that also does other things.

Other programs can make a call last ten times as long, but they hardly change how long it holds the processor. So an
answer is judged by processor time, in pairs of neighbouring calls, and measured again when it is near the bar.
"""

from time import perf_counter, process_time, thread_time
from typing import NamedTuple

import numpy as np

from llmc.course.checks.guards import endless

WALL, PROCESSOR, THREAD = 0, 1, 2  # the clocks: seconds that pass, those of this process, those of this thread
ROUNDS, TURNS = 4, 21  # at most
SECONDS = 0.8  # of processor time in a round
SHORT = 25  # percent of the calls are shorter than the one whose seconds are reported
CLEARLY = 0.9  # below what is hopeless by more than rounds differ from each other
MISSED = 0.25  # of the seconds that passed: with less processor time than that, it was not counted
COARSE = 0.001  # seconds: a clock with longer steps (16 ms on Windows) cannot time one call


class Speed(NamedTuple):
    """What `measure` found."""

    ratio: float  # how many times as fast as the given function
    yours: float  # seconds of a short call by the clock that counts: other programs lengthen one
    limit: float  # seconds of processor time, likewise; infinite without a limit
    load: str  # what disturbed the measurement, or ""


def measure(functions, bar) -> Speed:
    """The best of a few rounds of functions without arguments: `given`, in one thread, `yours`, and perhaps a limit.

    One round where `yours` is at least `bar` times as fast as `given`, two where it clearly is not, else ROUNDS.
    """
    clocks, rounds, best = _clocks(), [], 0.0
    while len(rounds) < ROUNDS and best < bar:
        rounds.append(_round(functions, clocks))
        clock = _fair_clock(rounds[-1])
        ratios = _ratios(rounds[-1], clock)  # (turns,)
        best = max(best, float(np.median(ratios)))
        if max(ratios) < hopeless(bar) / 2 or (len(rounds) == 2 and best < CLEARLY * hopeless(bar)):
            break
    turns = np.concatenate(rounds)  # (turns, functions, 3)
    limit = _limit(turns[:, 2]) if len(functions) > 2 else np.inf
    return Speed(best, _usual(turns[:, 1, clock]), limit, _load(turns[:, 0]))


def _limit(turns) -> float:
    """Seconds of processor time of the limit, (turns, 3); of the shortest call where hardly any were counted."""
    held, least = _usual(turns[:, PROCESSOR]), turns[:, WALL].min()
    return held if held > MISSED * least else float(least)


def _usual(seconds) -> float:
    """Those of a call that nothing lengthened. Not the shortest: some systems count a call in steps of milliseconds."""
    return float(np.percentile(seconds, SHORT, method="higher"))


def hopeless(bar) -> float:
    """A ratio so far below the bar that no other program explains it."""
    return (1 + bar) / 2 if bar > 1 else bar / 2


def _clocks():
    """Clocks that read WALL, PROCESSOR and THREAD; the first in place of the others where they are coarse."""
    steps = []
    for _ in range(3):
        begin = process_time()
        while (now := process_time()) == begin:
            pass
        steps.append(now - begin)
    return [perf_counter, process_time, thread_time] if min(steps[1:]) < COARSE else [perf_counter] * 3


def _round(functions, clocks):
    """Seconds by each clock, (turns, functions, 3). Two turns at least: the first call may compile something."""
    turns, begin = [], clocks[PROCESSOR]()
    while len(turns) < TURNS:
        turns.append([_seconds(function, clocks) for function in functions])
        spent = clocks[PROCESSOR]() - begin
        if spent > SECONDS and len(turns) >= (3 if spent < 3 * SECONDS else 2):
            break
    return np.array(turns)


def _seconds(function, clocks):
    """(3,) seconds of one call, by each clock."""
    endless.begin()
    begin = [clock() for clock in clocks]
    function()
    return [clock() - start for clock, start in zip(clocks, begin, strict=True)]


def _ratios(turns, clock):
    """(turns,): how many times as fast `yours` was as its neighbour `given`, in one round (turns, functions, 3)."""
    return turns[:, 0, clock] / np.maximum(turns[:, 1, clock], 1e-9)


def _fair_clock(turns) -> int:
    """Which clock counts in one round (turns, functions, 3): PROCESSOR, if one thread of this process did it all."""
    given, yours = np.median(turns[:, :2], axis=0)  # (3,) each
    if yours[PROCESSOR] > 1.1 * yours[THREAD]:  # other threads worked too: their seconds add up, but pass together
        return max(WALL, PROCESSOR, key=lambda clock: np.median(_ratios(turns, clock)))
    waits = yours[PROCESSOR] / yours[WALL] < 0.25 * given[PROCESSOR] / given[WALL]  # for a process or GPU of its own
    return WALL if waits else PROCESSOR


def _load(given) -> str:
    """What disturbed the calls of the given function (turns, 3), which does the same each time; or ""."""
    (passed, held, _), (low, high) = given.sum(axis=0), np.percentile(given[:, PROCESSOR], [25, 75])
    if held < 0.9 * passed:
        return f"other programs used the processor {1 - held / passed:.0%} of the time"
    if high > 1.3 * low:
        return f"the given function took {1e3 * low:.1f} ms in one turn and {1e3 * high:.1f} ms in another"
    return ""
