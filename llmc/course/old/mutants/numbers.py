"""Mistakes with constants: an axis, a bound of a slice, an index, one too many."""

import ast

from llmc.course.old.mutants.bounds import LARGE
from llmc.course.old.mutants.places import quoted, with_fields


def constant(place):
    value, owner = place.node.value, place.owner
    if isinstance(value, bool):
        yield 2, f"with {not value} in place of {value}{place.around}", ast.Constant(not value)
    elif isinstance(value, int) and is_axis(place):
        yield from axes(place, value, (0, 1, 2))
    elif isinstance(value, int) and _is_pattern(value, owner):
        return
    elif isinstance(value, int) and not isinstance(owner, ast.UnaryOp):
        for other in dict.fromkeys((value + 1, value - 1)):
            yield 2, f"with {other} in place of {value}{place.around}", ast.Constant(other)
    elif isinstance(value, float):
        near = (2 * value, value / 2, value * 10) if value < LARGE else ()  # of a mask's 1e4, more would do here alone
        for other in dict.fromkeys((*near, 0.0, 1.0)):
            if other != value:
                yield 2, f"with {other:g} in place of {value:g}{place.around}", ast.Constant(other)


def _is_pattern(value, owner) -> bool:
    """Is it one large number that something is or is not equal to? With the next one, that would only never be so."""
    return isinstance(owner, ast.Compare) and isinstance(owner.ops[0], ast.Eq | ast.NotEq) and value >= LARGE


def is_axis(place) -> bool:
    """Is it a number in `axis=(0, 1)` or `axis=-1`?"""
    within = [node for node in place.above[:2] if isinstance(node, ast.keyword) and node.arg == "axis"]
    return bool(within) and isinstance(getattr(place.node, "operand", place.node), ast.Constant)


def axes(place, axis, all_axes):
    for other in all_axes:
        if other != axis:
            yield 1, f"with axis {other} in place of axis {axis}{place.around}", ast.Constant(other)


def slice_(place):
    node = place.node
    yield from _in_every_turn(place)
    for field, word in (("lower", "beginning"), ("upper", "end")):
        bound = getattr(node, field)
        if bound is None:
            edge = ast.Constant(1 if field == "lower" else -1)
            new = with_fields(node, **{field: edge})
            yield 2, _whole(place, new, f"with {quoted(edge)} as the {word} of the slice{place.around}"), new
            continue
        yield 2, f"without the {word} of the slice {quoted(node)}{place.around}", with_fields(node, **{field: None})
        if node.lower is None and node.step is None:
            begin = bound.operand if isinstance(bound, ast.UnaryOp) else ast.UnaryOp(ast.USub(), bound)
            last = ast.Slice(begin, None, None)
            yield 2, _whole(place, last, f"with the last {quoted(bound)} in place of the first{place.around}"), last
        for step, sign in ((ast.Add(), "+"), (ast.Sub(), "-")):
            moved = with_fields(node, **{field: ast.BinOp(bound, step, ast.Constant(1))})
            words = f"with {quoted(bound)} {sign} 1 in the slice {quoted(node)}{place.around}"
            yield 2, _whole(place, moved, words) if isinstance(bound, ast.UnaryOp) else words, moved


def _whole(place, new, words) -> str:
    """The words; both subscripts where there are several slices, or where it ends at `-1`: there is no first -1."""
    old, around = place.node, next((node for node in place.above if isinstance(node, ast.Subscript)), place.node)
    several = sum(isinstance(node, ast.Slice) for node in getattr(getattr(around, "slice", None), "elts", ())) > 1
    if not several and not isinstance(old.upper, ast.UnaryOp) or around is old:
        return words
    before = quoted(around)
    place.hang(new)
    after = quoted(around)
    place.hang(old)
    return f"with {after} in place of {before}"


def _in_every_turn(place):
    """x[i : i + n] for x[:n] in a loop over blocks that begin at i: every turn takes the first block."""
    node, loops = place.node, [above.target for above in place.above if isinstance(above, ast.For)]
    first = node.lower is None or isinstance(node.lower, ast.Constant) and node.lower.value == 0
    for target in [target for target in loops if isinstance(target, ast.Name)] if first and node.upper else ():
        start = ast.Name(target.id, ast.Load())
        new = ast.Slice(start, ast.BinOp(start, ast.Add(), node.upper))
        yield 2, f"with {quoted(new)} in place of {quoted(node)}{place.around}", new


def index(place, names):
    """x[i + 1] and x[i - 1] for x[i]; x[i, t] for x[0, t]."""
    inside = isinstance(place.owner, ast.Subscript) and place.field == "slice"
    inside |= isinstance(place.owner, ast.Tuple) and len(place.above) > 1 and isinstance(place.above[1], ast.Subscript)
    if inside and isinstance(place.node, ast.Name):
        for step in (ast.Add(), ast.Sub()):
            moved = ast.BinOp(place.node, step, ast.Constant(1))
            yield 2, f"with the index {quoted(moved)} in place of {quoted(place.node)}{place.around}", moved
    elif inside and isinstance(place.node, ast.Constant) and type(place.node.value) is int:
        for name in names:
            yield 3, f"with `{name}` in place of {quoted(place.node)}{place.around}", ast.Name(name, ast.Load())
