"""How many times as fast one function is as another, on a machine that does other things too.

Other programs can make a call last ten times as long, but they hardly change how long it holds the processor. So an
answer is judged by processor time, in pairs of neighbouring calls, and measured again when it is near the bar.
"""

from time import perf_counter, process_time, thread_time
from typing import NamedTuple

import numpy as np

ROUNDS, TURNS = 4, 21  # at most
SECONDS = 0.8  # of processor time in a round
COARSE = 0.001  # seconds: a clock with longer steps (16 ms on Windows) cannot time one call


class Speed(NamedTuple):
    """What `measure` found."""

    ratio: float  # how many times as fast as the given function
    yours: float  # seconds of the shortest call, because other programs can only lengthen one
    limit: float  # seconds, likewise; infinite without a limit
    load: str  # what disturbed the measurement, or ""


def measure(functions, bar) -> Speed:
    """The best of a few rounds of functions of nothing: `given`, which has one thread, `yours`, perhaps a limit.

    One round where `yours` is at least `bar` times as fast as `given`, two where it clearly is not, else ROUNDS.
    """
    clocks, rounds, best = _clocks(), [], 0.0
    while len(rounds) < ROUNDS and best < bar:
        rounds.append(_round(functions, clocks))
        ratios = _ratios(rounds[-1])  # (turns,)
        best = max(best, float(np.median(ratios)))
        if max(ratios) < hopeless(bar) / 2 or (len(rounds) == 2 and best < hopeless(bar)):
            break
    turns = np.concatenate(rounds)  # (turns, functions, 3)
    _, yours, *limit = turns[..., 0].min(axis=0)  # (functions,)
    return Speed(best, yours, limit[0] if limit else np.inf, _load(turns[:, 0]))


def hopeless(bar) -> float:
    """A ratio so far below the bar that no other program explains it."""
    return (1 + bar) / 2 if bar > 1 else bar / 2


def _clocks():
    """Clocks of the seconds that pass, and of the processor time of this process and this thread, if they are fine."""
    steps = []
    for _ in range(3):
        begin = process_time()
        while (now := process_time()) == begin:
            pass
        steps.append(now - begin)
    return [perf_counter, process_time, thread_time] if min(steps[1:]) < COARSE else [perf_counter] * 3


def _round(functions, clocks):
    """Seconds by each clock, (turns, functions, 3). Two turns at least: the first call may compile something."""
    turns, begin = [], clocks[1]()
    while len(turns) < TURNS:
        turns.append([_seconds(function, clocks) for function in functions])
        spent = clocks[1]() - begin
        if spent > SECONDS and len(turns) >= (3 if spent < 3 * SECONDS else 2):
            break
    return np.array(turns)


def _seconds(function, clocks):
    """(3,) seconds of one call, by each clock."""
    begin = [clock() for clock in clocks]
    function()
    return [clock() - start for clock, start in zip(clocks, begin, strict=True)]


def _ratios(turns):
    """(turns,): how many times as fast `yours` was as its neighbour `given`, in one round (turns, functions, 3)."""
    given, yours = turns[:, 0], np.maximum(turns[:, 1], 1e-9)  # (turns, 3) each
    by_wall, by_processor = (given / yours)[:, :2].T  # (turns,) each
    passed, held, in_this_thread = np.median(yours, axis=0)
    if held > 1.1 * in_this_thread:  # more threads worked: their seconds pass together, and are added up in `held`
        return max(by_wall, by_processor, key=np.median)
    waits = held / passed < 0.25 * np.median(given[:, 1] / given[:, 0])  # for another process, or for a GPU
    return by_wall if waits else by_processor


def _load(given) -> str:
    """What disturbed the calls of the given function (turns, 3), which does the same each time; or ""."""
    (passed, held, _), (low, high) = given.sum(axis=0), np.percentile(given[:, 1], [25, 75])
    if held < 0.9 * passed:
        return f"other programs had the processor {1 - held / passed:.0%} of the time"
    if high > 1.3 * low:
        return f"the given function took {1e3 * low:.1f} ms in one turn and {1e3 * high:.1f} ms in another"
    return ""
