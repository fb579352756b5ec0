"""What probably caused a problem and what to write instead: advice that depends on the problem, from a Finding.

Advice that is always the same is in the table itself, kinds.py.
"""

from llmc.cuda.emulator.findings.guards import check_above, steps_over
from llmc.cuda.emulator.findings.loops import barrier_between, loop_around


def out_of_bounds(found) -> str:
    """By where the access lies: before the array, past shared memory, half outside, or simply too far."""
    array, problem = found.array, found.problem
    if problem.offset < 0:
        return (
            "The index is negative: the first threads have no neighbour before them, so exclude them with a check such "
            "as `if (i > 0)`, or look for a subtraction that goes too far."
        )
    if problem.space == "shared" and array is None:
        return (
            "The block's shared memory ends there: make the array larger, pass enough bytes as `shared_mem` at the "
            "launch, or check that the index stays below the length of the array."
        )
    if array is not None and problem.size > array.itemsize and problem.offset < array.nbytes:
        return (
            "The vector reaches past the end: use it only where all of its elements lie inside, and read or write the "
            "rest one by one."
        )
    return _about_the_check(found)


def _about_the_check(found) -> str:
    """The index is too large: is there no check, does it let one too many through, or is something else wrong?"""
    there = check_above(found.raw.code, found.line)
    if there is None:
        return (
            "Threads past the end must do nothing: guard the access with a check such as `if (i < n)`, and make sure "
            "that n is the length of this array."
        )
    line, comparison = there
    if found.array is not None and found.problem.offset == found.array.nbytes and "=" in comparison:
        return f"The check on line {line} lets one too many through: the last index is the length minus 1."
    return (
        f"There is a check on line {line}, so either the index itself is wrong or the bound of the check is: work the "
        "index out by hand for this thread."
    )


def misaligned(found) -> str:
    """By whether one element or a vector was accessed."""
    size = found.problem.size
    if found.array is not None and size <= found.array.itemsize:
        return (
            "The pointer was moved by a number of bytes: count in elements of the array's own type instead, without "
            "casts."
        )
    return (
        f"An access of {size} bytes must start at a multiple of {size}: use indices that are multiples of the vector's "
        "length, and plain loads where a row does not start at one."
    )


def uninitialised(found) -> str:
    """By where: in shared memory, or in an array of the launch."""
    if found.problem.detail == "asynchronous copy":
        return (
            "A copy may still be under way until its thread waits for it: commit it, wait (`__pipeline_wait_prior(0)`, "
            "`cg::wait(block);`, `pipe.consumer_wait();`), then let the block meet at `__syncthreads();`, then read."
        )
    if found.array is None:
        return (
            "Shared memory starts with whatever was there before: fill every element that will be read, with a neutral "
            "value (0 for a sum) where there is no data, then `__syncthreads();`, then read."
        )
    return (
        "An output starts with whatever was there before: write it with `=` before the first `+=` or read, or fill the "
        "array before the launch if the kernel is meant to add to it."
    )


# ------------------------------------------------------------------------------------------------ races


def race(found) -> str:
    """By the lines of both accesses and what stands between and around them."""
    code, line, line2 = found.raw.code, found.line, found.line2
    if found.problem.space == "global":
        return _race_in_global_memory(found)
    if _has_atomic(code, line) != _has_atomic(code, line2):
        return (
            "Atomics protect only against other atomics: use one on both lines, or put `__syncthreads();` between them."
        )
    if line == line2 and found.problem.write and found.problem.write2:
        return (
            "Several threads write the same element: let only one do it (`if (threadIdx.x == 0)`), give each an "
            "element of its own, or use atomicAdd."
        )
    if not line or not line2:
        return "Put `__syncthreads();` between the two accesses, where all threads of the block reach it."
    if line == line2:
        return _race_with_itself(code, line)
    first, second = sorted((line, line2))
    if loop_around(code, line, line2) and barrier_between(code, first, second):
        return (
            f"There is a barrier between lines {first} and {second}, so line {second} of one round clashes with line "
            f"{first} of the next: put a second `__syncthreads();` at the end of the loop's body."
        )
    return f"Put `__syncthreads();` between line {first} and line {second}, where all threads of the block reach it."


def _race_with_itself(code, line) -> str:
    """One thread's read against another's write in the same line: a sum in place, usually in a loop."""
    loop = loop_around(code, line)
    if loop and not barrier_between(code, *loop):
        return (
            "Each round must see what the previous one wrote: put `__syncthreads();` at the end of the loop's body, "
            "outside any `if`, so that all threads reach it."
        )
    return (
        "Some threads write here before others have read: read into a variable, `__syncthreads();`, then write, and "
        "`__syncthreads();` once more if a loop comes back here."
    )


def race_within_a_warp(found) -> str:
    """Where `__syncwarp` belongs."""
    line, line2 = found.line, found.line2
    if line and line == line2 and loop_around(found.raw.code, line):
        where = "at the end of the loop's body"
    elif line and line2 and line != line2:
        where = f"between line {min(line, line2)} and line {max(line, line2)}"
    else:
        where = "between reading and writing"
    return (
        f"The threads of a warp need not run in lockstep: put `__syncwarp();` {where}, or `__syncthreads();` if other "
        "warps take part."
    )


def _race_in_global_memory(found) -> str:
    problem = found.problem
    if found.line == found.line2 and steps_over(found.raw.code, found.line):
        return (
            "Two threads visit the same number. If each number belongs to one thread, start at the thread's index in "
            "the grid and step by gridDim.x * blockDim.x; if several threads must add to it, use atomicAdd."
        )
    if problem.block2 is not None and problem.block2 != problem.block:
        return (
            "Blocks run in any order, and `__syncthreads()` does not make them wait for each other: use atomicAdd, "
            "give each block elements of its own, or do the second step in another launch."
        )
    return (
        "Give each thread elements of its own, use atomicAdd, or put `__syncthreads();` between the two accesses: "
        "within a block it orders global memory too."
    )


def _has_atomic(code, line) -> bool:
    lines = code.splitlines()
    return 0 < line <= len(lines) and "atomic" in lines[line - 1]
