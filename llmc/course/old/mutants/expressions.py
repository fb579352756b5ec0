"""Mistakes inside of an expression, for every kind of node: what may hang there instead.

All functions of this kind take a place and yield (rank, words, other expression); rank 0 is the likeliest kind.
"""

import ast

from llmc.course.old.mutants import brackets, calls, factors, numbers, operators, reductions
from llmc.course.old.mutants.places import Place, quoted, with_fields


def changed(place: Place, names):
    """Every (rank, words, other expression) for the expression at this place."""
    node = place.node
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return
    kinds = {
        ast.BinOp: operators.operation,
        ast.UnaryOp: operators.negation,
        ast.Compare: operators.comparison,
        ast.BoolOp: operators.logic,
        ast.IfExp: operators.choice,
        ast.Call: calls.call,
        ast.Attribute: calls.attribute,
        ast.Subscript: calls.index,
        ast.Constant: numbers.constant,
        ast.Slice: numbers.slice_,
        ast.Tuple: _order,
    }
    if type(node) in kinds:
        yield from kinds[type(node)](place)
    if isinstance(node, ast.Name):
        yield from _other_names(place, names)
    yield from brackets.changed(place)
    yield from reductions.changed(place)
    yield from numbers.index(place, names)
    yield from factors.once_more(place, names)


def _order(place):
    """Two neighbours of a returned tuple, or of the axes of a transpose, swapped."""
    node = place.node
    if isinstance(place.owner, (ast.Return, ast.Call)):
        for k in range(len(node.elts) - 1):
            if ast.dump(node.elts[k]) == ast.dump(node.elts[k + 1]):
                continue
            elts = [*node.elts[:k], node.elts[k + 1], node.elts[k], *node.elts[k + 2 :]]
            words = f"with {quoted(node.elts[k])} and {quoted(node.elts[k + 1])} in the other order"
            yield 2, words + place.around, with_fields(node, elts=elts)


def _other_names(place, names):
    if place.node.id not in names or isinstance(place.owner, ast.Call) and place.field == "func":
        return
    for other in names:
        if other != place.node.id:
            words = f"with `{other}` in place of `{place.node.id}`{place.around}"
            yield 2, words, ast.Name(other, ast.Load())
