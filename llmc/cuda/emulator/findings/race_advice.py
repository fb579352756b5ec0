"""What to do about a race: advice that would mend this one, from a Finding.

It depends on how the two accesses follow each other: on one line or two, in one call of a function or in two, with or
without a barrier between them, next to atomics, within a block or between blocks.
"""

import re
from itertools import permutations
from math import prod

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.barrier_advice import (
    BLOCK,
    WARP,
    Place,
    barrier_of_one_turn,
    place_of_barrier,
    reached,
    where_a_barrier_belongs,
)
from llmc.cuda.emulator.findings.guards import steps_over
from llmc.cuda.emulator.findings.loops import LOOP, head_of
from llmc.cuda.emulator.findings.meeting import in_other_turns, meeting, the_same_for_all
from llmc.cuda.emulator.findings.places import array_of
from llmc.cuda.emulator.findings.values import function_around, needed, of_the_index, worked_out

STALE = "Where an old value does no harm, read through a volatile pointer: that says so."
NOT_ONE_TO_ONE = (
    "Other elements of this array are written by no thread, so the index is wrong: it sends two threads to one place. "
    "Work it out by hand for both of them."
)
ONE_WRITES = "let only one thread write"
BULK = re.compile(r"cp[._]async[._]bulk")
ARRIVES = re.compile(r"mbarrier\.arrive(?!\.expect_tx)")  # as a thread does that has read, not one that asks for a copy
ADDS = re.compile(r"\]\s*[-+*/]=")  # out[0] += …, which more than one thread may mean to do
STEPS = re.compile(r"\bfor\s*\([^;]*?(\w+)\s*=\s*([^;]*);[^;]*;\s*\1\s*\+=\s*([^{]*)\)")  # variable, beginning, step
LOOKED_UP = re.compile(r"\b(?:int|unsigned|size_t)\s+(?:[^;(]*,\s*)?(\w+)\s*=\s*(\w+\s*\[[^;,=]*\])\s*[;,]")
OTHER_BLOCKS = "Blocks run in any order, and `__syncthreads()` does not make them wait for each other"
ALSO_BLOCKS = (
    "Threads of other blocks come to these elements, too, and `__syncthreads()` orders those of one block alone: give "
    "each thread elements of its own, or do the second step in another launch."
)


def barrier_that_mends(found) -> Place | None:
    """Where a barrier belongs that would mend a race; None for other problems, and where none would."""
    problem = found.problem
    if problem.kind not in ("race", "missing-syncwarp") or problem.atomic != problem.atomic2:
        return None
    if problem.block2 not in (None, problem.block) or _collide(found) or _also_between_blocks(found):
        return None
    return place_of_barrier(found, BLOCK if problem.kind == "race" else WARP)


def race(found) -> str:
    """A race between warps, or between blocks."""
    problem = found.problem
    if problem.atomic != problem.atomic2:
        return _next_to_atomics(found, BLOCK)
    if problem.block2 not in (None, problem.block):
        return _between_blocks(found)
    if told := barrier_of_one_turn(found, BLOCK):
        return told
    if _collide(found):
        return _one_element(found)
    if _also_between_blocks(found):
        return ALSO_BLOCKS
    if BULK.search(found.quoted + found.quoted2):
        return _before_a_copy(found)
    also = " Within a block it orders global memory too." if problem.space == "global" else ""
    return where_a_barrier_belongs(found, BLOCK) + also


def _before_a_copy(found) -> str:
    """For a copy into what others may still read; in a kernel with roles, not all threads meet at a barrier."""
    barrier = "" if ARRIVES.search(found.raw.code) else "`__syncthreads();`, or at "
    return (
        "The copy may begin while others still read: whoever asks for it must first wait for all of them, at "
        f"{barrier}an mbarrier at which each of them arrives after its last read, not before it."
    )


def race_within_a_warp(found) -> str:
    """A race between two threads of one warp."""
    if found.problem.atomic != found.problem.atomic2:
        return _next_to_atomics(found, WARP)
    if _collide(found):
        return _one_element(found)
    if _also_between_blocks(found):
        return ALSO_BLOCKS
    placed = where_a_barrier_belongs(found, WARP)
    return f"The threads of a warp need not run in lockstep: {placed[:1].lower()}{placed[1:]}"


