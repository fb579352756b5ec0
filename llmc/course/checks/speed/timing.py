"""Timing in notebooks: `race` for lessons, `faster` for the timed part of a check.

A right answer is never refused because the machine is busy: just below the bar it passes, and the message says what to
do. An answer that is clearly too slow is refused at any load.
"""

from statistics import median
from time import perf_counter

import numpy as np

from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.checks.speed.measurement import Speed, hopeless, measure
from llmc.course.checks.speed.retained_arrays import retained_bytes, said_of_retained
from llmc.course.measure import peak_bytes
from llmc.course.own_names import among_learners_names

KEEPS_UP = 0.8  # times as fast: enough for an answer without temporary arrays, where arithmetic takes the time


def race(*functions, rounds=9, seconds=1.2, clock=perf_counter):
    """Median seconds of each function, called without arguments. They take turns, so a slow moment hits them all alike.

    One untimed turn warms up caches, and compiles what must be compiled. Ends after `rounds` turns, or after 3 once
    `seconds` have passed, or after 1 once four times as many have, so that a slow candidate does not take for ever.
    clock: a function that returns seconds.
    """
    functions, times = [among_learners_names(function) for function in functions], [[] for _ in functions]
    for turn in range(rounds + 1):
        if turn <= 1:
            start = clock()  # again after the warm-up, which does not count
        for function, taken in zip(functions, times, strict=True):
            begin = clock()
            function()
            if turn:
                taken.append(clock() - begin)
        passed = clock() - start
        if (turn >= 3 and passed > seconds) or (turn >= 1 and passed > 4 * seconds):
            break
    return [median(taken) for taken in times]


def faster(c, given, yours, times, *, limit=None, of=None, scale=1.0, lean=None) -> Speed:
    """Raise WrongAnswer unless `yours` is `times` times as fast as `given`, both without arguments; else say how fast.

    c: the check, whose exercise says what to look at first when it is too slow. given: runs in one thread. times: below
    1, `yours` may be slower. limit: a function that takes turns with both; the message says what share of its speed
    was reached, taking `scale` times its seconds, and calls it `of`. lean: bytes; an answer whose temporary arrays take
    no more passes if it keeps up with the given function. BLAS gets one thread: on a busy machine several wait for each
    other.
    """
    from threadpoolctl import threadpool_limits  # here, because importing llmc.course needs NumPy alone

    function = c.calls[-1].function if c.calls else None
    c.before_timing()
    memory = np.inf if lean is None else _temporaries(yours) + retained_bytes(function)
    bar = KEEPS_UP if lean is not None and memory <= lean else times
    with threadpool_limits(1, user_api="blas"):
        functions = [given, yours] + [limit] * (limit is not None)
        speed = measure([among_learners_names(function) for function in functions], bar)
    described, goal = _described(speed, of, scale), _goal(times)
    if speed.ratio >= bar:
        enough = f" That counts, because your temporary arrays take only {memory / 1e6:.1f} MB."
        c.say(f"It is {described}.{enough * (speed.ratio < times)}")
    elif speed.load and speed.ratio >= hopeless(bar):  # counts as done: some machines are never quiet
        again = "Run this cell again when the machine is quiet."
        c.say(f"Measured under load ({speed.load}), it is {described}; {goal}. {again}")
    else:
        more = [_lean_would_do(memory, lean, function)] if lean is not None and bar >= times else []
        more += [c.exercise.slow] if c.exercise.slow else []
        c.calls.clear()  # none of them explains this
        raise WrongAnswer(f"right, but it is {described}; {goal}", Kind.DEMAND, more=more)
    return speed


def _temporaries(yours) -> int:
    """The most bytes that the arrays it makes take, except in its first call, which may fill caches."""
    among_learners_names(yours)()
    return peak_bytes(yours)


def _described(speed, of, scale) -> str:
    """ "1.25 times as fast as the given one (yours: 8.7 ms, 15% of a copy's speed)"."""
    times, word = (speed.ratio, "fast") if speed.ratio >= 1 else (1 / speed.ratio, "slow")
    share = f", {scale * speed.limit / speed.yours:.0%} of {of}" if of else ""
    yours = f"(yours: {1e3 * speed.yours:.1f} ms{share})"
    return f"{times:,.{0 if times > 10 else 2}f} times as {word} as the given one {yours}"


def _goal(times) -> str:
    """The task, as a message repeats it."""
    return f"the goal is at least {times:.3g} times as fast" if times >= 1 else f"at most {1 / times:.3g} times will do"


def _lean_would_do(memory, lean, function) -> str:
    """What would also pass."""
    kept = said_of_retained(function)
    takes = f"arrays take {memory / 1e6:.1f} MB{f' (counted with them: {kept})' if kept else ''}"
    return (
        f"Your function's temporary {takes}; with at most {lean / 1e6:.1f} MB, keeping up with the given one is enough."
    )
