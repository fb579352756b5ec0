"""What to do about a race: advice that would mend this one, from a Finding.

It depends on how the two accesses follow each other: on one line or two, in one call of a function or in two, with or
without a barrier between them, next to atomics, within a block or between blocks.
"""

import re

from llmc.cuda.emulator.findings.guards import steps_over
from llmc.cuda.emulator.findings.loops import barrier_between, branch_around_both, loop_around, uneven_loop

BLOCK, WARP = "__syncthreads();", "__syncwarp();"
STALE = "Where an old value does no harm, read through a volatile pointer: that says so."
NOT_ONE_TO_ONE = (
    "Other elements of this array are written by no thread, so the index is wrong: it sends two threads to one place. "
    "Work it out by hand for both of them."
)
ADDS = re.compile(r"\]\s*[-+*/]=")  # out[0] += …, which more than one thread may mean to do
OTHER_BLOCKS = "Blocks run in any order, and `__syncthreads()` does not make them wait for each other"


def race(found) -> str:
    """A race between warps, or between blocks."""
    problem = found.problem
    if problem.atomic != problem.atomic2:
        return _next_to_atomics(found, BLOCK)
    if problem.block2 not in (None, problem.block):
        return _between_blocks(found)
    if _collide(found):
        return _one_element(found)
    also = " Within a block it orders global memory too." if problem.space == "global" else ""
    return _barrier(found, BLOCK) + also


def race_within_a_warp(found) -> str:
    """A race between two threads of one warp."""
    if found.problem.atomic != found.problem.atomic2:
        return _next_to_atomics(found, WARP)
    if _collide(found):
        return _one_element(found)
    placed = _barrier(found, WARP)
    return f"The threads of a warp need not run in lockstep: {placed[:1].lower()}{placed[1:]}"


def _between_blocks(found) -> str:
    if _leaves_others_empty(found):
        return NOT_ONE_TO_ONE
    if found.line == found.line2 and steps_over(found.raw.code, found.line):
        return (
            "Two threads visit the same number. If each number belongs to one thread, start at the thread's index in "
            "the grid and step by gridDim.x * blockDim.x; if several threads must add to it, use atomicAdd."
        )
    return (
        f"{OTHER_BLOCKS}: use atomicAdd, give each block elements of its own, or do the second step in another launch."
    )


# ------------------------------------------------------------------------------------------------ one element


def _collide(found) -> bool:
    """Whether two threads write the same element by the same line: then they share it, and no barrier helps."""
    if found.line != found.line2 or not found.line:
        return found.problem.write and found.problem.write2 and not found.line
    mine = found.problem
    return any(
        item.write and item.write2 and not item.atomic and not item.atomic2
        for item in found.raw.problems
        if (item.space, item.argument) == (mine.space, mine.argument) and {item.pc, item.pc2} & {mine.pc, mine.pc2}
        if item.pc == item.pc2 or item is mine
    )


def _leaves_others_empty(found) -> bool:
    """Are there two plain writes of one element, none of which adds to it, while nobody writes some other element?"""
    problem = found.problem
    plain = problem.write and problem.write2 and not (problem.atomic or problem.atomic2)
    adds = any(ADDS.search(quoted) for quoted in (found.quoted, found.quoted2))
    empty = any(other.kind == "never-written" and other.argument == problem.argument for other in found.raw.problems)
    return bool(plain and not adds and problem.space == "global" and problem.argument >= 0 and empty)


def _one_element(found) -> str:
    if _leaves_others_empty(found):
        return NOT_ONE_TO_ONE
    if found.line and steps_over(found.raw.code, found.line):
        return _between_blocks(found)
    return (
        "The index is the same for both threads, so a barrier does not help: let only one thread write "
        "(`if (threadIdx.x == 0)`), give each an element of its own, or use atomicAdd if all of them must add."
    )


# ------------------------------------------------------------------------------------------------ next to atomics