def _between_blocks(found) -> str:
    if _leaves_others_empty(found):
        return f"{NOT_ONE_TO_ONE}{_of_both(found)}"
    if head := _step_without_the_grid(found):
        return (
            f"The two blocks handle the same numbers: the loop on line {head} begins at a place of each block's own, "
            "but gridDim is not part of its step. Does it step over what the other blocks handle?"
        )
    if met := meeting(found):
        return met
    if found.line == found.line2 and steps_over(found.raw.code, found.line):
        if looked_up := _looked_up(found):
            return looked_up
        return "Two threads visit the same number: either it belongs to one of them, or both rightly add to it."
    if found.problem.write and found.problem.write2 and not _adds(found):
        return (
            f"{OTHER_BLOCKS}, so whichever comes last decides: give each block elements of its own. If each has a part "
            "of one result, let them add their parts with atomicAdd, or write all parts and add them in another launch."
        )
    atomics = "use atomicAdd, " if _adds(found) else ""
    return f"{OTHER_BLOCKS}: {atomics}give each block elements of its own, or do the second step in another launch."


def _also_between_blocks(found) -> bool:
    """Do these two instructions bring threads of two blocks to one element, too, as far as accesses were recorded?"""
    problem, trace = found.problem, found.raw.trace
    if trace is None or problem.space != "global" or prod(found.raw.grid) == 1:
        return False
    trace = trace[trace["argument"] == problem.argument]
    here, there = (trace[trace["pc"] == pc] for pc in (problem.pc, problem.pc2))
    blocks = {}
    for offset, block in zip(here["offset"].tolist(), here["block"].tolist()):
        blocks.setdefault(offset, set()).add(block)
    return any(
        blocks.get(offset, set()) - {block} for offset, block in zip(there["offset"].tolist(), there["block"].tolist())
    )


def _looked_up(found) -> str:
    """A sentence if threads with the same number in two blocks meet where the place depends on what they have read."""
    problem, lines = found.problem, mask(found.raw.code).splitlines()
    if problem.thread != problem.thread2:
        return ""
    text, _ = function_around(lines, found.line)
    made = needed(re.split(r"[-+*/]?=(?!=)", lines[found.line - 1])[0], text)
    read = [(name, value) for name, value in LOOKED_UP.findall(text) if name in made]
    if len(read) != 1:
        return ""
    ((name, value),) = read
    number = next(k for k, line in enumerate(lines, 1) if re.search(rf"\b{name}\s*=\s*{re.escape(value)}", line))
    return (
        f"The two blocks write the same place. It depends on `{name}`: line {number} looks it up, in `{value}`. Does "
        "it look where it should, so that no two blocks find the same there?"
    )


def _step_without_the_grid(found) -> int:
    """Line of a loop around both accesses that begins at the block's place, and steps without gridDim; 0 without."""
    lines = mask(found.raw.code).splitlines()
    for number in range(min(found.line, found.line2), 0, -1):
        head = STEPS.search(lines[number - 1])
        if not head or head_of(found.raw.code, LOOP, found.line, found.line2, number) != number:
            continue
        text, _ = function_around(lines, number)
        if "blockIdx" in needed(head[2], text) and "gridDim" not in needed(head[3], text):
            return number
    return 0


# ------------------------------------------------------------------------------------------------ one element


def _collide(found) -> bool:
    """Whether two threads write one element on one line, or in place of others': a barrier does not help then.

    Nor where a loop's step is too short.
    """
    if meeting(found):
        return True
    if found.line != found.line2 or not found.line:
        return found.problem.write and found.problem.write2 and (not found.line or _leaves_others_empty(found))
    mine = found.problem
    return any(
        item.write and item.write2 and not item.atomic and not item.atomic2
        for item in found.raw.problems
        if (item.space, item.argument) == (mine.space, mine.argument) and {item.pc, item.pc2} & {mine.pc, mine.pc2}
        if item.pc == item.pc2 or (item.pc, item.pc2) == (mine.pc, mine.pc2)
    )


