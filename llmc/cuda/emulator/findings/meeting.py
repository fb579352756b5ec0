"""Loops that bring two threads of a race to one number, although each should have numbers of its own."""

import re
from itertools import islice

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.absences import OURS
from llmc.cuda.emulator.findings.barrier_advice import lines_in_one_function
from llmc.cuda.emulator.findings.loops import end_of_statement
from llmc.cuda.emulator.findings.rounds import loops_around, rounds
from llmc.cuda.emulator.findings.values import (
    NAME,
    declared,
    evaluated,
    function_around,
    in_words,
    listed,
    needed,
    of_the_launch,
    value,
)

MOST = 4096  # rounds of a loop that are looked at
ELEMENT = r"(\w+\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\])(?:\.\w)?"
SET = re.compile(rf"(?:{ELEMENT}|\*\s*(\w+|\([^;=]*\)))\s*[-+*/]?=(?!=)")
SHARES = re.compile(r"[/%&]|>>")  # threadIdx.x % 32: the threads of several warps are meant to begin alike
ALONE = "If each `{name}` is for one of them alone"


def meeting(found) -> str:
    """A sentence if the threads of a race meet at one value of a loop's variable that decides what is written.

    "" where that cannot be worked out, and where the loop begins with the same for both: then it is meant for both.
    """
    lines, (here, there, _) = mask(found.raw.code).splitlines(), lines_in_one_function(found)
    known = [of_the_launch(found, second) for second in (False, True)]
    if not here or not there or not all(known):
        return ""
    text, at = function_around(lines, here)
    fixed, made = declared(text, at), needed(_written(lines, here if found.problem.write else there), text)
    known = [each | evaluated(fixed, each) for each in known]
    for loop in (each for each in loops_around(lines, min(here, there)) if each[0] in made):
        if (number := _head(lines, *loop[:2], here, there)) and (met := _met(loop, known, number)):
            return met
    return ""


def the_same_for_all(found) -> str:
    """A sentence if two threads write one element on one line, whose place depends on a loop but not on the thread."""
    lines, line = mask(found.raw.code).splitlines(), found.line
    text, _ = function_around(lines, line) if line else ("", 0)
    if line != found.line2 or "__global__" not in text:
        return ""
    place, loops = _written(lines, line), loops_around(lines, line)
    made = needed(place, text)
    inner = [loop[:2] for loop in loops if loop[0] in made]
    if {"threadIdx", "thread_rank", *OURS.findall("\n".join(lines))} & {*made} or not inner or not place.endswith("]"):
        return ""
    name, first = inner[-1]
    parted = [loop[:2] for loop in loops if loop[0] not in made and "threadIdx" in needed(loop[1], text)]
    heads = [_head(lines, *loop, line, line) for loop in parted[-1:]]
    turns = "".join(f" Each thread then needs all turns of the loop on line {k}, not a part of them." for k in heads)
    same = f"Nothing in `{place}` differs between the threads of a block: all that come here write the same elements."
    if first.strip() != "0":  # a part of the elements, perhaps for a part of the threads
        return f"{same} Should one of them alone do it, or each have elements of its own?"
    return (
        f"{same} If they are to share them out, begin the loop on line {_head(lines, name, first, line, line)} at "
        f"`{name} = threadIdx.x`, in steps of blockDim.x.{turns}"
    )


def in_other_turns(found) -> str:
    """A sentence if two threads write one element on one line, each in a different round of its loops; else ""."""
    problem, lines = found.problem, mask(found.raw.code).splitlines()
    known = [of_the_launch(found, second) for second in (False, True)]
    if not found.line or found.line != found.line2 or not all(known) or not problem.size:
        return ""
    text, at = function_around(lines, found.line)
    targets = re.findall(r"(\w+)\s*\[(.*)\]", _written(lines, found.line))
    if len(targets) != 1 or "threadIdx" in needed(targets[0][0], text):  # each thread has a pointer of its own
        return ""
    index, fixed = targets[0][1], declared(text, at)
    loops, element = loops_around(lines, found.line), problem.offset // problem.size
    made = [loop[0] for loop in loops if loop[0] in needed(index, text)]
    mine, its = (
        [
            ({variable: turn[variable] for variable in made}, _parts(index, there))
            for turn in islice(rounds(loops, each, fixed), MOST)
            if value(index, there := each | turn | evaluated(fixed, each | turn)) == element
        ]
        for each in known
    )
    if not mine or not its or any(turn == other for turn, _ in mine for other, _ in its):
        return ""
    (turn, parts), (other, others) = mine[0], its[0]
    steps = in_words([f"`{variable}`" for variable in made if turn[variable] != other[variable]])
    return (
        f"`{' '.join(index.split())}` is {element} for both threads, in different turns: the first has "
        f"{listed(parts)}, the other has {listed(others)}. If each is to have elements of its own, a step of {steps} "
        "must lead past those that the others have."
    )


def _met(loop, known, number) -> str:
    """The sentence about the loop on this line. known: {name: value} of both threads."""
    name, first, _, step = loop
    mine, its = ([turn[name] for turn in islice(rounds([loop], each, {}), MOST)] for each in known)
    steps, both = {value(step, each) for each in known}, sorted({*mine} & {*its})
    if not both or len(steps) != 1 or None in steps:
        return ""
    alone, parts = ALONE.format(name=name), [_parts(first, each) for each in known]
    if mine[0] == its[0] and parts[0] != parts[1] and not SHARES.search(first):
        first = " ".join(first.split())
        return (
            f"The loop on line {number} begins with `{name}` = {mine[0]} for both threads: in `{first}`, the first has "
            f"{listed(parts[0])}, the other has {listed(parts[1])}. {alone}, they must begin with different ones."
        )
    if mine[0] == its[0]:
        return ""
    return (
        f"The loop on line {number} brings both threads to `{name}` = {both[0]}: the first begins with {mine[0]}, the "
        f"other with {its[0]}, and a step is {steps.pop()}. {alone}, one of the two does not belong in this loop, or "
        "every step must lead past all the numbers at which others begin."
    )


def _parts(expression, known) -> dict:
    """{name: value} of the names in an expression, as they stand there."""
    names = dict.fromkeys(re.findall(rf"{NAME.pattern}(?:\.[xyz])?", expression))
    return {name: known[name.replace(".", "_")] for name in names if name.replace(".", "_") in known}


def _written(lines, line) -> str:
    """What the statement that goes on to this line sets, with its index; all of it where a function is called."""
    text = "\n".join(lines[:line])
    begin = len(text) - len(lines[line - 1])
    statement = text[max(text.rfind(mark, 0, begin) for mark in ";{}") + 1 :]
    return " ".join("".join(parts) for parts in SET.findall(statement)) or statement


def _head(lines, name, first, here, there) -> int:
    """The line of the loop with this beginning that holds both lines; 0 without."""
    begins = re.compile(rf"\bfor\s*\([^;]*\b{name}\s*=\s*{re.escape(first)}")
    for number in range(min(here, there), 0, -1):
        head = begins.search(lines[number - 1])
        if head and end_of_statement(lines, number, head.start())[0] >= max(here, there):
            return number
    return 0
