"""Values that are read too late, or from the wrong end: a name that was given its value before something changed, and
an index of -1, which is the last one.

As in `missing`, these changes are made in the learner's function alone.
"""

import ast

import numpy as np

from llmc.course.old.mutants.loops import names_in, root_of, written
from llmc.course.old.mutants.places import blocks, named, places, quoted

READERS = (ast.Assign, ast.AugAssign, ast.For)
FROM_0 = "__from_0__"  # the name under which the tree calls `from_0`


def changed(function):
    """Every (rank, words, changes) for the lines of a function; changes: (place, what hangs there instead)."""
    yield from _read_too_soon(function)
    yield from _wrapped(function)


def _read_too_soon(function):
    """A line that changes what an earlier one reads, before that one; else `x - m` for `d`, behind `d = x - m; m += …`.

    That what a name was computed from is computed again, is a mistake only where the line between needs the old value.
    """
    for block in blocks(function):
        for k, line in enumerate(block.node):
            reads = names_in(line.value if isinstance(line, ast.Assign) else line) if isinstance(line, READERS) else ()
            for j, other in enumerate(block.node[k + 1 :], k + 1):
                if not reads or not isinstance(other, ast.Assign | ast.AugAssign) or not written(other) & reads:
                    continue
                needed = _needs(other, block.node[k:j])
                if not needed:
                    yield _moved(block, k, j, min(written(other) & reads))
                if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                    name, value = line.targets[0].id, line.value
                    later = [p for p in places(ast.Module(block.node[j + 1 :], [])) if _reads(p.node, name)]
                    if needed or len(later) > 1 or any(name in names_in(each) for each in block.node[k + 1 : j]):
                        for place in later:
                            yield 1, f"with {quoted(value)} in place of `{name}`{place.around}", ((place, value),)


def _reads(node, name) -> bool:
    return getattr(node, "id", "") == name and isinstance(node.ctx, ast.Load)


def _needs(line, before) -> bool:
    """Does it use, or write to, what those lines make?"""
    stored = (n for each in before for n in ast.walk(each) if isinstance(n, ast.Name | ast.Subscript))
    made = {root_of(node) for node in stored if isinstance(node.ctx, ast.Store)}
    return bool(made & names_in(line))


def _moved(block, k, j, changed):
    """Line j, which changes what that name holds, before line k, which reads it."""
    lines = block.node
    first, second = (named(lines[n]).removeprefix("the line ") for n in (k, j))
    words = f"with the line {second} before {named(lines[k])}, where `{changed}` is read"
    if j == k + 1 and isinstance(lines[k], ast.Assign):
        order = f"the first reads `{changed}`, which the second changes"
        words = f"with the lines {first} and {second} in the other order: {order}"
    return 1, words, ((block, [*lines[:k], lines[j], *lines[k:j], *lines[j + 1 :]]),)


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