def _next_to_atomics(found, barrier) -> str:
    """One party is an atomic, the other an ordinary access."""
    problem = found.problem
    between_blocks = problem.block2 not in (None, problem.block)
    if problem.write and problem.write2:
        if between_blocks:
            return f"{OTHER_BLOCKS}: set the start value before the launch, and use atomics for every later change."
        return f"Atomics protect only against other atomics: use one on both lines, or wait. {_barrier(found, barrier)}"
    if between_blocks:
        return (
            f"{OTHER_BLOCKS}: use the value that the atomic returns, read the result in a later launch, or let the "
            "block that finishes last read it (count the finished ones by an atomic, after `__threadfence();`). "
            + STALE
        )
    reads, updates = (found.line2, found.line) if problem.atomic else (found.line, found.line2)
    if reads and reads <= updates:
        return (
            "Other threads' atomics may come in between: use the value that the atomic returns, which is the old one, "
            f"or separate reading from updating by `{barrier}`, {_all(barrier)}. {STALE}"
        )
    return f"Other threads' atomics may still be to come. {_barrier(found, barrier)}"


# ------------------------------------------------------------------------------------------------ a barrier


def _barrier(found, barrier) -> str:
    """Where a barrier belongs that makes the one access wait for the other."""
    code, (here, there, calls) = found.raw.code, _positions(found)
    if not here or not there:
        return f"Put `{barrier}` between the two accesses, {_all(barrier)}."
    if here == there:
        return _same_line(code, here, barrier, calls)
    first, second = sorted((here, there))
    if barrier_between(code, first, second, barrier):
        return _another_round(code, first, second, barrier, calls)
    if head := uneven_loop(code, first, second):
        return (
            f"The threads run the loop on line {head} different numbers of times, so a barrier cannot be inside it: "
            f"make two loops of it, one for line {first} and one for line {second}, with `{barrier}` between them."
        )
    if head := branch_around_both(code, first, second):
        return (
            f"Put `{barrier}` between line {first} and line {second}, but not inside the `if` on line {head} unless "
            "all threads of the block take it: end the `if` before the barrier and begin another one after it."
        )
    return f"Put `{barrier}` between line {first} and line {second}, {_all(barrier)}."


def _positions(found) -> tuple[int, int, tuple[int, ...]]:
    """The lines of both parties in the function that holds both, and the lines that called that function."""
    here, there = found.chains[0][::-1], found.chains2[0][::-1]  # the kernel's own line first
    for depth, (line, line2) in enumerate(zip(here, there)):
        if line != line2:
            return line, line2, here[:depth][::-1]
    last = min(len(here), len(there)) - 1
    return (here[last], there[last], here[:last][::-1]) if last >= 0 else (0, 0, ())


def _same_line(code, line, barrier, calls) -> str:
    loop = loop_around(code, line)
    if loop and not barrier_between(code, *loop, barrier):
        return (
            f"Each round must see what the previous one wrote: put `{barrier}` at the end of the loop's body, outside "
            f"any `if`, so that all threads reach it."
        )
    if not loop and calls and loop_around(code, calls[0]):
        return f"Put `{barrier}` after the call on line {calls[0]}, since the loop around it calls the function again."
    again = f", and `{barrier}` once more if a loop comes back here" if not calls else ""
    return f"Some threads write here before others have read: read into a variable, `{barrier}`, then write{again}."


def _another_round(code, first, second, barrier, calls) -> str:
    """There is a barrier between the lines, but not between these accesses."""
    if loop_around(code, first, second):
        return (
            f"There is a barrier between lines {first} and {second}, so line {second} of one round clashes with line "
            f"{first} of the next: put a second `{barrier}` at the end of the loop's body."
        )
    if calls:
        return (
            f"There is a barrier between lines {first} and {second}, so line {second} of one call clashes with line "
            f"{first} of the next: put `{barrier}` at the end of the function, or after the call on line {calls[0]}."
        )
    return (
        f"There is a barrier between lines {first} and {second}, but some threads get from one to the other without "
        "passing it: move it out of branches, to where all threads of the block pass it."
    )


def _all(barrier) -> str:
    """How far a barrier reaches, and who must reach it."""
    return "where all threads of the block reach it" if barrier == BLOCK else f"or `{BLOCK}` if other warps take part"
