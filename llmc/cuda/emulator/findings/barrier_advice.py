"""Where a barrier belongs that makes one access of a race wait for the other, from a Finding and the kernel's text."""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.absences import exits
from llmc.cuda.emulator.findings.loops import (
    IF,
    LOOP,
    barrier_between,
    barriers_in_branches,
    branch_around_both,
    head_of,
    loop_around,
    turns_in_a_branch,
    two_branches,
    uneven_loop,
)
from llmc.cuda.emulator.findings.values import function_around, in_words

BLOCK, WARP = "__syncthreads();", "__syncwarp();"
READ_FIRST, OUTSIDE_OF_LOOPS = "read into a variable", "Some threads write here before others have read"


class Place(NamedTuple):
    """Where a barrier would mend a race."""

    head: str  # "end of a loop", "after a call" or "between"
    line: int  # of the loop or the call; of an `if` that a barrier between two lines must leave
    calls: tuple[int, ...]  # the lines that called the function with the lines of the race
    first: int = 0  # between these two lines
    second: int = 0

    def without_lines(self) -> "Place":
        """What places have in common that one barrier may serve."""
        return self._replace(first=0, second=0)


def where_a_barrier_belongs(found, barrier) -> str:
    """A sentence: between which lines, or why none fits there."""
    return _placed(found, barrier)[1]


def place_of_barrier(found, barrier) -> Place | None:
    """The place that this sentence names; None where the lines are not known, or where no barrier fits as it is."""
    return _placed(found, barrier)[0]


def _placed(found, barrier) -> tuple[Place | None, str]:
    code, (here, there, calls) = found.raw.code, lines_in_one_function(found)
    if not here or not there:
        return None, f"Put `{barrier}` between the two accesses, {reached(barrier)}.{_read_on(found)}"
    if here == there:
        return _same_line(code, here, barrier, calls)
    first, second = sorted((here, there))
    if barrier_between(code, first, second, barrier):
        barrier = BLOCK if barrier_between(code, first, second, BLOCK) else barrier  # a second one of its kind
        return _another_round(code, first, second, barrier, calls)
    if said := _in_turns(code, first, second, barrier):
        return said
    if head := two_branches(code, first, second):
        if outer := branch_around_both(code, first, second):
            return None, (
                f"The two lines are in the two branches of the `if` on line {head}, so no barrier fits between them, "
                f"nor inside the `if` on line {outer} unless all threads of the block take it."
            )
        return None, (
            f"The two lines are in the two branches of the `if` on line {head}, so no barrier fits between them: end "
            f"the `if` after line {first}, put `{barrier}` after it, {reached(barrier)}, and then line {second} into "
            "an `if` of its own."
        )
    if head := uneven_loop(code, first, second):
        return None, (
            f"The threads run the loop on line {head} different numbers of times, so a barrier cannot be inside it: "
            f"make two loops of it, one for line {first} and one for line {second}, with `{barrier}` between them."
        )
    head = branch_around_both(code, first, second)
    place, later = Place("between", head, calls, first, second), _or_earlier(found, second)
    first, second = found.between or (first, second)
    if head:
        wider = f", {reached(barrier)}" if barrier == WARP else ""
        return place, (
            f"Put `{barrier}` between line {first} and line {second}{wider}, but not inside the `if` on line {head} "
            "unless all threads of the block take it: end the `if` before the barrier and begin another one after it."
        )
    return place, f"Put `{barrier}` between line {first} and line {second}, {reached(barrier)}.{later}"


def _read_on(found) -> str:
    """A sentence: the lines of the function that read the array, where it is not known which of them was the other."""
    name, read = _name(found), lines_that_read(found)
    return f" {name} is read on line{'s' * (len(read) > 1)} {in_words([str(line) for line in read])}." if read else ""


def _name(found) -> str:
    return found.problem.array or (found.name if found.array is not None else "")


def lines_that_read(found) -> list[int]:
    """The lines of the function that holds the first access that read its array, if that has a name."""
    name, lines, read = _name(found), mask(found.raw.code).splitlines(), []
    if not name or not found.line:
        return []
    text, at = function_around(lines, found.line)
    first = found.line - text.count("\n", 0, at)
    for number, line in enumerate(text.splitlines(), first):
        if re.search(rf"\b{name}\s*\[", re.sub(rf"\b{name}\s*\[[^\[\]]*\]\s*=(?!=)", "", line)):
            read.append(number)
    return read


def _or_earlier(found, second) -> str:
    """A sentence for an array of the launch that is overwritten before it is read: which of the two values is meant?"""
    problem = found.problem
    reads = found.line if not problem.write else found.line2 if not problem.write2 else 0
    if problem.space != "global" or not second == reads:
        return ""
    return f" Or should line {second} still see the old value? Then read it before line {min(found.line, found.line2)}."


def lines_in_one_function(found) -> tuple[int, int, tuple[int, ...]]:
    """The lines of both parties in the function that holds both, and the lines that called that function."""
    here, there = found.chains[0][::-1], found.chains2[0][::-1]  # the kernel's own line first
    for depth, (line, line2) in enumerate(zip(here, there)):
        if line != line2:
            return line, line2, here[:depth][::-1]
    last = min(len(here), len(there)) - 1
    return (here[last], there[last], here[:last][::-1]) if last >= 0 else (0, 0, ())


