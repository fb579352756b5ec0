"""Mistakes with a mean or a sum: over more axes, divided by n - 1, or of one entry alone."""

import ast

from llmc.course.old.mutants.places import quoted, with_fields


def changed(place):
    """(rank, words, other expression) for x.mean(axis=…) and x.sum(axis=…), also as np.mean(x, axis=…)."""
    node = place.node
    function = node.func if isinstance(node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.attr not in ("mean", "sum"):
        return
    method = getattr(function.value, "id", "") != "np"
    array = function.value if method else next(iter(node.args), None)
    axis = next((keyword.value for keyword in node.keywords if keyword.arg == "axis"), None)
    axes = _axes(axis)
    if array is None or axes is None:
        return

    def on(other):
        if method:
            return with_fields(node, func=with_fields(function, value=other))
        return with_fields(node, args=[other, *node.args[1:]])

    if function.attr == "mean" and len(axes) == 1:
        length = ast.Subscript(ast.Attribute(array, "shape", ast.Load()), ast.Constant(axes[0]), ast.Load())
        total = with_fields(node, func=with_fields(function, attr="sum"))
        less = ast.BinOp(total, ast.Div(), ast.BinOp(length, ast.Sub(), ast.Constant(1)))
        yield 2, f"with n - 1 in place of n in `mean`{place.around}", less
    if axes == [-1]:
        keywords = [k if k.arg != "axis" else ast.keyword("axis", ast.Constant((-2, -1))) for k in node.keywords]
        yield 2, f"with the axes -2 and -1 in place of axis -1 in {quoted(node)}", with_fields(node, keywords=keywords)
    if axes and axes[0] == 0:
        for which, only in (("last", ast.Slice(ast.Constant(-1))), ("first", ast.Slice(None, ast.Constant(1)))):
            one = on(ast.Subscript(array, only, ast.Load()))
            yield 1, f"with the {which} entry of axis 0 alone in {quoted(node)}", one


def _axes(node):
    """[0, 1] of the source of (0, 1); None if it is not made of numbers."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, AttributeError):
        return None
    return list(value) if isinstance(value, tuple) else [value] if isinstance(value, int) else None
