"""Mistakes with the keys of a dict: a["ln2_rstd"] for a["ln1_rstd"], as in a line that was copied."""

import ast

from llmc.course.old.mutants.places import places, quoted


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
    yield from _several(read, keys)


def _several(read, keys):
    """The same for keys of one line that begin alike: a["ln1_mean"], a["ln1_rstd"] for those of "ln2"."""
    for line in {_line(place): None for place in read}:
        mine = [place for place in read if _line(place) is line and "_" in place.node.slice.value]
        for name, start in {(p.node.value.id, _start(p)): None for p in mine}:
            same = [p for p in mine if (p.node.value.id, _start(p)) == (name, start)]
            for other in {key.split("_")[0]: None for key in keys[name] if not key.startswith(f"{start}_")}:
                new = [f"{other}_{p.node.slice.value.partition('_')[2]}" for p in same]
                if len(set(new)) > 1 and set(new) <= set(keys[name]):
                    nodes = [ast.Subscript(p.node.value, ast.Constant(key), ast.Load()) for p, key in zip(same, new)]
                    words = " and ".join(f"{quoted(node)} in place of {quoted(p.node)}" for node, p in zip(nodes, same))
                    yield 2, f"with {words}", tuple(zip(same, nodes))


def _line(place):
    return next(node for node in place.above if isinstance(node, ast.stmt))


def _start(place) -> str:
    return place.node.slice.value.split("_")[0]


def _is_read(node) -> bool:
    """Is it `a["ln1"]`, and not written to?"""
    found = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
    return found and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
