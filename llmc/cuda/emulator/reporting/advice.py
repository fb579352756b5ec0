"""One sentence for each kind of mistake: what probably caused it, and what to write instead."""

from llmc.cuda.emulator.reporting.guards import check_above, steps_over
from llmc.cuda.emulator.reporting.loops import barrier_between, loop_around
from llmc.cuda.emulator.reporting.places import array_of

CHECK_BOUNDS = (
    "Threads past the end must do nothing: put a check such as `if (i < n)` around the access, and make sure that n is "
    "the length of this array."
)
DIAGNOSED = {
    "invalid-pointer": (
        "The pointer is null, was never set or was moved far outside its array: look at how it is "
        "computed, above all at the factors of the index."
    ),
    "never-written": (
        "Start enough threads, grid = (n + block - 1) / block, or let each thread loop on by "
        "gridDim.x * blockDim.x; if there are enough, the index leaves elements out."
    ),
    "barrier-divergence": (
        "Every thread of the block must reach the same `__syncthreads()` equally often: move it out of "
        "the `if`, and out of a loop whose number of rounds differs between threads."
    ),
    "deadlock": (
        "Some threads wait for what others will never do: look for a barrier or a warp function in a branch that "
        "only a part of the threads takes, or for a lock that nobody gives back."
    ),
    "inactive-lane": (
        "Every lane that the mask names, and every lane that is read from, must execute the same call, so a full mask "
        "is wrong inside an `if`: let the whole warp do it and put the `if` around what follows."
    ),
    "runaway": (
        "Look for a loop that never ends: a step that is 0 (an unsigned or halved stride), a condition that the "
        "loop does not change, or waiting for a value that no other thread writes."
    ),
    "stack-overflow": (
        "A thread has little memory of its own: end the recursion earlier, and keep large arrays in "
        "shared or global memory."
    ),
    "division-by-zero": (
        "Find out for which thread the divisor is 0: often a size that was not passed, or "
        "an integer division such as `1 / n` that gave 0."
    ),
    "integer-overflow": (
        "An int ends at 2,147,483,647: compute large indices in size_t or long long, by converting the first "
        "factor, as in `(size_t)row * columns`."
    ),
    "bounds": (
        "The last index of an array of n elements is n - 1: check the loop's bound (`<`, not `<=`), the order of the "
        "indices, and that the array is as large as the block."
    ),
    "assert": "The condition of your own `assert` was false for this thread: print the values in it with printf.",
    "crash": "A pointer was probably used that points nowhere: look at casts, and at pointers kept in variables.",
    "early-return": (
        "A GPU counts threads that have returned as arrived, so this works; it stops working when one "
        "of them still has a part in what follows the barrier."
    ),
    "different-barriers": (
        "A GPU may let these two barriers count as one, or hang: let all threads of the block wait at "
        "the same `__syncthreads()`."
    ),
}


def advice(raw, problem, line=0, line2=0) -> str:
    """What to do about `problem` of the launch `raw`; line and line2 are its lines, 0 where they are not known."""
    if problem.kind == "out-of-bounds":
        return _out_of_bounds(raw, problem, line)
    if problem.kind == "race":
        return _race(raw, problem, line, line2)
    if problem.kind == "misaligned":
        return _misaligned(raw, problem)
    if problem.kind == "uninitialised":
        return _uninitialised(raw, problem)
    if problem.kind == "missing-syncwarp":
        return _within_a_warp(raw.code, line, line2)
    return DIAGNOSED.get(problem.kind, "")


def _out_of_bounds(raw, problem, line) -> str:
    array = array_of(raw, problem)
    if problem.offset < 0:
        return (
            "The index is negative: the first threads have no neighbour before them, so leave them out with a check "
            "such as `if (i > 0)`, or look for a subtraction that goes too far."
        )
    if problem.space == "shared" and array is None:
        return (
            "The shared memory of a block ends there: make the array larger, pass enough bytes as `shared_mem` "
            "at the launch, or check that the index stays below its length."
        )
    if array is not None and problem.size > array.itemsize and problem.offset < array.nbytes:
        return (
            "The vector reaches past the end: use it only while all of its elements lie inside, and read or write "
            "the rest one by one."
        )
    there = check_above(raw.code, line)
    if there is None:
        return CHECK_BOUNDS
    if array is not None and problem.offset == array.nbytes and "=" in there[1]:
        return f"The check in line {there[0]} lets one too many through: the last index is the length - 1."
    return (
        f"There is a check in line {there[0]}, so the index itself is wrong, or the bound of the check: work the index "
        "out by hand for this thread."
    )


