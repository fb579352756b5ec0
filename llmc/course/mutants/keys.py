"""Mistakes with the keys of a dict: a["ln2_rstd"] for a["ln1_rstd"], as in a line that was copied."""

import ast

from llmc.course.mutants.places import places, quoted


def changed(function):
    """Every (rank, words, changes) for the keys that a function reads; changes: (place, what hangs there instead)."""
    read = [place for place in places(function) if _is_read(place.node)]
    keys = {}  # {name of a dict: its keys in the function}
    for place in read:
        keys.setdefault(place.node.value.id, {})[place.node.slice.value] = None
    for place in read:
        node = place.node
        for other in keys[node.value.id]:
            if other != node.slice.value:
                new = ast.Subscript(node.value, ast.Constant(other), ast.Load())
                yield 2, f"with {quoted(new)} in place of {quoted(node)}{place.around}", ((place, new),)


def _is_read(node) -> bool:
    """Is it `a["ln1"]`, and not written to?"""
    found = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
    return found and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
