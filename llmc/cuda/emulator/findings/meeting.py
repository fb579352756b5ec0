"""A loop that brings two threads to one number, although they begin at different ones: its step is too short."""

import re
from itertools import islice

from llmc.cuda.emulator.compiling.text import mask
from llmc.cuda.emulator.findings.barrier_advice import lines_in_one_function
from llmc.cuda.emulator.findings.loops import end_of_statement
from llmc.cuda.emulator.findings.rounds import loops_around, rounds
from llmc.cuda.emulator.findings.values import declared, evaluated, function_around, needed, of_the_launch, value

MOST = 4096  # turns of a loop that are looked at
ELEMENT = r"(\w+\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\])(?:\.\w)?"
SET = re.compile(rf"(?:{ELEMENT}|\*\s*(\w+|\([^;=]*\)))\s*[-+*/]?=(?!=)")


def meeting(found) -> str:
    """A sentence if the threads of a race meet at one value of a loop's variable that decides what is written.

    "" where that cannot be worked out, and where both begin at the same value: then both are meant to go through it.
    """
    lines, (here, there, _) = mask(found.raw.code).splitlines(), lines_in_one_function(found)
    known = [of_the_launch(found, second) for second in (False, True)]
    if not here or not there or not all(known):
        return ""
    text, at = function_around(lines, here)
    fixed, made = declared(text, at), needed(_written(lines, here if found.problem.write else there), text)
    for name, first, *rest in (loop for loop in loops_around(lines, min(here, there)) if loop[0] in made):
        number = _head(lines, name, first, here, there)
        mine, its = (_turns((name, first, *rest), each, fixed) for each in known)
        steps = {value(rest[1], each | evaluated(fixed, each)) for each in known}
        both = sorted({*mine} & {*its})
        if number and both and mine[0] != its[0] and len(steps) == 1 and None not in steps:
            return (
                f"The loop on line {number} brings both threads to `{name}` = {both[0]}: the first begins with "
                f"{mine[0]}, the other with {its[0]}, and a step is {steps.pop()}. If each `{name}` is for one of them "
                "alone, every step must lead past all the numbers at which others begin."
            )
    return ""


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


def _turns(loop, known, fixed) -> list[int]:
    return [turn[loop[0]] for turn in islice(rounds([loop], known, fixed), MOST)]
