"""Sentences about a change, of our solution or of the learner's function, that explains a wrong array."""

import ast
import re

from llmc.course.old.checks import causes, evidence, text, written
from llmc.course.old.checks.explain import listed, stopped
from llmc.course.old.checks.narrow import nearly
from llmc.course.old.checks.signatures import INVERSE, ROOT, SQUARE
from llmc.course.old.mutants.learners import given_to_names

MANY = 3  # lines that are listed
ANYWHERE = ("has the wrong sign", INVERSE, ROOT, SQUARE)
LEFT_OUT = re.compile(r"without the line `(.+)`")
NAME = re.compile(r"[A-Za-z_]\w*")
WRITES = re.compile(r"without the line `(\w+)\[")  # a line that writes into a buffer


def explained_by(case, got, found, sentence, inexact) -> list[str]:
    """The sentences for a change that explains the wrong array; sentence: what its numbers show, or None.

    inexact: a function of nothing, with sentences about small errors.
    """
    name = case.name
    first = [stopped(sentence or f"{name} has wrong values")]
    if found.ours and found.yours and sentence:
        return first  # which says it all
    if found.ours and found.yours and nearly(case):
        return [*first, *nearly(case, inexact())]  # any piece that a small error passes through would fit
    if found.ours and found.yours and _both_lack_a_piece(found):
        theirs, there = (words.removeprefix("without ") for words in (found.yours, found.ours))
        where = f"{theirs}{_in_its_place(theirs)}"
        if _is_ours(theirs):
            return [*first, *causes.remarks()]  # what lacks that piece has too few numbers left to tell a mistake
        same = theirs.split("`")[:2] == there.split("`")[:2]  # the text does not show what is wrong with it
        ours = "the same term, but in another place, or with other numbers in it" if same else there
        ours = "" if _names_theirs(there) and not same else f" Our solution has {ours}."
        return [*first, f"The mistake is in {where}: all else is right.{ours}", *causes.remarks()]
    if found.ours and found.yours:
        theirs = found.yours.removeprefix("without ")
        where = f"The mistake is in {theirs}{_in_its_place(theirs)}, and all else is right"
        return [*first, f"{where}: without it, your function gives what our solution gives {found.ours}."]
    if found.yours:
        return [*first, cured(name, found)]
    if found.partly:
        return [f"{name} is what it would be {found.ours}.", *causes.glossary(found.ours), *causes.other_results(got)]
    if sentence and any(words in sentence for words in ANYWHERE):
        return first  # it may be turned in many places, and what turns it in our solution may be right in theirs
    if sentence:
        return [*first, f"Our solution gives the same numbers {found.ours}.", *causes.glossary(found.ours)]
    renamed = written.renamed(got, case.adds) if LEFT_OUT.fullmatch(found.ours) else None
    if renamed:
        return [f"{name} has wrong values.", renamed, *causes.other_results(got)]
    alone = causes.other_results(got) if found.ours.startswith("without the line") else []
    early = [f"Does your function read `{each}` before it has written it?" for each in _written_by(found.ours, got)]
    ours = f"{name} has the values that our solution gives {found.ours}."
    return [ours, *_too_late(found.ours), *causes.glossary(found.ours), *alone, *early]


def _is_ours(piece) -> bool:
    """Does the line that the piece stands in, as its words quote it, stand in our solution to the letter?"""
    solution = causes.looked_into() and causes.looked_into().solution()
    _, found, line = piece.rpartition(" in ")
    quoted = line.removeprefix("the line ").strip("`")
    whole = re.compile(rf"(?<!\w){re.escape(quoted)}(?!\w)")
    return bool(found and solution and whole.search(ast.unparse(solution.tree)))


def _names_theirs(piece) -> bool:
    """Does this piece of our solution quote a name to which the learner's function gives another value?"""
    trees = text.tree_of(evidence.learners_function()), causes.looked_into().solution().tree
    theirs, ours = (
        {name: ast.unparse(value) for name, value in given_to_names(tree)} if tree else {} for tree in trees
    )
    return any(theirs.get(name, ours[name]) != ours[name] for name in NAME.findall(piece) if name in ours)


def _too_late(words) -> list[str]:
    """A sentence if the learner's function has the very line without which our solution gives the same."""
    line = LEFT_OUT.fullmatch(words)
    if not line or line[1] not in text.lines_of(evidence.learners_function()):
        return []
    return ["Your function has this line, so it comes too late there, or changes what is not used any more."]


def _in_its_place(piece) -> str:
    """Words on where else a mistake may be that shows in the quoted piece of the learner's function."""
    whole, lines = piece.startswith("the line"), text.lines_that_make(evidence.learners_function(), piece)
    before = f"in what goes into it{_named(lines)}"
    if whole:
        return f", or {before}"
    if not lines:  # a piece of arguments alone: they are right
        return f", or in its place{_named(text.lines_that_make(evidence.learners_function(), piece.split(' in ')[-1]))}"
    return f", in its place, or {before}"


def _named(lines) -> str:
    return f" ({listed(lines)})" if 0 < len(lines) <= MANY else ""


def _written_by(words, got) -> list[str]:
    """What a line that our solution lacks then writes, if the learner's function got that right."""
    written = WRITES.match(words)
    return [name for name in causes.right_results(got) if written and name == written[1]]


def cured(name, found) -> str:
    """The sentence for a change of the learner's function that makes an array right."""
    return f"Your function gives the right {name.removeprefix('the ')} {found.yours}."


def only_meet(found) -> bool:
    """Are they two changes that give the same, not just without a piece of either? Both places may be right then."""
    both = found.ours and found.yours
    return bool(both) and not all(words.startswith("without") for words in (found.ours, found.yours))


def _both_lack_a_piece(found) -> bool:
    """Are the changes "without the term …" of either function, say, or "without the factor …" of one of them?"""
    ours, yours = (words.split()[:3] for words in (found.ours, found.yours))
    return ours[0] == yours[0] == "without" and (ours == yours or {ours[2], yours[2]} <= {"term", "factor"})
