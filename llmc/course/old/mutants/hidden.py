"""The mistake of an index with the name of an argument: after `for b in range(B)`, `+ b` no longer adds the bias."""

import ast

from llmc.course.old.mutants.loops import names_in
from llmc.course.old.mutants.places import places

WORDS = "with another name for the loop's index `{0}`, which hides the argument `{0}`"


def changed(function):
    """Every (rank, words, changes) for the arguments that a loop hides; changes: (place, what hangs there instead)."""
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
    for name in [argument.arg for argument in function.args.args]:
        hiding = [loop for loop in loops if any(getattr(node, "id", "") == name for node in ast.walk(loop.target))]
        inside = {id(node) for loop in hiding for part in (loop.target, *loop.body) for node in ast.walk(part)}
        found = [p for p in places(function) if getattr(p.node, "id", "") == name and id(p.node) in inside]
        indices = [place for place in found if isinstance(place.node.ctx, ast.Store) or is_index(place)]
        for some in (indices, found) if len(indices) < len(found) else (found,) * bool(found):
            yield 1, WORDS.format(name), tuple((place, ast.Name(f"{name}_", place.node.ctx)) for place in some)


def hiding(function, line) -> list[str]:
    """Sentences about the loops that hide an argument which that line reads, and not as an index."""
    names = {argument.arg for argument in function.args.args}
    read = [p for p in places(function) if isinstance(p.node, ast.Name) and p.node.lineno == line and not is_index(p)]
    names &= {place.node.id for place in read if isinstance(place.node.ctx, ast.Load)}
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For) and node.lineno < line]
    return [
        f"In that line `{node.id}` is the loop's index, not the argument: is that meant?"
        for loop in loops
        for node in ast.walk(loop.target)
        if getattr(node, "id", None) in names and node.id not in names_in(loop.iter)
    ]


def is_index(place) -> bool:
    """Is it something that stands in the brackets of x[b, t]?"""
    within = zip((place.node, *place.above), place.above)
    return any(isinstance(outer, ast.Subscript) and outer.slice is node for node, outer in within)
