"""What the text of a kernel with wrong numbers shows by itself: a variable without a value, a factor 1, and so on."""

import re

from llmc.course.old.kernel_checks.modelled import MODELS
from llmc.course.old.kernel_checks.one_and_the_same import cancelled
from llmc.cuda.emulator.compiling.text import line_at, mask, statements
from llmc.cuda.emulator.findings.loops import condition_around, loop_around

EMPTY = re.compile(r"\bif\s*\(\s*(\w+)\.count\s*(?:==|<=)\s*0(?:\.0*f?)?\s*\)\s*\{?\s*return\s+\1\s*;")  # lesson 13
MAY_USE = re.compile(r"\bmay use (\w+),")
SMALLER = re.compile(r"\bfminf\s*\(")


def shown_by_the_text(exercise, report) -> list[str]:
    """Sentences, each of which is true of this kernel and may be why its numbers are wrong."""
    code = report.raw.code
    found = [*_without_a_value(report), *cancelled(code), *_empty_part(code)]
    return [*found, *_minimum(exercise, code)][:2]


def _without_a_value(report) -> list[str]:
    """The compiler's own notes."""
    notes = [note for note in report.notes if note.kind == "uninitialised-local"]
    sentences = [(note.text.split("\n")[0].split(": ", 2)[-1], note.line) for note in notes]
    code = report.raw.code
    sure = [each for each in sentences if not _under_one_condition(code, *each)]
    return [_of_an_earlier_loop(code, *each) or f"{each[0][:1].upper()}{each[0][1:]}" for each in sure]


def _under_one_condition(code, sentence, line) -> bool:
    """Does the variable that "may" have no value get it under the very condition under which it is used?"""
    name = MAY_USE.search(sentence)
    text = statements(code)
    given = re.finditer(rf"(?<![\w.]){name[1]}\s*=(?!=)", text) if name else ()
    before = [number for number in (line_at(text, match.start()) for match in given) if number < line]
    asked = {condition_around(text, number, line) for number in before}
    return len(before) == 1 and "" not in asked and asked == {condition_around(text, line, before[0])}


def _of_an_earlier_loop(code, sentence, line) -> str:
    """A sentence if the variable that "may" have no value gets it in a loop that has ended before; else ""."""
    name = MAY_USE.search(sentence)
    gets = re.compile(rf"(?<![\w.]){name[1]}\s*=(?!=)") if name else None
    lines = mask(code).splitlines()[: line - 1] if name else []
    last = next((number for number in range(len(lines), 0, -1) if gets.search(lines[number - 1])), 0)
    loop = loop_around(code, last) if last else None
    if not loop or loop[1] >= line:
        return ""
    return f"In line {line}, {name[1]} is what line {last} has given it in the last turn of the loop on line {loop[0]}."


def _empty_part(code) -> list[str]:
    """A part of a pair that is returned just where it is empty."""
    text = mask(code)
    return [
        f"Line {line_at(text, found.start())} returns `{found[1]}` just where `{found[1]}` is empty: what the other "
        "part holds is lost."
        for found in EMPTY.finditer(text)
        if not re.search(rf"(?<![\w.]){found[1]}(?:\.count)?\s*[-+*/]?=(?!=)", text[: found.start()])
    ]


def _minimum(exercise, code) -> list[str]:
    """A minimum where our solution has only maxima."""
    found, model = SMALLER.search(mask(code)), MODELS.get(exercise, "")
    if not found or "fmaxf" not in model or "fminf" in model:
        return []
    return [
        f"Line {line_at(code, found.start())} takes the smaller of two numbers; our solution takes only larger ones."
    ]
