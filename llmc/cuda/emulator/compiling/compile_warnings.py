"""Local variables that are read before they get a value: what the compiler says about them, kept in the library.

Only the compiler sees this: a variable that lives in a register leaves no trace in memory. Its warnings become a text
in the compiled library, `llmc_warnings`, which `launching/` turns into notes of a report.
"""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.dynamic_shared import KERNEL_FILE

QUOTES = str.maketrans("‘’“”`", "'''''")
FUNCTION = re.compile(r"(?:In function|inlined from) '([^']*)'")
PLACE = re.compile(rf"\b{re.escape(KERNEL_FILE)}:(\d+)")
WARNING = re.compile(r"warning: (?:variable )?'([^']+)' (is|may be) (?:used )?uninitialized")
DECLARED = re.compile(r"note: '[^']+' (?:was )?declared here")
OURS = re.compile(r"\bllmc_\w+\.h:\d+")
NAME = re.compile(r"(\w+)\s*(?:<.*>)?\s*\(")


class Warning(NamedTuple):
    """A variable that is, or may be, used without a value; `functions` are those that its code was found in."""

    line: int
    variable: str
    certain: bool
    declared: int  # line of its declaration, 0 if that is not known
    functions: tuple[str, ...]  # () if the compiler does not say


def read(said: str) -> list[Warning]:
    """The warnings in what g++ or clang++ said, in order."""
    found, functions, inlined_at = [], [], 0
    for row in said.translate(QUOTES).splitlines():
        place = PLACE.search(row)
        if function := FUNCTION.search(row):
            functions = [] if "In function" in row else functions
            inlined_at = int(place[1]) if place else inlined_at * ("In function" not in row)
            functions.append((*NAME.findall(function[1]), "")[0])
        elif warning := WARNING.search(row):
            line = inlined_at or int(place[1] if place else 0)
            found.append(Warning(line, warning[1], warning[2] == "is", 0, tuple(functions)))
        elif found and DECLARED.search(row) and (place or OURS.search(row)):
            found[-1] = found[-1]._replace(declared=int(place[1])) if place else found[-1]._replace(line=0)
    return [warning for warning in found if warning.line]


def in_cpp(said: str) -> str:
    """C++ that defines llmc_warnings for a library, "" if there are no warnings."""
    rows = [f"{w.line} {w.variable} {w.certain:d} {w.declared} {','.join(w.functions)}\\n" for w in read(said)]
    text = "".join(dict.fromkeys(rows))
    keep = 'extern "C" __attribute__((visibility("default"))) const char llmc_warnings[]'
    return f'{keep} = "{text}";\n' if text else ""


def from_text(text: str) -> list[Warning]:
    """The warnings that a library carries."""
    rows = [row.split(" ") for row in text.splitlines()]
    return [Warning(int(a), b, c == "1", int(d), tuple(filter(None, e.split(",")))) for a, b, c, d, e in rows]