def _misaligned(raw, problem) -> str:
    array = array_of(raw, problem)
    if array is not None and problem.size <= array.itemsize:
        return "A pointer was moved by a number of bytes: count in elements of the array's own type, without casts."
    return (
        f"An access of {problem.size} bytes must start at a multiple of {problem.size}: use indices that are multiples "
        "of the vector's length, and plain loads where a row does not start at one."
    )


def _race(raw, problem, line, line2) -> str:
    if _is_global(problem):
        return _global_race(raw, problem, line, line2)
    if _has_atomic(raw, line) != _has_atomic(raw, line2):
        return "Atomics protect only against other atomics: use one on both lines, or put `__syncthreads();` between."
    if line == line2 and problem.write and problem.write2:
        return (
            "Several threads write the same element: let only one do it (`if (threadIdx.x == 0)`), give each an "
            "element of its own, or use atomicAdd."
        )
    if not line or not line2:
        return "Put `__syncthreads();` between the two accesses, where all threads of the block reach it."
    if line == line2:
        return _race_with_itself(raw.code, line)
    first, second = sorted((line, line2))
    if loop_around(raw.code, line, line2) and barrier_between(raw.code, first, second):
        return (
            f"There is a barrier between lines {first} and {second}, so it is line {second} of one round and line "
            f"{first} of the next: put a second `__syncthreads();` at the end of the loop's body."
        )
    return f"Put `__syncthreads();` between line {first} and line {second}, where all threads of the block reach it."


def _race_with_itself(code, line) -> str:
    """One thread's read against another's write in the same line: a sum in place, usually in a loop."""
    loop = loop_around(code, line)
    if loop and not barrier_between(code, *loop):
        return (
            "Each round must see what the round before has written: put `__syncthreads();` at the end of the loop's "
            "body, outside of any `if`, so that all threads reach it."
        )
    return (
        "Some threads write here before others have read: read into a variable, `__syncthreads();`, then write, and "
        "`__syncthreads();` once more if a loop comes back to it."
    )


def _within_a_warp(code, line, line2) -> str:
    lockstep = "The threads of a warp need not run in lockstep: put `__syncwarp();`"
    if line and line == line2 and loop_around(code, line):
        return f"{lockstep} at the end of the loop's body, or `__syncthreads();` if other warps take part."
    between = (
        f"line {min(line, line2)} and line {max(line, line2)}" if line and line2 != line else "reading and writing"
    )
    return f"{lockstep} between {between}, or `__syncthreads();` if other warps take part."


def _global_race(raw, problem, line, line2) -> str:
    if line == line2 and steps_over(raw.code, line):
        return (
            "Two threads visit the same number. If each number is one thread's, start at the thread's number in the "
            "grid and step by gridDim.x * blockDim.x; if several threads have to add to it, use atomicAdd."
        )
    if problem.block2 is not None and problem.block2 != problem.block:
        return (
            "Blocks run in any order and `__syncthreads()` does not make them wait for each other: use atomicAdd, give "
            "each block elements of its own, or do the second step in another launch."
        )
    return (
        "Give each thread elements of its own, use atomicAdd, or put `__syncthreads();` between the two accesses: "
        "within a block it orders global memory too."
    )


def _uninitialised(raw, problem) -> str:
    if array_of(raw, problem) is None:
        return (
            "Shared memory starts with whatever was there: fill every element that is read, neutral values (0 for "
            "a sum) where there is no data, then `__syncthreads();`, then read."
        )
    return (
        "An output starts with whatever was there: write it with `=` before the first `+=` or read, or fill the array "
        "before the launch if the kernel is meant to add to it."
    )


def _is_global(problem) -> bool:
    return "global" in (problem.space, problem.detail)


def _has_atomic(raw, line) -> bool:
    lines = raw.code.splitlines()
    return 0 < line <= len(lines) and "atomic" in lines[line - 1]
