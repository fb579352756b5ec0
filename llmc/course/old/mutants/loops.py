"""Mistakes with loops: a sum that is set to 0 once for all turns, or in every turn; the other loop's index."""

import ast
import copy

from llmc.course.old.mutants.places import Place, blocks, places, quoted

BEFORE = "with {} before the loop over {}, so that it is never set back"
ONCE = "with {} computed once, before the loop over {}"
INSIDE = "with {} inside the loop over {}, so that every turn begins again"


def changed(function):
    """Every (rank, words, changes) for the loops of a function; changes: (place, what hangs there instead)."""
    found = blocks(function)
    for block in found:
        lines = block.node
        for k, loop in enumerate(lines):
            if isinstance(loop, ast.For):
                inner = [place for place in found if any(place.owner is node for node in ast.walk(loop))]
                yield from _hoisted(block, k, inner)
                yield from _lowered(block, k)
                yield from _once(block, k)
    yield from _other_index(function, found)


def _hoisted(block, k, inner):
    """What the loop at line k sets to a value that no turn changes, set once before it."""
    lines, loop = block.node, block.node[k]
    for place in inner:
        for n, line in enumerate(place.node):
            for start, rest in _starts(line):
                if not _same_in_every_turn(start, loop) or _writes_to(_root(start), loop) < 2:
                    continue
                left = [*place.node[:n], *rest, *place.node[n + 1 :]] or [ast.Pass()]
                words = BEFORE.format(quoted(start), quoted(loop.target))
                yield 2, words, ((place, left), (block, [*lines[:k], start, *lines[k:]]))


def _lowered(block, k):
    """What is set right before the loop at line k and changes in it, set in every turn."""
    lines, loop = block.node, block.node[k]
    for n, line in enumerate(lines[:k]):
        for start, rest in _starts(line):
            root = _root(start)
            between = any(root in names_in(other) for other in [*rest, *lines[n + 1 : k]])
            if between or not _is_fresh(start) or not _same_in_every_turn(start, loop) or not _writes_to(root, loop):
                continue
            words = INSIDE.format(quoted(start), quoted(loop.target))
            turn = ast.For(loop.target, loop.iter, [start, *loop.body], loop.orelse)
            yield 2, words, ((block, [*lines[:n], *rest, *lines[n + 1 : k], turn, *lines[k + 1 :]]),)


def _once(block, k):
    """What each turn computes anew from an array that the turns change, computed before the loop at line k."""
    lines, loop = block.node, block.node[k]
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changed_in_place = {root_of(t) for t in _slots(loop)} & (stored | names_in(loop))
    if changed_in_place & names_in(loop.target):
        changed_in_place |= names_in(loop.iter)  # g *= …, in `for g in grads`
    found = {}
    for place in places(ast.Module(loop.body, [])):
        names = names_in(place.node) if isinstance(place.node, ast.Call) else set()
        if names & changed_in_place and not names & stored:
            found.setdefault(ast.dump(place.node), []).append(place)
    for number, same in enumerate(found.values()):
        node, name = same[0].node, f"once_{number}"
        before = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), loop)
        changes = [(place, ast.Name(name, ast.Load())) for place in same]
        yield 2, ONCE.format(quoted(node), quoted(loop.target)), (*changes, (block, [*lines[:k], before, *lines[k:]]))


def _slots(loop):
    """What the lines of a loop change in place: the targets of `g *= …` and `g[...] = …`."""
    for line in ast.walk(loop):
        if isinstance(line, ast.AugAssign):
            yield line.target
        elif isinstance(line, ast.Assign):
            yield from (target for target in line.targets if isinstance(target, ast.Subscript))


def _starts(line):
    """(a name = a value, the lines left): of `a = 0`, and of each part of `a, b = 0, 1`."""
    if not isinstance(line, ast.Assign) or len(line.targets) > 1:
        return
    (target,), value = line.targets, line.value
    if isinstance(target, (ast.Name, ast.Subscript)):
        yield line, []
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for k, (name, one) in enumerate(zip(target.elts, value.elts)):
            names, values = ([*node.elts[:k], *node.elts[k + 1 :]] for node in (target, value))
            rest = ast.Assign([ast.Tuple(names, ast.Store())], ast.Tuple(values, ast.Load()))
            start = ast.copy_location(ast.Assign([name], one), line)
            yield start, [ast.copy_location(rest, line)] if names else []


def _is_fresh(start) -> bool:
    """Does it forget what was there? A view, x.reshape(…) or x[…], and one number of an array do not."""
    (target,), parts = start.targets, list(ast.walk(start.value))
    filled = isinstance(target, ast.Subscript) and ast.unparse(target.slice) in ("...", ":")
    whole = isinstance(target, ast.Name) or filled
    calls = [part.func for part in parts if isinstance(part, ast.Call)]
    made = all(isinstance(call, ast.Name) or getattr(call.value, "id", "") == "np" for call in calls)
    return whole and made and not any(isinstance(part, ast.Subscript) for part in parts)


def _same_in_every_turn(start, loop) -> bool:
    """Does nothing in an assignment but its own name change in the loop?"""
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    root = _root(start)
    read = names_in(start.value) | names_in(start.targets[0]) - {root}
    return root is not None and root not in names_in(start.value) and not read & stored


def _writes_to(name, loop) -> int:
    """How many lines of a loop assign to a name, or to a part of what it holds."""
    lines = [node for node in ast.walk(loop) if isinstance(node, (ast.Assign, ast.AugAssign))]
    return sum(name in written(line) for line in lines)


def written(line) -> set:
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    parts = [part for target in targets for part in getattr(target, "elts", [target])]
    return {root_of(part) for part in parts}


def _root(start):
    return root_of(start.targets[0])


def root_of(target):
    """The name of `total`, and of the array in `total[k]`; None of anything else."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return getattr(target, "id", None)


def names_in(node) -> set:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _other_index(function, found):
    """Another loop's index in one of a line's vectors, or in all that have the same: w[n] and b[n] for w[c], b[c]."""
    loops = [node.target for node in ast.walk(function) if isinstance(node, ast.For)]
    names = list(dict.fromkeys(target.id for target in loops if isinstance(target, ast.Name)))
    for block in found:
        for k, line in enumerate(block.node):
            for name in names if isinstance(line, (ast.Assign, ast.AugAssign)) else ():
                vectors = list(dict.fromkeys(quoted(node) for node in _vectors(line, name)))
                several = [vectors] if len(vectors) > 1 else []
                for other in names if vectors else ():
                    for some in (*several, *([one] for one in vectors)) if other != name else ():
                        where = ("each of " if some is vectors else "") + ", ".join(some)
                        words = f"with the index `{other}` in place of `{name}` in {where}"
                        new = _indexed(line, name, other, some)
                        yield 2, words, ((Place(block.owner, block.field, k, ()), new),)


def _vectors(line, name):
    """The nodes of a line that read x[name]."""
    parts = (node for node in ast.walk(line) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load))
    found = [part for part in parts if getattr(part.slice, "id", None) == name]
    return sorted(found, key=lambda part: (part.lineno, part.col_offset))


def _indexed(line, name, other, vectors):
    line = copy.deepcopy(line)
    for part in _vectors(line, name):
        part.slice = ast.Name(other, ast.Load()) if quoted(part) in vectors else part.slice
    return line
