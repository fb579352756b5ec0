"""Which threads did it: the second sentence of a problem's paragraph."""

from llmc.cuda.emulator.reporting.places import thread

# The thread of a problem and the other one, for those kinds that are about two.
TWO_THREADS = {
    "barrier-divergence": ("ended without it", "waited for it"),
    "early-return": ("returned", "waited"),
    "different-barriers": ("waited at one", "waited at the other"),
    "deadlock": ("waits", "does not come"),
    "inactive-lane": ("did not take part", "called it"),
}
ENDING = ("out-of-bounds", "misaligned", "invalid-pointer", "bounds", "division-by-zero")  # a thread does it only once


def who(problem) -> str:
    """The second sentence: which thread did it first, and how often it happened; "" when no single thread did it."""
    if problem.kind == "never-written":
        return ""
    doer = thread(problem.thread, problem.block)
    doer = doer[0].upper() + doer[1:]
    times = f"; it happened {problem.count} times" if problem.count > 1 else ""
    if problem.kind in ("race", "missing-syncwarp"):
        return f"{doer} {_did(problem.write)}{_other_thread(problem, _did(problem.write2))}{times}."
    if problem.kind in TWO_THREADS and (problem.thread2 is not None or problem.kind != "inactive-lane"):
        first, second = TWO_THREADS[problem.kind]
        return f"{doer} {first}{_other_thread(problem, second)}{times}."
    if problem.kind == "runaway":
        return f"{doer} was running at that moment."
    if problem.count > 1 and problem.kind in ENDING:
        times = f"; {problem.count} threads did it at this line"
    return f"{doer} did it{' first' if times else ''}{times}."


def _other_thread(problem, words) -> str:
    """ ", thread (9, 0, 0) of the same block waited"; "" where the second thread is not known."""
    if problem.thread2 is None:
        return ""
    if problem.block2 in (None, problem.block):
        return f", {thread(problem.thread2)} of the same block {words}"
    return f", {thread(problem.thread2, problem.block2)} {words}"


def _did(write) -> str:
    return "wrote it" if write else "read it"
