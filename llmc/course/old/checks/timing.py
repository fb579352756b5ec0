"""Timing in notebooks: `race` for lessons, `faster` for the timed part of a check.

A right answer is never refused because the machine is busy: just below the bar it passes, and the message says what to
do. An answer that is clearly too slow is refused at any load.
"""

from statistics import median
from time import perf_counter

import numpy as np

from llmc.course.measure import peak_bytes
from llmc.course.old.checks import evidence
from llmc.course.old.checks.compiled import in_any_order, kernels_of
from llmc.course.old.checks.costly import first_wide, where_the_time_goes
from llmc.course.old.checks.explain import WrongAnswer
from llmc.course.old.checks.held import held_bytes, said_of_held
from llmc.course.old.checks.python_loops import in_python, lines_run
from llmc.course.old.checks.speed import Speed, hopeless, measure
from llmc.course.own_names import among_learners_names

KEEPS_UP = 0.8  # times as fast: enough for an answer without temporary arrays, where arithmetic takes the time
LOOPS = (
    "Its temporary arrays are small. Look first at the turns of its Python loops: "
    "a turn should work on thousands of numbers, or the loop be compiled."
)
TURNS = "Look there first: a turn of a loop should work on thousands of numbers."
LINES, MORE = 20_000, 100  # lines in a call, and times as many as in the given function's: that takes the time
LONG = 5.0  # seconds: such a call is not made again, to count lines or with fastmath

ARITHMETIC = (
    "Its temporary arrays are small, and no loop runs in Python, so the arithmetic itself takes the time: "
    "look at the functions that are called for every number, and at numbers that become float64."
)


def race(*functions, rounds=9, seconds=1.2, clock=perf_counter):
    """Median seconds of each function of nothing. They take turns, so that a slow moment hits all of them alike.

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


def faster(c, given, yours, times, *, look, compiled=None, limit=None, of=None, scale=1.0, lean=None) -> Speed:
    """Raise WrongAnswer unless `yours` is `times` as fast as `given`, both functions of nothing; else say how fast.

    c: the check. given: runs in one thread. times: below 1, `yours` may be slower. look: what to look at first when it
    is too slow; compiled: the same for an answer that Numba compiles, which is tried with fastmath first. limit: a
    function that takes turns with both; the message says which share of its speed was reached, taking `scale` times its
    seconds, and calls it `of`. lean: bytes; an answer whose temporary arrays take no more passes if it keeps up with
    the given function. BLAS gets one thread: on a busy machine several wait for each other.
    """
    from threadpoolctl import threadpool_limits  # here, because importing llmc.course needs NumPy alone

    c.before_timing()
    c.calls.clear()  # none of the earlier calls explains what follows
    kept = held_bytes(evidence.learners_function())  # by a cache, say: it is memory, too
    memory = np.inf if lean is None else _temporaries(yours) + kept
    bar = KEEPS_UP if lean is not None and memory <= lean else times
    with threadpool_limits(1, user_api="blas"):
        functions = [given, yours] + [limit] * (limit is not None)
        speed = measure([among_learners_names(function) for function in functions], bar)
    described, goal = _described(speed, of, scale), _goal(times)
    if speed.ratio >= bar:
        c.say(f"It is {described}.{_lean_is_enough(memory) * (speed.ratio < times)}")
    elif speed.load and speed.ratio >= hopeless(bar):  # counts as done: some machines are never quiet
        again = "Run this cell again when the machine is quiet."
        c.say(f"Measured under load ({speed.load}), it is {described}; {goal}. {again}")
    else:
        small = LOOPS if in_python(evidence.learners_function()) else ARITHMETIC
        turns = _many_lines(given, yours, speed) if times >= 1 else None
        lean_too = _lean_would_do(memory, lean) if bar >= times else ""
        loops = None
        if compiled and any(kernels_of(evidence.learners_function())):
            look = compiled
            loops = in_any_order(evidence.learners_function(), yours) if speed.yours < LONG else None
        advice = loops or (_with_cost(small) if bar < times else turns or _with_cost(_narrower(look, lean)))
        raise WrongAnswer(f"right, but it is {described}; {goal}. {lean_too}{advice}")
    return speed


def _many_lines(given, yours, speed) -> str | None:
    """What to look at if it is slower than the given function, and runs very many lines of Python for a few of its."""
    if speed.ratio >= 1 or speed.yours > LONG or not in_python(evidence.learners_function()):
        return None
    mine = lines_run(yours)
    if mine < LINES or mine < MORE * (its := lines_run(given)):
        return None
    return f"One call runs {mine:,} lines of Python, and one of the given version {its:,}. {TURNS}"


def _narrower(look, lean) -> str:
    """What to look at first; before that, where arrays count, the expression that makes the first one of float64."""
    check = evidence.looked_into() if lean is not None else None
    wide = check and first_wide(check.exercise, evidence.learners_function(), check.largest)
    return f"{wide} {look.replace('Look first', 'Then look', 1)}" if wide else look


def _with_cost(look) -> str:
    """What to look at first: an expression that was tried otherwise; else `look`, and what takes most of the time."""
    check, function = evidence.looked_into(), evidence.learners_function()
    told, gained = where_the_time_goes(check.exercise, function, check.largest) if check else (None, None)
    if gained:
        return f"In a smaller call, {told}; {gained}: look there first."
    return f"{look} In a smaller call, {told}." if told else look


def _temporaries(yours) -> int:
    """Bytes that the arrays it makes take at most, but in its first call: that may fill caches."""
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


def _lean_is_enough(memory) -> str:
    """Why an answer below the bar passes on a quiet machine."""
    return f" That counts, because your temporary arrays take only {memory / 1e6:.1f} MB: the rest is arithmetic."


def _lean_would_do(memory, lean) -> str:
    """What would pass, too; "" where the check has no such rule."""
    if lean is None:
        return ""
    limit = f"with at most {lean / 1e6:.1f} MB, keeping up with the given one is enough"
    kept = said_of_held(evidence.learners_function())
    takes = f"Your function's temporary arrays take {memory / 1e6:.1f} MB"
    return f"{takes}{f' (counted with them: {kept})' if kept else ''}; {limit}. "
