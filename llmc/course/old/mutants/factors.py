"""Mistakes on a whole line: a factor too many, another function of it."""

import ast
import math

from llmc.course.old.mutants.places import quoted

FUNCTIONS = {
    "np.log(x)": "the logarithm",
    "np.exp(x)": "exp",
    "np.sqrt(x)": "the root",
    "x * x": "the square",
    "1 - x": "1 minus the value",
    "1 / x": "1 over the value",
}


def once_more(place, names):
    """A factor too many, on a whole right-hand side or on one that is returned."""
    whole = isinstance(place.owner, (ast.Assign, ast.AugAssign, ast.Return)) and place.field == "value"
    whole |= isinstance(place.owner, ast.Tuple) and isinstance(place.above[1], ast.Return)
    if not whole or isinstance(place.node, (ast.Tuple, ast.Constant)) or _is_empty(place.node):
        return
    here = quoted(place.node)
    for name in names:
        factor = ast.Name(name, ast.Load())
        yield 4, f"with {here} times `{name}`", ast.BinOp(place.node, ast.Mult(), factor)
        itself = getattr(place.node, "id", "") == name  # divided by itself
        words = f"with 1 in place of {here}" if itself else f"with {here} divided by `{name}`"
        yield 4, words, ast.BinOp(place.node, ast.Div(), factor)
        yield 5, f"with {here} plus `{name}`", ast.BinOp(place.node, ast.Add(), factor)
        yield 5, f"with {here} minus `{name}`", ast.BinOp(place.node, ast.Sub(), factor)
    for factor in (2, 0.5):
        yield 5, f"with {here} times {factor:g}", ast.BinOp(place.node, ast.Mult(), ast.Constant(factor))
    for text, word in FUNCTIONS.items() if not _calls_a_name(place.node) else ():
        yield 5, f"with {word} of {here}", filled(text, place.node)
    yield 3, f"with the sign of {here} changed", ast.UnaryOp(ast.USub(), place.node)


def _calls_a_name(node) -> bool:
    """play(pieces, counts), not np.sqrt(hs) nor sqrt(hs): what it gives is compared, and no part of a formula."""
    name = getattr(node.func, "id", None) if isinstance(node, ast.Call) else None
    return name is not None and not hasattr(math, name)


def filled(text, node):
    """The expression `text` with the node in place of x."""
    tree = ast.parse(text, mode="eval").body
    for inner in list(ast.walk(tree)):
        for field, value in ast.iter_fields(inner):
            if isinstance(value, ast.Name) and value.id == "x":
                setattr(inner, field, node)
            elif isinstance(value, list):
                value[:] = [node if isinstance(item, ast.Name) and item.id == "x" else item for item in value]
    return tree


def _is_empty(node) -> bool:
    """np.zeros(…), np.empty_like(…), np.triu(np.ones(n, bool)): twice as much of it is the same."""
    name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    logical = any(isinstance(inner, ast.Name) and inner.id == "bool" for inner in ast.walk(node))
    return name in ("zeros", "zeros_like", "empty", "empty_like") or logical
