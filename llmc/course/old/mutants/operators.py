"""Mistakes with operators: a term or factor left out, a sign, an order, a comparison, a condition."""

import ast

from llmc.course.old.mutants.numbers import axes, is_axis
from llmc.course.old.mutants.places import quoted, with_fields

OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod}
SIGN = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.MatMult: "@"}
OTHER_COMPARISON = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE, ast.Eq),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE, ast.Eq),
    ast.Eq: (ast.NotEq, ast.GtE, ast.LtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


def operation(place):
    node, left, right = place.node, place.node.left, place.node.right
    sign = SIGN.get(type(node.op))
    if isinstance(node.op, (ast.Add, ast.Sub)):
        alone = right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), right)
        yield 0, f"without the term {quoted(right)}{place.around_operand(right)}", left
        yield 0, f"without the term {quoted(left)}{place.around_operand(left)}", alone
    elif isinstance(node.op, ast.Mult):
        yield 0, f"without the factor {quoted(right)}{place.around_operand(right)}", left
        yield 0, f"without the factor {quoted(left)}{place.around_operand(left)}", right
    elif isinstance(node.op, (ast.Div, ast.FloorDiv)):
        yield 0, f"without the division by {quoted(right)}{place.around_operand(right)}", left
        yield 2, f"with 1 in place of {quoted(left)} over {quoted(right)}", with_fields(node, left=ast.Constant(1))
        yield 3, f"with {quoted(right)} over {quoted(left)}", with_fields(node, left=right, right=left)
    elif isinstance(node.op, ast.Mod):
        yield 0, f"without the remainder `% {ast.unparse(right)}`{place.around}", left
    elif isinstance(node.op, (ast.BitAnd, ast.BitOr)) and all(map(_is_condition, (left, right))):
        yield 1, f"without the condition {quoted(right)}{place.around}", left
        yield 1, f"without the condition {quoted(left)}{place.around}", right
    elif isinstance(node.op, ast.Pow):
        yield 1, f"without the exponent {quoted(right)} of {quoted(left)}", left
        yield 1, f"with the exponent of {quoted(node)} negated", with_fields(node, right=ast.UnaryOp(ast.USub(), right))
    elif isinstance(node.op, ast.MatMult):
        yield 1, f"with {quoted(left)} transposed in {quoted(node)}", with_fields(node, left=_transposed(left))
        yield 1, f"with {quoted(right)} transposed in {quoted(node)}", with_fields(node, right=_transposed(right))
        yield 2, f"with {quoted(right)} before {quoted(left)}", with_fields(node, left=right, right=left)
        yield 3, f"with * in place of @ in {quoted(node)}", with_fields(node, op=ast.Mult())
    if type(node.op) in OTHER_OPERATOR and ast.unparse(left) != ast.unparse(right):  # x / x is 1, and x - x is 0
        other = OTHER_OPERATOR[type(node.op)]
        yield (
            1,
            f"with {SIGN[other]} in place of {sign} before {quoted(right)}{place.around}",
            with_fields(node, op=other()),
        )


def _is_condition(node) -> bool:
    """`low == 0x8000`, or several of that kind with & or | between them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        return _is_condition(node.left) and _is_condition(node.right)
    return isinstance(node, ast.Compare)


def _transposed(node):
    """node.swapaxes(-1, -2)"""
    return ast.Call(ast.Attribute(node, "swapaxes", ast.Load()), [ast.Constant(-1), ast.Constant(-2)], [])


def negation(place):
    if isinstance(place.node.op, ast.Not):
        yield from _not(place)
        return
    if is_axis(place):
        yield from axes(place, -place.node.operand.value, (-1, -2, 0, 1))
        return
    if isinstance(place.owner, ast.Call) and isinstance(place.node.operand, ast.Constant):
        return  # an axis of swapaxes: from the front instead of from the end
    diagonal = isinstance(place.owner, ast.keyword)  # np.tril(…, k=-1)
    if diagonal:
        yield 1, f"with 0 in place of {quoted(place.node)}{place.around}", ast.Constant(0)
    yield 2 if diagonal else 1, f"without the sign of {quoted(place.node)}{place.around}", place.node.operand


def _not(place):
    node, inner = place.node, place.node.operand
    yield 1, f"with {quoted(inner)} in place of {quoted(node)}", inner
    if isinstance(inner, ast.Name):  # 0 and an empty list are no None
        none = ast.Compare(inner, [ast.Is()], [ast.Constant(None)])
        yield 2, f"with {quoted(none)} in place of {quoted(node)}", none


def comparison(place):
    node = place.node
    if len(node.ops) == 1:
        others = OTHER_COMPARISON.get(type(node.ops[0]), ())
        if isinstance(node.ops[0], ast.Eq) and isinstance(node.comparators[0], ast.Constant):
            others = others[:1]  # a size is 0, or more
        for other in others:
            new = with_fields(node, ops=[other()])
            yield 1, f"with {quoted(new)} in place of {quoted(node)}", new


def logic(place):
    node = place.node
    other = with_fields(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    yield 2, f"with {quoted(other)} in place of {quoted(node)}", other
    numbers = isinstance(node.op, ast.Or) and isinstance(node.values[-1], ast.Constant)  # `largest or 1.0`
    for k, value in enumerate(node.values):
        rest = node.values[:k] + node.values[k + 1 :]
        left = with_fields(node, values=rest) if len(rest) > 1 else rest[0]
        alone = f"with {quoted(left)} in place of {quoted(node)}"
        yield 1, alone if numbers else f"without the condition {quoted(value)}", left


def choice(place):
    node = place.node
    compares = isinstance(node.test, ast.Compare) and not isinstance(node.test.ops[0], ast.Is | ast.IsNot)
    rank = (
        2 if compares else 1
    )  # the comparison is rather the wrong way round; nobody writes `is None` for the opposite
    yield rank, f"with {quoted(node.body)}, whether {quoted(node.test)} or not", node.body
    yield rank, f"with {quoted(node.orelse)}, whether {quoted(node.test)} or not", node.orelse
