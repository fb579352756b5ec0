"""An array that is kept, and changed afterwards: `out[k] = d` or `out.append(d)` before `d += …` needs a copy of d.

And rows that are added at indices which may occur several times: `x[rows] += y` adds only once.

As in `python_source`, the tree holds each change while the caller looks at it. In our solutions neither is a mistake:
these are changes of the learner's function alone.
"""

import ast

from llmc.course.old.mutants.loops import root_of
from llmc.course.old.mutants.places import blocks, places, quoted
from llmc.course.old.mutants.stoppable import compiled

CHANGES = {"fill", "sort", "append", "extend", "insert", "pop", "update", "clear", "reverse"}  # what they belong to
KEEPS = ast.List | ast.Dict | ast.Yield
SHORT = (ast.Assign, ast.AugAssign)  # lines that can be quoted


def copies(tree):
    """Words for every name that is kept in a list, or in a place of one, and changed in place somewhere."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not compiled(node)]:
        for name in sorted(_changed_in_place(function) - {None}):
            kept = [place for place in places(function) if getattr(place.node, "id", "") == name and _is_kept(place)]
            lines = " and ".join(dict.fromkeys(quoted(_shown(place)) for place in kept))
            before = [place.node for place in kept]
            for place, node in zip(kept, before):
                copy = ast.Call(ast.Attribute(node, "copy", ast.Load()), [], [])
                place.hang(ast.fix_missing_locations(ast.copy_location(copy, node)))
            try:
                if kept:
                    yield f"with a copy of `{name}` in {lines}: what it keeps there changes afterwards"
            finally:
                for place, node in zip(kept, before):
                    place.hang(node)


def _changed_in_place(function) -> set:
    """Names of what a line `d += …`, `d[...] = …`, `np.exp(x, out=d)` or `d.sort()` changes."""
    nodes = list(ast.walk(function))
    stored = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    stored += [node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    stored += [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "out"]
    calls = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    stored += [called.value for called in calls if called.attr in CHANGES]
    return {root_of(node) for node in stored}


def _shown(place):
    """The line, or call, in which it is kept: of a list, what the list stands in."""
    inner, *outer = place.above
    return outer[0] if isinstance(inner, KEEPS) and outer and isinstance(outer[0], SHORT) else inner


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
    if isinstance(owner, KEEPS):
        return not isinstance(getattr(owner, "ctx", None), ast.Store) and place.field in ("elts", "value", "values")
    appended = isinstance(owner, ast.Call) and getattr(owner.func, "attr", "") in ("append", "insert")
    return appended and place.field == "args"