def _leaves_others_empty(found) -> bool:
    """Are there two plain writes of one element, neither adding to it, while nobody writes some other element?"""
    problem = found.problem
    plain = problem.write and problem.write2 and not (problem.atomic or problem.atomic2)
    empty = any(other.kind == "never-written" and other.argument == problem.argument for other in found.raw.problems)
    return bool(plain and not _adds(found) and problem.space == "global" and problem.argument >= 0 and empty)


def _adds(found) -> bool:
    return any(ADDS.search(quoted) for quoted in (found.quoted, found.quoted2))


def _of_both(found) -> str:
    """What the index is made of in both threads, where that is known."""
    first, second = worked_out(found), worked_out(found, second=True)
    return f" The first has {first}; the other has {second}." if first and second else ""


def _one_element(found) -> str:
    if _leaves_others_empty(found):
        return f"{NOT_ONE_TO_ONE}{_of_both(found)}"
    if met := meeting(found) or the_same_for_all(found):
        return met
    if found.line and steps_over(found.raw.code, found.line):
        return _between_blocks(found)
    if turns := in_other_turns(found):
        return turns
    if beyond := column_beyond_its_row(found):
        return f"{beyond}{_of_both(found)}"
    row = _past_a_row(found)
    own = "give each an element of its own"
    others = f"{own}, or use atomicAdd if all of them must add" if _adds(found) else f"or {own}"
    return (
        f"The index is the same for both threads, so a barrier does not help{f'.{row}' if row else ':'} {ONE_WRITES} "
        "(`if (threadIdx.x == 0)`, or lane 0 where each warp has its own result), "
        f"{others}.{_of_both(found)}"
    )


def column_beyond_its_row(found) -> str:
    """A sentence if two threads meet because the column of one of them is not in its own row but in another one."""
    array, (first, second) = array_of(found.raw, found.problem), (of_the_index(found, which) for which in (False, True))
    if array is None or array.ndim < 2 or found.line != found.line2:
        return ""
    length, both = array.shape[-1], [name for name in first if name in second]
    for row, column in permutations(both, 2):
        apart = (first[row] - second[row]) * length + first[column] - second[column]
        inside, beyond = sorted((first[column], second[column]))
        if apart == 0 and first[row] != second[row] and 0 <= inside < length <= beyond:
            name = found.raw.arguments[found.problem.argument].name
            return (
                f"`{column}` is {beyond} in one of them, but a row of {name} has {length} numbers (0 to {length - 1}), "
                "so this is an element of another row: is a check of the column missing? One against the size of the "
                "whole array does not catch that."
            )
    return ""


def _past_a_row(found) -> str:
    """A question about a table's rows, which a flat index may leave without leaving the table."""
    array = array_of(found.raw, found.problem)
    if array is None or array.ndim < 2 or array.shape[-1] == 1:
        return ""
    name = found.raw.arguments[found.problem.argument].name
    return (
        f" Does the column of one of them lie beyond the {array.shape[-1]} of {name}, so that it writes into the next "
        "row? A check against the size of the whole array does not catch that. If both mean this element:"
    )


# ------------------------------------------------------------------------------------------------ next to atomics


def _next_to_atomics(found, barrier) -> str:
    """One party is an atomic, the other an ordinary access."""
    problem = found.problem
    between_blocks = problem.block2 not in (None, problem.block)
    if problem.write and problem.write2:
        if between_blocks:
            return f"{OTHER_BLOCKS}: set the start value before the launch, and use atomics for every later change."
        waiting = where_a_barrier_belongs(found, barrier)
        return f"Atomics protect only against other atomics: use one on both lines, or wait. {waiting}"
    if between_blocks:
        return (
            f"{OTHER_BLOCKS}: use the value that the atomic returns, read the result in a later launch, or let the "
            "block that finishes last read it (count the finished ones with an atomic, after `__threadfence();`). "
            + STALE
        )
    reads, updates = (found.line2, found.line) if problem.atomic else (found.line, found.line2)
    if reads and reads <= updates:
        return (
            "Other threads' atomics may come in between: use the value that the atomic returns, which is the old one, "
            f"or separate reading from updating by `{barrier}`, {reached(barrier)}. {STALE}"
        )
    return f"Other threads' atomics may still be to come. {where_a_barrier_belongs(found, barrier)}"
