"""What the text of a kernel with wrong numbers shows by itself: a second variable, one without a value, and so on."""

import re

from llmc.course.kernel_checks.modelled import MODELS
from llmc.course.kernel_checks.one_and_the_same import cancelled
from llmc.cuda.emulator.compiling.text import line_at, mask

TYPE = re.compile(r"\b(?:float|double|int|unsigned|size_t|bool|float[24]|Moments|auto)\s+(?=\w+\s*[=;,])")
DECLARED = re.compile(r"(\w+)\s*(?:=(?:[^;,()]|\((?:[^()]|\([^()]*\))*\))+)?[,;]\s*")  # one of several, with its value
EMPTY = re.compile(r"\bif\s*\(\s*(\w+)\.count\s*(?:==|<=)\s*0(?:\.0*f?)?\s*\)\s*\{?\s*return\s+\1\s*;")  # lesson 13
SMALLER = re.compile(r"\bfminf\s*\(")


def shown_by_the_text(exercise, report) -> list[str]:
    """Sentences, each of which is true of this kernel and may be why its numbers are wrong."""
    code = report.raw.code
    found = [*_second_variables(code), *_without_a_value(report), *cancelled(code), *_empty_part(code)]
    return [*found, *_minimum(exercise, code)][:2]


def _second_variables(code) -> list[str]:
    """Declarations that hide a variable of the same name, which is used again after them."""
    text, found = mask(code), []
    declared = list(_declared(text))
    for outer in declared:
        end = _end_of_block(text, outer.start())
        for inner in declared:
            after = _end_of_block(text, inner.start())
            inside = outer.start() < inner.start() and after < end
            if inside and inner[1] == outer[1] and re.search(rf"\b{inner[1]}\b", text[after:end]):
                line, first = line_at(text, inner.start()), line_at(text, outer.start())
                found.append(
                    f"Line {line} declares a second `{inner[1]}`, which ends with the braces around it and leaves the "
                    f"one of line {first} as it is. Without the type in front, the line changes the first one."
                )
    return found


def _declared(text):
    """A match, with the name as group 1, for each variable of every line `float a = 0, b;`; not in `for (int c = …`."""
    for head in TYPE.finditer(text):
        at = head.end()
        while not text[: head.start()].rstrip().endswith("(") and (match := DECLARED.match(text, at)):
            yield match
            at = match.end() if "," in match[0][-2:] else len(text)


def _end_of_block(text, position) -> int:
    """Where the braces around a position close."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match[0] == "{" else -1
        if depth < 0:
            return match.start()
    return len(text)


def _without_a_value(report) -> list[str]:
    """The compiler's own notes."""
    notes = [note for note in report.notes if note.kind == "uninitialised-local"]
    sentences = [note.text.split("\n")[0].split(": ", 2)[-1] for note in notes]
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


def _empty_part(code) -> list[str]:
    """A part of a pair that is returned just where it is empty."""
    text = mask(code)
    return [
        f"Line {line_at(text, found.start())} returns `{found[1]}` just where `{found[1]}` is empty: what the other "
        "part holds is lost."
        for found in EMPTY.finditer(text)
    ]


def _minimum(exercise, code) -> list[str]:
    """A minimum where our solution has only maxima."""
    found, model = SMALLER.search(mask(code)), MODELS.get(exercise, "")
    if not found or "fmaxf" not in model or "fminf" in model:
        return []
    return [
        f"Line {line_at(code, found.start())} takes the smaller of two numbers; our solution takes only larger ones."
    ]
