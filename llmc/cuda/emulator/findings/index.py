"""The index of an access out of bounds in the thread that made it: its value, its parts, and what mends it."""

import re
from functools import cached_property

from llmc.cuda.emulator.compiling.text import closing, mask
from llmc.cuda.emulator.findings.guards import COORDINATES, NAME, VALUE, computed_from, conditions_around
from llmc.cuda.emulator.findings.loops import loop_around
from llmc.cuda.emulator.findings.rounds import loops_around, rounds
from llmc.cuda.emulator.findings.values import (
    CONSTANT,
    MOST,
    declared,
    evaluated,
    function_around,
    listed,
    needed,
    of_the_launch,
    value,
)

MOST_ROUNDS = 5000  # that are tried
MOST_TRIED = 64  # smaller values of a name


class Index:
    """`text`, which is the problem's index in the thread of a Finding: with what was added to the array's pointer.

    values: {name: value} of all that is known there; fixed: {name: expression} of variables that never change.
    """

    def __init__(self, found, text, values, fixed):
        self.found, self.text, self.values, self.fixed = found, text, values, fixed
        self.lines = mask(found.raw.code).splitlines()[: found.line]
        self.conditions = conditions_around(found)
        self.length = found.array.nbytes // found.problem.size  # in elements, or in vectors
        self.number = found.problem.offset // found.problem.size

    @property
    def moved(self) -> bool:
        """Was something added to the pointer before it was indexed?"""
        return value(self.text[: closing(self.text, 0) + 1], self.values) != 0

    @cached_property
    def expanded(self) -> str:
        """The text with each variable replaced by its expression if conditions have only what it is made of."""
        text = self.text
        for _ in self.fixed:
            for name in NAME.findall(text):
                if name in self.fixed and self._is_checked_inside(name):
                    text = re.sub(rf"\b{name}\b", f"({self.fixed[name]})", text)
        return text

    @cached_property
    def names(self) -> list[str]:
        """The variables of the index, in their order there: `row` and `c`, not the argument `C`."""
        given = {argument.name for argument in self.found.raw.arguments} | set(self._constants)
        return [name for name in dict.fromkeys(NAME.findall(self.expanded)) if name not in given and self.known(name)]

    def known(self, name) -> bool:
        """Is its value worked out, and does it differ from thread to thread or from round to round?"""
        return not name.startswith(("blockDim", "gridDim")) and name.replace(".", "_") in self.values

    def of(self, name) -> int:
        """Its value."""
        return self.values[name.replace(".", "_")]

    def at(self, name, number) -> int | None:
        """The index if that name had this value."""
        return value(self.expanded, self.values | {name.replace(".", "_"): number})

    def matters(self, name) -> bool:
        """Would a smaller value of this name alone bring the access inside?"""
        own = self.of(name)
        tried = {*range(0, own, max(1, own // MOST_TRIED)), own - 1} if own else ()
        return any((index := self.at(name, number)) is not None and index < self.length for number in tried)

    def _is_checked_inside(self, name) -> bool:
        """Does an `if` mention what this variable is a sum of, though none mentions the variable itself?"""
        if any(name in condition.names for condition in self.conditions) or re.search(r"[/%>]", self.fixed[name]):
            return False
        inner = computed_from({name}, self.lines) - {name} - COORDINATES - {a.name for a in self.found.raw.arguments}
        return any(inner & condition.names for condition in self.conditions if not condition.in_loop)

    @property
    def _constants(self) -> list[str]:
        return [name for name, _ in CONSTANT.findall(mask(self.found.raw.code))]


def worked_out_index(found) -> Index | None:
    """The Index of a Finding; None where it cannot be told, or would not be the one that the access had."""
    if found.array is None or found.problem.offset < 0 or found.problem.offset % found.problem.size:
        return None
    lines, target = mask(found.raw.code).splitlines(), found.problem.offset // found.problem.size
    (text, at), known = function_around(lines, found.line), of_the_launch(found)
    loops = loops_around(lines, found.line)
    fixed = {name: source for name, source in declared(text, at).items() if name not in {name for name, *_ in loops}}
    seen = {candidate: [] for candidate in _candidates(found, text, lines[found.line - 1 : found.line])}
    for tried, turn in enumerate(rounds(loops, known, fixed)):
        here = known | turn | evaluated(fixed, known | turn)
        for candidate, there in seen.items():
            if value(candidate, here) == target:
                there.append(here)
        if tried == MOST_ROUNDS:
            return None
    fitting = [(candidate, there) for candidate, there in seen.items() if there]
    if len(fitting) != 1:
        return None
    ((candidate, (first, *others)),) = fitting
    agreed = {name: number for name, number in first.items() if all(one.get(name) == number for one in others)}
    return Index(found, candidate, agreed, fixed) if value(candidate, agreed) == target else None


def values_of(index) -> str:
    """ "k0 = 32, r = 1 and lane = 0": the variables of an Index and what they are made of, in the text's order."""
    text, _ = function_around(mask(index.found.raw.code).splitlines(), index.found.line)
    far = {
        name: step for name, step in needed(index.text, text).items() if re.search(rf"\b{re.escape(name)}\s*=", text)
    }
    known = sorted((name for name in far if name in index.values), key=far.get)[:MOST]
    at = {name: re.search(rf"\b{name}\s*=", text).start() for name in known}
    return listed({name: index.values[name] for name in sorted(known, key=at.get)})


def _candidates(found, text, line) -> set[str]:
    """What may be the index on the line, with what was added to the pointer: `(row * C) + (c)`."""
    if not line:
        return set()
    if found.problem.size != found.array.itemsize:  # of a vector: its pointer has another name
        pointers = {name: "0" for name in re.findall(r"\b(\w+)\s*\[", line[0])} if _moves(found, text) == [] else {}
    else:
        pointers = _pointers(found, text)
    return {
        f"({base}) + ({index.strip()})"
        for name, base in pointers.items()
        for index in re.findall(rf"\b{re.escape(name)}\s*\[([^\[\]]*)\]", line[0])
    }


def _pointers(found, text) -> dict[str, str]:
    """{name: what was added} of the array itself and of pointers such as `const float* x_row = x + row * C;`."""
    moves, name = _moves(found, text), re.escape(found.name)
    if moves is None:
        return {}
    moved = " + ".join(["0", *(f"({step})" for step in moves)])
    alias = re.compile(
        rf"\*\s*(?:const\s+|__restrict__\s+)*(\w+)\s*=\s*(?:{name}\s*(?:\+\s*({VALUE}))?|&{name}\s*\[([^\[\]]*)\])\s*[;,]"
    )
    others = {new: f"{moved} + ({plus or at or 0})" for new, plus, at in alias.findall(text)}
    kept = {new: base for new, base in others.items() if not re.search(rf"(?<![\w.*]){new}\s*(?:[-+]=|\+\+|--)", text)}
    return {found.name: moved} | kept


def _moves(found, text) -> list[str] | None:
    """The steps of `x += …` by which the pointer of a Finding's array is moved; None if it moves in another way."""
    name = re.escape(found.name)
    moves = re.findall(rf"(?<![\w.*]){name}\s*\+=\s*({VALUE})[;,]", text)
    lines = mask(found.raw.code).splitlines()
    head = next((n for n in range(found.line, 0, -1) if text.startswith(lines[n - 1])), 1)
    changes = [n for n, line in enumerate(text.splitlines(), head) if re.search(rf"(?<![\w.*]){name}\s*\+=", line)]
    again = re.search(rf"(?<![\w.*]){name}\s*(?:-?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{name}\b", text)
    return None if again or any(loop_around(found.raw.code, number) for number in changes) else moves
