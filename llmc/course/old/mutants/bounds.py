"""Numbers that do not reach far enough: a quotient that is rounded down, a mask that is finite.

As in `missing`, these changes are made in the learner's function alone.
"""

import ast

from llmc.course.old.mutants.factors import filled
from llmc.course.old.mutants.places import places, quoted, with_fields

LARGE = 1000  # a number that is meant to be larger than all others


def changed(function):
    """Every (rank, words, changes) for the expressions of a function; changes: (place, what hangs there instead)."""
    for place in places(function):
        for rank, new in _further(place.node):
            yield rank, f"with {quoted(new)} in place of {quoted(place.node)}{place.around}", ((place, new),)
        if isinstance(place.owner, ast.Assign) and place.field == "value":
            for new in _extreme(place.owner.targets, place.node, function):
                yield 0, f"with {quoted(new)} in place of {quoted(place.node)}{place.around}", ((place, new),)


def _further(node):
    """-(-n // m) for n // m; -inf for -1e4, or a number that is far enough below, for one that is multiplied by 0.

    slice(0, t + 1) for slice(0, t), which may be right with any larger number, too, in one call.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        yield 0, filled("-x", ast.BinOp(ast.UnaryOp(ast.USub(), node.left), ast.FloorDiv(), node.right))
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "slice" and node.args:
        k = min(1, len(node.args) - 1)  # its end
        further = ast.BinOp(node.args[k], ast.Add(), ast.Constant(1))
        yield 0, with_fields(node, args=[*node.args[:k], further, *node.args[k + 1 :]])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # 1e4 * hidden, which is subtracted
        for side in ("left", "right"):
            if _is_large(getattr(node, side)):
                yield 0, with_fields(node, **{side: ast.Constant(1e30)})
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if _is_large(node.operand):
            yield 0, ast.parse("-np.inf", mode="eval").body
            yield 1, ast.parse("-1e30", mode="eval").body


def _is_large(node) -> bool:
    """Is it a number that is meant to be larger than all others, and is not?"""
    value = getattr(node, "value", None)
    return isinstance(value, int | float) and LARGE <= value < 1e30


def _extreme(targets, node, function):
    """inf for the number with which the least so far begins, `if b < least`; -inf for the largest so far."""
    value = getattr(getattr(node, "operand", node), "value", None)
    if type(value) not in (int, float) or len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return
    for each in ast.walk(function):
        if not isinstance(each, ast.Compare) or len(each.ops) != 1:
            continue
        sides = [getattr(side, "id", None) == targets[0].id for side in (each.left, each.comparators[0])]
        if any(sides) and isinstance(each.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            least = isinstance(each.ops[0], ast.Lt | ast.LtE) == sides[1]  # b < least, least > b
            yield ast.parse("np.inf" if least else "-np.inf", mode="eval").body
            return