def _same_line(code, line, barrier, calls) -> tuple[Place | None, str]:
    loop = loop_around(code, line)
    if head := uneven_loop(code, line, line):
        return None, (
            f"The threads run the loop on line {head} different numbers of times, so a barrier cannot be inside it: "
            f"let one loop read what it needs into variables, and, after `{barrier}`, another one write."
        )
    if said := _in_turns(code, line, line, barrier):
        return said
    if loop and not barrier_between(code, *loop, barrier):
        outer, text = head_of(code, IF, loop[0]), mask(code).splitlines()[loop[0] - 1]
        after = outer == loop[0] and IF.search(text).start() > LOOP.search(text).start()  # its `if` is the loop's body
        asked = outer and barrier == BLOCK and not after
        around = f" The loop is inside the `if` on line {outer}: do all threads of the block take it?" if asked else ""
        return Place("end of a loop", loop[0], calls), (
            f"Each round must see what the previous one wrote: put `{barrier}` at the end of the loop's body, outside "
            f"any `if`, so that all threads reach it.{around}"
        )
    if not loop and calls and loop_around(code, calls[0]):
        return Place("after a call", calls[0], calls[1:]), (
            f"Put `{barrier}` after the call on line {calls[0]}, since the loop around it calls the function again."
        )
    if loop and (inside := barriers_in_branches(code, *loop)):
        return None, (
            f"Each round must see what the previous one wrote, and the barrier of this loop is inside the `if` on line "
            f"{inside[0]}, where perhaps not every round passes it: put `{barrier}` at the end of the loop's body, "
            "outside any `if`."
        )
    if loop and (branch := head_of(code, IF, line)) >= loop[0]:
        return None, (
            "A thread reads here what another one writes in the same round: either the index by which it reads is "
            f"wrong, or the `if` on line {branch} lets too many threads in. If both are as they should be, "
            f"{READ_FIRST}, `{barrier}` outside of the `if`, then write."
        )
    if loop:
        return None, (
            "A thread reads here what another one writes in the same round. Is the index by which it reads right, and "
            f"should both take part in the round? Then {READ_FIRST}, `{barrier}`, {reached(barrier)}, then write."
        )
    return None, (
        f"{OUTSIDE_OF_LOOPS}. If the index by which these read is right, {READ_FIRST}, `{barrier}`, then write."
    )


def _in_turns(code, first, second, barrier) -> tuple[Place, str] | None:
    """Both, if something picks who acts in which round of a loop without a barrier that all go through; or None."""
    loop, branch = turns_in_a_branch(code, first, second)
    if not loop or barrier_between(code, *loop_around(code, loop), barrier):
        return None
    if uneven_loop(code, loop, loop) or any(number > loop for number, _ in exits(code, loop_around(code, loop)[1])):
        return None
    return Place("end of a loop", loop, ()), (
        f"Each round must see what the previous one wrote: put `{barrier}` at the end of the body of the loop on line "
        f"{loop}, outside {_statement(code, branch)} on line {branch}, so that all threads reach it."
    )


def _statement(code, head) -> str:
    return "the `if`" if IF.search(mask(code).splitlines()[head - 1]) else "the loop"


def barrier_of_one_turn(found, barrier) -> str:
    """A sentence if threads take turns in a loop, and its barriers are inside the `if` that picks whose turn it is."""
    code, (here, there, _) = found.raw.code, lines_in_one_function(found)
    loop, branch = turns_in_a_branch(code, here, there) if here and there else (0, 0)
    around = loop_around(code, loop) if loop else None
    inside = barriers_in_branches(code, *around) if around else []
    if not inside or {*inside} != {branch} or barrier_between(code, around[0], branch, barrier):
        return ""
    return (
        f"In each round of the loop on line {loop} other threads come here, and its barrier is inside the `if` on line "
        f"{branch}, where only those whose turn it is meet: put `{barrier}` after the `if`, so that all threads reach "
        "it in each round."
    )


def _another_round(code, first, second, barrier, calls) -> tuple[Place | None, str]:
    """There is a barrier between the lines, but not between these accesses."""
    if loop := loop_around(code, first, second):
        return Place("end of a loop", loop[0], calls), (
            f"There is a barrier between lines {first} and {second}, so line {second} of one round clashes with line "
            f"{first} of the next: put a second `{barrier}` at the end of the loop's body."
        )
    if calls:
        return Place("after a call", calls[0], calls[1:]), (
            f"There is a barrier between lines {first} and {second}, so line {second} of one call clashes with line "
            f"{first} of the next: put `{barrier}` at the end of the function, or after the call on line {calls[0]}."
        )
    there = f"There is a barrier between lines {first} and {second}, but"
    if inside := barriers_in_branches(code, first, second):
        return None, (
            f"{there} it is inside the `if` on line {inside[0]}, and some threads do not pass it: move it to where all "
            "threads of the block pass it."
        )
    return None, f"{there} these two threads do not wait for each other there. Do all threads of the block pass it?"


def reached(barrier) -> str:
    """How far a barrier reaches, and who must reach it."""
    return "where all threads of the block reach it" if barrier == BLOCK else f"or `{BLOCK}` if other warps take part"
