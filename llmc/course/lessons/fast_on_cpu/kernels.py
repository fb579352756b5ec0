"""Lesson 11: what checks ask of a kernel besides its numbers: does it race, use threads, hide a NaN, use float64?

A learner's function may be a Numba kernel, call some, or be plain NumPy, and then there is nothing to ask.
"""

import re
from time import perf_counter, process_time, thread_time

import numpy as np
from numba import get_num_threads

from llmc.course.old.checks.compiled import kernels_of
from llmc.course.old.checks.no_race import RACE
from llmc.course.own_names import among_learners_names, learners_names

# where to look; a test compares these titles with the headings of notebooks/11_fast_on_cpu.ipynb
HIDDEN = 'lesson 11, section "9.2 · A NaN that stays hidden"'
CONSTANTS = 'lesson 11, section "3.1 · Compile it"'
ROUNDED = 4e-6  # of the largest dout: 1 - tanh² loses its digits near 0, and x and x² make more of that
ROUGHLY = 0.01  # how near plain Python comes to a kernel: a sum that begins as 0.0 is a float64 only in the kernel
ONE_THREAD = (
    "right, but all of your kernel runs on one thread. It takes a prange to share out work, in a kernel compiled with "
    f"parallel=True, and as many turns as there are threads, or more; {RACE}"
)
REUSED = "other numbers in arrays of the same shapes"
COMPILED = 'lesson 11, section "3 · Your first kernel"'
# In LLVM's code. A conversion alone does not count: Numba makes one to return a float32 to Python.
ARITHMETIC = re.compile(r"= f(?:add|sub|mul|div|rem|neg|cmp) [^\n]*\bdouble\b")


def many_positions(T, V) -> str:
    """What a call of scatter_add with many positions has that those before had not."""
    return f"{T:,} positions{f', more than the {V:,} tokens in the vocabulary' if T > V else ''}"


def positions_left_out(dwpe, V) -> dict:
    """The known mistake of a loop over the V tokens that goes over the T positions as well. dwpe: (T, C)."""
    T = len(dwpe)
    words = (
        f"the reference without the positions from {V} on: there are {T}, more than the {V} tokens in the vocabulary"
    )
    return {words: dwpe * (np.arange(T) < V)[:, None]} if T > V else {}


def rows_left_out(added, expected, dout, tokens):
    """A function of nothing: a sentence if `added` to dwte (V, C) is what only the first rows of dout give; or None."""

    def look():
        rows, ids = dout.reshape(-1, dout.shape[-1]).astype(np.float64), tokens.ravel()  # (B·T, C), (B·T,)
        lost, near = expected - added, 1e-3 * np.abs(expected).max()  # (V, C)
        wrong = (np.abs(lost) > near).any(axis=1)[ids]  # (B·T,) is the sum of this row's token wrong?
        rest, n = np.zeros(lost.shape), len(ids)
        while n and wrong[n - 1]:
            n -= 1
            rest[ids[n]] += rows[n]
            if np.allclose(rest, lost, rtol=0, atol=near):
                told = f"dwte is what the first {n:,} of {len(ids):,} rows of dout add to it"
                return f"{told}: the last {len(ids) - n:,} are left out"
        return None

    return look


def runs(outputs, watch):
    """(words for a message, outputs) of the call itself and of what `find_races` ran, if it could."""
    return [("", outputs)] + ([(" with three threads", watch.arguments[: len(outputs)])] if watch else [])


def repeat(function, held, *inputs, times=20, seconds=3.0):
    """Call function(*outputs, *inputs) on copies of `held`: (how often, how many different results, the last ones).

    Ends early, after 3 calls at least, once so many seconds have passed.
    """
    seen, begin = set(), perf_counter()
    for n in range(1, times + 1):
        outputs = [array.copy() for array in held]
        with learners_names():
            function(*outputs, *inputs)
        seen.add(b"".join(array.tobytes() for array in outputs))
        if n >= 3 and perf_counter() - begin > seconds:
            break
    return n, len(seen), outputs


def on_one_thread(watch, run) -> bool:
    """Does run(), a function of nothing, leave all the work to the thread that calls it?

    watch: what `find_races` saw of the same function, or None. Its pranges are proof enough. Threads of another kind
    show in their processor time: every time, while others of this process are busy now and then.
    """
    if watch is not None and watch.loops:
        return watch.threads <= 1
    if watch is None and get_num_threads() == 1:  # there may be a prange
        return False
    run = among_learners_names(run)
    run()  # compiles, and starts the threads
    return any(_share_of_this_thread(run) > 0.8 for _ in range(3))


def _share_of_this_thread(run, times=5) -> float:
    """Of the processor time that the process takes meanwhile."""
    all_threads, this_thread = process_time(), thread_time()
    for _ in range(times):
        run()
    return (thread_time() - this_thread) / (process_time() - all_threads)


def compiled(function) -> bool:
    """Is this function a kernel, or does it call one?"""
    return any(True for _ in kernels_of(function))


def nan_lost(function) -> str:
    """What to say of a NaN that went into a function and did not come out."""
    assumed = any(_assumes_no_nan(kernel) for kernel in [function, *kernels_of(function)])
    why = " A kernel is compiled with a fastmath that assumes that there is none." * assumed
    return f"a NaN went in and a number came out.{why} A loss that diverged must stay visible; {HIDDEN}"


def _assumes_no_nan(kernel) -> bool:
    """Is it compiled with fastmath=True, or with nnan among the flags?"""
    flags = getattr(kernel, "targetoptions", {}).get("fastmath")
    return flags is True or isinstance(flags, set | frozenset) and bool(flags & {"fast", "nnan"})


def float64_operations(function) -> int:
    """Count the float64 operations in the compiled kernels that this function is, or calls, for float32 arrays."""
    return sum(
        len(ARITHMETIC.findall(kernel.inspect_llvm(signature)))
        for kernel in kernels_of(function)
        for signature in kernel.signatures
        if "array(float32" in str(signature).lower()
    )


def float64_note(function) -> str:
    """ "", or a remark on a right answer whose kernels compute in float64."""
    count = float64_operations(function)
    return f"Its kernel has {count} operations in float64 ({CONSTANTS})." if count else ""
