"""Lines that belong together, one of which is unlike the other: exchanged values, a line or a weight that only one has,
an index that is one too large wherever a line has it.

As in `missing`, these changes are made in the learner's function alone.
"""

import ast
from itertools import combinations

from llmc.course.old.mutants.loops import names_in, root_of
from llmc.course.old.mutants.places import Place, blocks, places, quoted
from llmc.course.old.mutants.stoppable import is_tick

NEAR = 4  # lines among which two are looked for
OFFSETS = (ast.Add, ast.Sub)


def changed(function):
    """Every (rank, words, changes) for the lines of a function; changes: (place, what hangs there instead)."""
    found = blocks(function)
    for block in found:
        for i, j in combinations(range(len(block.node)), 2):
            if j - i <= NEAR:
                yield from _exchanged(block, i, j)
        for line in block.node:
            yield from _index_of_the_target(line)
    yield from _as_in_the_other(found)
    yield from _in_the_other(found)
    for block in found:
        for k, line in enumerate(block.node):
            if not hasattr(line, "body") and not is_tick(line):
                yield from _shifted(Place(block.owner, block.field, k, ()))


def _exchanged(block, i, j):
    """What two lines add to, or put into, two places of one array: exchanged, wholly or a name of each."""
    one, other = block.node[i], block.node[j]
    if type(one) is not type(other) or not isinstance(one, (ast.Assign, ast.AugAssign)):
        return
    targets = [line.targets[0] if isinstance(line, ast.Assign) else line.target for line in (one, other)]
    if not all(isinstance(t, ast.Subscript) for t in targets) or len({root_of(t) for t in targets}) > 1:
        return
    where = f"{quoted(one)} and {quoted(other)}"
    reads = [_reads(line) for line in (one, other)]
    for a in reads[0].keys() - reads[1].keys():
        for b in reads[1].keys() - reads[0].keys():
            changes = [(place, reads[1][b][0].node) for place in reads[0][a]]
            changes += [(place, reads[0][a][0].node) for place in reads[1][b]]
            yield 1, f"with `{a}` and `{b}` exchanged in {where}", tuple(changes)
    if ast.dump(one.value) != ast.dump(other.value):
        values = (Place(one, "value", None, ()), other.value), (Place(other, "value", None, ()), one.value)
        yield 1, f"with the right-hand sides of {where} exchanged", values


def _reads(line) -> dict:
    """{text: places} of the names, and of numbered entries such as `sums[1]`, that the right-hand side reads."""
    found = {}
    for place in places(ast.Module([line], [])):
        node, entry = place.node, isinstance(place.node, ast.Subscript) and isinstance(place.node.slice, ast.Constant)
        if (isinstance(node, ast.Name) or entry) and isinstance(node.ctx, ast.Load) and place.field != "func":
            found.setdefault(ast.unparse(node), []).append(place)
    inside = [name for text in found for name in found if "[" in text and text.startswith(f"{name}[")]
    return {text: same for text, same in sorted(found.items()) if text not in inside}


def _index_of_the_target(line):
    """`b[o + h]` for `b[o]` in `out[n, o + h] = s + b[o]`."""
    target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
    if not isinstance(target, ast.Subscript) or not isinstance(line, (ast.Assign, ast.AugAssign)):
        return
    indices = getattr(target.slice, "elts", [target.slice])
    for place in places(ast.Module([ast.Expr(line.value)], [])):
        if place.field == "slice" and not isinstance(place.node, (ast.Tuple, ast.Slice)):
            for index in indices:
                if not _same(index, place.node) and names_in(index) & names_in(place.node):
                    yield 1, f"with {quoted(index)} in place of {quoted(place.node)}{place.around}", ((place, index),)


def _as_in_the_other(found):
    """`x[k] += n` for `x[k] += 1` where another line has `x[k] -= n`: what is added is what is taken away.

    And `x[k] = x.get(k, 0) + n` for `x[k] = 1`, where another line has it.
    """
    lines = [(line, _place(line)) for block in found for line in block.node]
    lines = [(line, target) for line, target in lines if isinstance(target, ast.Subscript)]
    for line, target in lines:
        for other, its in lines:
            alike = other is not line and type(other) is type(line) and _same(its, target)
            if alike and not _same(line.value, other.value):
                words = f"with {quoted(other.value)} in place of {quoted(line.value)} in {quoted(line)}"
                yield 1, words, ((Place(line, "value", None, ()), other.value),)


def _place(line):
    """What the line assigns to, or adds to; None of other lines."""
    if isinstance(line, ast.AugAssign):
        return line.target if isinstance(line.op, OFFSETS) else None
    return line.targets[0] if isinstance(line, ast.Assign) else None


def _in_the_other(found):
    """A line that one block has, in another that has its neighbour: a pair is counted there, and not noted."""
    for one in found:
        for other in found:
            shared = [line for line in other.node if _simple(line) and any(_alike(line, mine) for mine in one.node)]
            if one is other or not shared:
                continue
            for line in one.node:
                if _simple(line) and not any(_alike(line, mine) for mine in other.node):
                    words = f"with {quoted(line)} beside {quoted(shared[0])}, too, as elsewhere in your function"
                    yield 1, words, ((other, [*other.node, line]),)


def _simple(line) -> bool:
    return isinstance(line, (ast.AugAssign, ast.Expr)) and not is_tick(line)


def _alike(one, other) -> bool:
    """Do both change the same place, `x[k]`, or are they one call?"""
    if isinstance(one, ast.AugAssign) and isinstance(other, ast.AugAssign):
        return _same(one.target, other.target)
    return _same(one, other)


def _same(one, other) -> bool:
    return ast.dump(one) == ast.dump(other)


def _shifted(place):
    """`k` for `k + 1`, wherever a line has it more than once."""
    several = {}
    for inner in places(ast.Module([place.node], [])):
        node = inner.node
        if isinstance(node, ast.BinOp) and isinstance(node.op, OFFSETS) and isinstance(node.left, ast.Name):
            if isinstance(node.right, ast.Constant) and type(node.right.value) is int:
                several.setdefault(ast.unparse(node), []).append(inner)
    for text, same in several.items():
        if len(same) > 1:
            words = f"with {quoted(same[0].node.left)} in place of `{text}`, everywhere in {quoted(place.node)}"
            yield 1, words, tuple((inner, inner.node.left) for inner in same)
