"""The pieces of a preprocessed text (functions, methods, variables) and which of them use which, by their names.

This is no parser. Where it cannot tell, it says that one piece uses the other.
"""

import re
from typing import NamedTuple

from llmc.cuda.emulator.compiling.text import is_scope

WORD = re.compile(r"[A-Za-z_]\w*")
LIBRARY = re.compile(r"\b(?:std|cuda|cub|cooperative_groups|cg|nvcuda|wmma)\s*::\s*\w+")  # not a name of this text
KERNEL = re.compile(r"__attribute__\(\((?:flatten|unused)\)\)")  # what __global__ becomes
ATTRIBUTES = r"(?:\s*(?:__attribute__\s*\(\(.*?\)\)|(?:__align__|alignas)\s*\([^()]*\)))*"
CLASS = re.compile(rf"\b(?:struct|class|union)\b{ATTRIBUTES}\s*(\w+)[^()=]*$", re.DOTALL)
EVERYBODY = "operator"  # used without its name being written


class Unit(NamedTuple):
    """A function, a method, or a statement outside of both."""

    start: int
    end: int
    names: frozenset  # by which others use it
    uses: frozenset  # the words in it
    function: bool  # with a body, and not in a class


def units(text: str) -> list[Unit]:
    """The units of a text without comments, strings and directives, in order."""
    found, scopes, start, position = [], [], 0, 0
    mark = re.compile(r"[;{}]")
    while match := mark.search(text, position):
        position = match.end()
        head = text[start : match.start()]
        if match.group() == "{":
            opened = CLASS.search(head)
            if is_scope(head.strip()) or opened and not re.search(r"\)\s*$", head):
                scopes.append(opened[1] if opened else "")
            else:
                position = _end_of_body(text, match.start(), head)
                found.append(_unit(text, start, position, head, scopes))
        elif match.group() == ";":
            found.append(_unit(text, start, position, head, scopes))
        elif scopes:
            scopes.pop()
        start = position
    return found


def _end_of_body(text, opening, head) -> int:
    """Where the body that opens at `opening` ends; with a value in braces, where its statement ends."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            is_value = "(" not in head or re.search(r"=\s*$", head)
            end = text.find(";", match.end()) if is_value else -1
            return end + 1 if end >= 0 else match.end()
    return len(text)


def _unit(text, start, end, head, scopes) -> Unit:
    start += len(head) - len(head.lstrip())
    name, in_class = _name(head), scopes[-1] if scopes else ""
    names = {name}
    if in_class and (name in (in_class, EVERYBODY) or "~" in head):
        names = {in_class}
    body = text[end - 1 : end] == "}"
    words = frozenset(WORD.findall(LIBRARY.sub(" ", text[start:end])))
    if body and KERNEL.search(head):
        words -= names  # nothing launches itself; a function of the host may have the same name
    return Unit(start, end, frozenset(names), words, body and not in_class and EVERYBODY not in names)


def _name(head) -> str:
    """What a declaration declares: the word before its parameters, else the last word before its value."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?|\b(?:public|private|protected)\s*:", " ", head, flags=re.DOTALL)
    while (shorter := re.sub(r"<[^<>]*>", " ", head)) != head:
        head = shorter
    if member := re.search(r"(\w+)\s*::\s*(?:~|operator\b)", head):
        return member[1]
    if EVERYBODY in WORD.findall(head):
        return EVERYBODY
    before = re.split(r"\(|=|\[|(?<!:):(?!:)", head)[0]
    words = WORD.findall(before)
    return words[-1] if words else ""


def used_by(text, all_units, kernel) -> set[int]:
    """Indices of the units that a kernel uses, itself included; `kernel` may be a name expression, scale<float>."""
    words = WORD.findall(kernel)
    own = [i for i, unit in enumerate(all_units) if unit.names & {*words} and KERNEL.search(text, unit.start, unit.end)]
    if not own:
        return reached(all_units, words)
    names = set().union(*(all_units[i].names for i in own))
    uses = set(words).union(*(all_units[i].uses for i in own)) - names
    return reached(all_units, uses).union(own)


def reached(all_units, words) -> set[int]:
    """Indices of the units that something with these words uses, directly or by way of others."""
    by_name = {}
    for i, unit in enumerate(all_units):
        for name in unit.names:
            by_name.setdefault(name, []).append(i)
    found, waiting = set(), [*words, EVERYBODY]
    while waiting:
        for i in by_name.pop(waiting.pop(), ()):
            if i not in found:
                found.add(i)
                waiting += all_units[i].uses
    return found
