"""An array that is kept, and changed afterwards: `out[k] = d` or `out.append(d)` before `d += …` needs a copy of d.

And rows that are added at indices which may occur several times: `x[rows] += y` adds only once.

As in `python_source`, the tree holds each change while the caller looks at it. In our solutions neither is a mistake:
these are changes of the learner's function alone.
"""

import ast

from llmc.course.mutants.loops import root_of
from llmc.course.mutants.places import blocks, places, quoted
from llmc.course.mutants.stoppable import compiled


def copies(tree):
    """Words for every name that is kept in a list, or in a place of one, and changed in place somewhere."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiled(node)]:
        changed = {root_of(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)}
        for name in changed - {None}:
            kept = [place for place in places(function) if getattr(place.node, "id", "") == name and _is_kept(place)]
            lines = " and ".join(dict.fromkeys(quoted(place.above[0]) for place in kept))
            before = [place.node for place in kept]
            for place, node in zip(kept, before):
                copy = ast.Call(ast.Attribute(node, "copy", ast.Load()), [], [])
                place.hang(ast.fix_missing_locations(ast.copy_location(copy, node)))
            try:
                if kept:
                    yield f"with a copy of `{name}` in {lines}"
            finally:
                for place, node in zip(kept, before):
                    place.hang(node)


def added_one_by_one(tree):
    """Words for every `x[rows] += y`, which the tree then has as `np.add.at(x, rows, y)`."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiled(node)]:
        for lines in [block.node for block in blocks(function)]:
            for k, line in enumerate(lines):
                if _adds_at(line):
                    target = line.target
                    new = ast.Call(
                        ast.parse("np.add.at", mode="eval").body, [target.value, target.slice, line.value], []
                    )
                    lines[k] = ast.fix_missing_locations(ast.copy_location(ast.Expr(new), line))
                    try:
                        why = "+= adds only once where an index occurs several times"
                        yield f"with {quoted(new)} in place of {quoted(line)}: {why}"
                    finally:
                        lines[k] = line


def _adds_at(line) -> bool:
    """Is it `x[rows] += y`, without a slice?"""
    if not (
        isinstance(line, ast.AugAssign) and isinstance(line.op, ast.Add) and isinstance(line.target, ast.Subscript)
    ):
        return False
    index = line.target.slice
    return not any(isinstance(part, ast.Slice) for part in getattr(index, "elts", [index]))


def _is_kept(place) -> bool:
    owner = place.owner
    if isinstance(owner, ast.Assign):
        return place.field == "value" and isinstance(owner.targets[0], ast.Subscript)
    appended = isinstance(owner, ast.Call) and getattr(owner.func, "attr", "") in ("append", "insert")
    return appended and place.field == "args"
