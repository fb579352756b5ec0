"""Values that are read too late, or from the wrong end: a name that was given its value before something changed, and
an index of -1, which is the last one.

As in `missing`, these changes are made in the learner's function alone.
"""

import ast

import numpy as np

from llmc.course.mutants.loops import names_in, written
from llmc.course.mutants.places import blocks, places, quoted

FROM_0 = "__from_0__"  # the name under which the tree calls `from_0`


def changed(function):
    """Every (rank, words, changes) for the lines of a function; changes: (place, what hangs there instead)."""
    yield from _made_anew(function)
    yield from _wrapped(function)


def _made_anew(function):
    """`x - m` for `d` behind `d = x - m; m += …`: what the name holds is from before that line."""
    for block in blocks(function):
        for k, line in enumerate(block.node):
            if not (isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)):
                continue
            name, value = line.targets[0].id, line.value
            for j, other in enumerate(block.node[k + 1 :], k + 1):
                if not isinstance(other, (ast.Assign, ast.AugAssign)) or not written(other) & names_in(value):
                    continue
                for place in places(ast.Module(block.node[j + 1 :], [])):
                    if getattr(place.node, "id", "") == name and isinstance(place.node.ctx, ast.Load):
                        yield 1, f"with {quoted(value)} in place of `{name}`{place.around}", ((place, value),)


def _wrapped(function):
    """0 for `x[i - 1]` where that index is -1."""
    found = {}
    for place in places(function):
        node = place.node
        index = node.slice if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else None
        if isinstance(index, ast.BinOp) and isinstance(index.op, ast.Sub) and isinstance(index.right, ast.Constant):
            if isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, []).append(
                    (place, ast.Call(ast.Name(FROM_0, ast.Load()), [node.value, index], []))
                )
    for name, changes in found.items():
        why = f"with 0 for {quoted(changes[0][0].node)} where that index is negative: index -1 of `{name}` is its last"
        yield 1, why, tuple(changes)


def from_0(array, index):
    """array[index], and 0 where the index, a whole number or an array of them, is negative: what FROM_0 calls."""
    taken, lost = np.array(array[index]), np.asarray(index) < 0
    taken[lost] = 0
    return taken if taken.ndim else taken[()]
