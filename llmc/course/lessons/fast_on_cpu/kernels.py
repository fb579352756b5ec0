"""Lesson 11: what its checks ask of a Numba kernel besides its numbers; of plain NumPy there is nothing to ask."""

from types import FunctionType

import numpy as np

from llmc.course.checks.guards.threads import RACE, has_prange, no_race
from llmc.course.checks.messages.diagnosis import Kind, WrongAnswer
from llmc.course.own_names import learners_names
from llmc.course.races.find import find_races

SMALL, RUNS = 70_000, 20  # numbers in a call that also runs in plain Python, which is slow: blocks of 8192 race there


def with_three_threads(tried):
    """A sentence if a right kernel is wrong, or WrongAnswer if it races, where three threads share its work."""
    given, adds = tried.given, tried.check.exercise.adds.split()
    small = sum(map(np.size, given.values())) < SMALL and has_prange(tried.function)
    watch = find_races(tried.function, *given.values()) if small else None
    no_race(watch)
    for name, after in zip(given, watch.arguments if watch else ()):
        here, right = tried.got.get(name, after), tried.expected.get(name, after) + given[name] * (name in adds)
        # roughly: a sum that begins as 0.0 is a float64 only in the kernel
        here, there = (np.allclose(made, right, 0.01, 0.01, equal_nan=True) for made in (here, after))
        if here and not there:
            return f"{name} is right, but not where three threads share the work: is there a remainder?"


def keeps_nan(tried):
    """A sentence if a NaN that went in did not come out."""
    for name, right in tried.expected.items() if any(np.isnan(each).any() for each in tried.given.values()) else ():
        if (np.isnan(right) & ~np.isnan(tried.got[name])).any():
            told = f"a NaN went in and a number came out, in {name}. A loss that diverged must stay visible"
            return WrongAnswer(told, look=tried.check.exercise.place("9.2 · A NaN that stays hidden"))


def judge_threads(scatter, dwte, dwpe, *inputs):
    """Raise WrongAnswer unless all runs give the same bits, and several threads work in a compiled kernel."""
    results = set()
    for _ in range(RUNS):
        tables = dwte.copy(), dwpe.copy()  # (V, C), (maxT, C)
        with learners_names():
            scatter(*tables, *inputs)
        results.add(b"".join(table.tobytes() for table in tables))
    if len(results) > 1:
        raise WrongAnswer(f"{RUNS} runs on the same numbers gave {len(results)} results: a race", look=RACE)
    watch, kernels = find_races(scatter, dwte, dwpe, *(array[:2] for array in inputs)), kernels_of(scatter)
    no_race(watch)
    if kernels and not (watch.threads > 1 if watch and watch.loops else any(map(_may_share, kernels))):
        told = "right, but all of your kernel runs on one thread: share out its work with a prange, compiled with"
        raise WrongAnswer(f"{told} parallel=True, with as many turns as threads, or more", Kind.DEMAND, look=RACE)


def _may_share(kernel) -> bool:
    """Has Numba shared out its array code, or is it made for Python's own threads?"""
    loops = [(made.metadata or {}).get("parfor_diagnostics") for made in kernel.overloads.values()]
    array_code = kernel.targetoptions.get("parallel") and any(it is None or it.count_parfors() for it in loops)
    return array_code or kernel.targetoptions.get("nogil")


def kernels_of(function, seen=frozenset()) -> set:
    """The compiled kernels that this function is, or calls by a name."""
    plain = getattr(function, "py_func", getattr(function, "func", function))  # of a kernel, of a partial
    if not isinstance(plain, FunctionType) or plain in seen:
        return set()
    called = [plain.__globals__.get(name) for name in plain.__code__.co_names]
    called += [cell.cell_contents for cell in plain.__closure__ or ()]
    found = [kernels_of(value, seen | {plain}) for value in called]
    return set().union(*found, [function] if hasattr(function, "py_func") else [])


def timed(c, *inputs):
    """Before the timing: inputs are as in the last call, read-only where they were, or Numba would compile again."""
    for array in inputs:
        array.flags.writeable = id(c.calls[-1].function) in c._writable
    c.before_timing()
