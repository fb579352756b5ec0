"""Mistakes inside of an expression: a term or factor left out, a sign, an axis, a name, a constant, a bound.

Each function takes a place and yields (rank, words, what hangs there instead); rank 0 is the likeliest kind.
"""

import ast

from llmc.course.mutants import brackets
from llmc.course.mutants.places import Place, quoted

OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mod}
SIGN = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.MatMult: "@"}
OTHER_COMPARISON = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OTHER_FUNCTION = {
    "mean": ["sum"],
    "sum": ["mean", "max"],
    "max": ["min", "sum"],
    "min": ["max"],
    "maximum": ["minimum"],
    "minimum": ["maximum"],
    "var": ["std"],
    "std": ["var"],
    "argmax": ["argmin"],
    "exp": ["exp2"],
    "log": ["log2", "log10"],
    "sqrt": ["square"],
    "square": ["abs", "sqrt"],
    "tanh": ["sin"],
    "cos": ["sin"],
    "zeros": ["ones"],
    "zeros_like": ["ones_like"],
    "ones": ["zeros"],
    "triu": ["tril"],
    "tril": ["triu"],
    "ceil": ["floor"],
    "any": ["all"],
    "all": ["any"],
}


def changed(place: Place, names):
    """Every (rank, words, other expression) for the expression at this place."""
    node = place.node
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return
    kinds = {
        ast.BinOp: _operation,
        ast.UnaryOp: _negation,
        ast.Compare: _comparison,
        ast.BoolOp: _logic,
        ast.IfExp: _choice,
        ast.Call: _call,
        ast.Attribute: _attribute,
        ast.Constant: _constant,
        ast.Slice: _slice,
        ast.Tuple: _order,
    }
    if type(node) in kinds:
        yield from kinds[type(node)](place)
    if isinstance(node, ast.Name):
        yield from _other_names(place, names)
    yield from brackets.changed(place)
    yield from _index(place)
    yield from _once_more(place, names)


def _operation(place):
    node, left, right = place.node, place.node.left, place.node.right
    sign = SIGN.get(type(node.op))
    if isinstance(node.op, (ast.Add, ast.Sub)):
        alone = right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), right)
        yield 0, f"without the term {quoted(right)}{place.around}", left
        yield 0, f"without the term {quoted(left)}{place.around}", alone
    elif isinstance(node.op, ast.Mult):
        yield 0, f"without the factor {quoted(right)}{place.around}", left
        yield 0, f"without the factor {quoted(left)}{place.around}", right
    elif isinstance(node.op, (ast.Div, ast.FloorDiv)):
        yield 0, f"without the division by {quoted(right)}{place.around}", left
        yield 2, f"with 1 in place of {quoted(left)} over {quoted(right)}", _with(node, left=ast.Constant(1))
        yield 3, f"with {quoted(right)} over {quoted(left)}", _with(node, left=right, right=left)
    elif isinstance(node.op, ast.Pow):
        yield 1, f"without the exponent {quoted(right)} of {quoted(left)}", left
        yield 1, f"with the exponent of {quoted(node)} negated", _with(node, right=ast.UnaryOp(ast.USub(), right))
    elif isinstance(node.op, ast.MatMult):
        yield 1, f"with {quoted(left)} transposed in {quoted(node)}", _with(node, left=_transposed(left))
        yield 1, f"with {quoted(right)} transposed in {quoted(node)}", _with(node, right=_transposed(right))
        yield 2, f"with {quoted(right)} before {quoted(left)}", _with(node, left=right, right=left)
        yield 3, f"with * in place of @ in {quoted(node)}", _with(node, op=ast.Mult())
    if type(node.op) in OTHER_OPERATOR:
        other = OTHER_OPERATOR[type(node.op)]
        yield 1, f"with {SIGN[other]} in place of {sign} before {quoted(right)}{place.around}", _with(node, op=other())


def _with(node, **fields):
    """A copy of a node with other fields; its children are shared."""
    return type(node)(**{name: value for name, value in ast.iter_fields(node)} | fields)


def _transposed(node):
    """node.swapaxes(-1, -2)"""
    return ast.Call(ast.Attribute(node, "swapaxes", ast.Load()), [ast.Constant(-1), ast.Constant(-2)], [])


def _negation(place):
    if _is_axis(place):
        yield from _axes(place, -place.node.operand.value, (-1, -2, -3))
        return
    yield 1, f"without the sign of {quoted(place.node)}{place.around}", place.node.operand


def _comparison(place):
    node = place.node
    if len(node.ops) == 1:
        for other in OTHER_COMPARISON.get(type(node.ops[0]), ()):
            new = _with(node, ops=[other()])
            yield 1, f"with {quoted(new)} in place of {quoted(node)}", new


def _logic(place):
    node = place.node
    other = _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    yield 2, f"with {quoted(other)} in place of {quoted(node)}", other
    for k, value in enumerate(node.values):
        rest = node.values[:k] + node.values[k + 1 :]
        yield 1, f"without the condition {quoted(value)}", _with(node, values=rest) if len(rest) > 1 else rest[0]


def _choice(place):
    node = place.node
    yield 1, f"with {quoted(node.body)}, whether {quoted(node.test)} or not", node.body
    yield 1, f"with {quoted(node.orelse)}, whether {quoted(node.test)} or not", node.orelse


def _call(place):
    node, function = place.node, place.node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    for other in OTHER_FUNCTION.get(name, ()):
        changed = _with(function, attr=other) if isinstance(function, ast.Attribute) else ast.Name(other, ast.Load())
        yield 1, f"with {other} in place of {name} in {quoted(node)}", _with(node, func=changed)
    method = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") not in ("np", "math", "numba")
    inner = function.value if method else next(iter(node.args), None)
    if name in ("range", "enumerate", "zip", "len", "slice"):
        yield from _range(place, name)
    elif inner is not None and not isinstance(inner, ast.Starred):
        yield 2, f"without {name} in {quoted(node)}", inner
    for k, keyword in enumerate(node.keywords):
        if keyword.arg not in ("dtype", "out", "copy"):
            rest = node.keywords[:k] + node.keywords[k + 1 :]
            yield 3, f"without {quoted(keyword)} in {quoted(node)}", _with(node, keywords=rest)
    for k in range(len(node.args) - 1):
        args = [*node.args[:k], node.args[k + 1], node.args[k], *node.args[k + 2 :]]
        swapped = f"with {quoted(node.args[k])} and {quoted(node.args[k + 1])} in the other order"
        yield 3, swapped + f" in {quoted(node)}", _with(node, args=args)


def _range(place, name):
    node = place.node
    if name == "range":
        for k, bound in enumerate(node.args):
            for step, word in ((ast.Add(), "+ 1"), (ast.Sub(), "- 1")):
                args = [*node.args]
                args[k] = ast.BinOp(bound, step, ast.Constant(1))
                yield 2, f"with {quoted(bound)} {word} in {quoted(node)}", _with(node, args=args)
        if len(node.args) == 3:
            backwards = ast.Call(ast.Name("reversed", ast.Load()), [node], [])
            yield 1, f"with {quoted(node)} in the other direction", backwards
        if len(node.args) == 1:
            yield 2, f"from 1 on in {quoted(node)}", _with(node, args=[ast.Constant(1), *node.args])
            yield 3, f"with {quoted(node)} backwards", ast.Call(ast.Name("reversed", ast.Load()), [node], [])


def _attribute(place):
    if place.node.attr == "T":
        yield 1, f"without the transpose in {quoted(place.node)}{place.around}", place.node.value


def _constant(place):
    value, owner = place.node.value, place.owner
    if isinstance(value, bool):
        yield 2, f"with {not value} in place of {value}{place.around}", ast.Constant(not value)
    elif isinstance(value, int) and _is_axis(place):
        yield from _axes(place, value, (0, 1, 2))
    elif isinstance(value, int) and not isinstance(owner, ast.UnaryOp):
        for other in dict.fromkeys((value + 1, value - 1)):
            yield 2, f"with {other} in place of {value}{place.around}", ast.Constant(other)
    elif isinstance(value, float):
        for other in dict.fromkeys((2 * value, value / 2, value * 10, 0.0, 1.0)):
            if other != value:
                yield 2, f"with {other:g} in place of {value:g}{place.around}", ast.Constant(other)


def _is_axis(place) -> bool:
    """Is it a number in `axis=(0, 1)` or `axis=-1`?"""
    within = [node for node in place.above[:2] if isinstance(node, ast.keyword) and node.arg == "axis"]
    return bool(within) and isinstance(getattr(place.node, "operand", place.node), ast.Constant)


def _axes(place, axis, all_axes):
    for other in all_axes:
        if other != axis:
            yield 1, f"with axis {other} in place of axis {axis}{place.around}", ast.Constant(other)


def _slice(place):
    node = place.node
    for field, word in (("lower", "beginning"), ("upper", "end")):
        bound = getattr(node, field)
        if bound is None:
            edge = ast.Constant(1 if field == "lower" else -1)
            yield 2, f"with {quoted(edge)} as the {word} of the slice{place.around}", _with(node, **{field: edge})
            continue
        yield 2, f"without the {word} of the slice {quoted(node)}{place.around}", _with(node, **{field: None})
        for step, sign in ((ast.Add(), "+"), (ast.Sub(), "-")):
            moved = ast.BinOp(bound, step, ast.Constant(1))
            yield (
                2,
                f"with {quoted(bound)} {sign} 1 in the slice {quoted(node)}{place.around}",
                _with(node, **{field: moved}),
            )


def _order(place):
    """Two neighbours of a returned tuple, or of the axes of a transpose, swapped."""
    node = place.node
    if isinstance(place.owner, (ast.Return, ast.Call)):
        for k in range(len(node.elts) - 1):
            elts = [*node.elts[:k], node.elts[k + 1], node.elts[k], *node.elts[k + 2 :]]
            words = f"with {quoted(node.elts[k])} and {quoted(node.elts[k + 1])} in the other order"
            yield 2, words + place.around, _with(node, elts=elts)


def _other_names(place, names):
    if place.node.id not in names or isinstance(place.owner, ast.Call) and place.field == "func":
        return
    for other in names:
        if other != place.node.id:
            words = f"with `{other}` in place of `{place.node.id}`{place.around}"
            yield 2, words, ast.Name(other, ast.Load())


def _index(place):
    """x[i + 1] and x[i - 1] for x[i]."""
    inside = isinstance(place.owner, ast.Subscript) and place.field == "slice"
    inside |= isinstance(place.owner, ast.Tuple) and len(place.above) > 1 and isinstance(place.above[1], ast.Subscript)
    if inside and isinstance(place.node, ast.Name):
        for step in (ast.Add(), ast.Sub()):
            moved = ast.BinOp(place.node, step, ast.Constant(1))
            yield 2, f"with the index {quoted(moved)} in place of {quoted(place.node)}{place.around}", moved


def _once_more(place, names):
    """A factor too many, on a whole right-hand side or on one that is returned."""
    whole = isinstance(place.owner, (ast.Assign, ast.AugAssign, ast.Return)) and place.field == "value"
    whole |= isinstance(place.owner, ast.Tuple) and isinstance(place.above[1], ast.Return)
    if not whole or isinstance(place.node, (ast.Tuple, ast.Constant)) or _is_empty(place.node):
        return
    here = quoted(place.node)
    for name in names:
        factor = ast.Name(name, ast.Load())
        yield 4, f"with {here} times `{name}`", ast.BinOp(place.node, ast.Mult(), factor)
        yield 4, f"with {here} divided by `{name}`", ast.BinOp(place.node, ast.Div(), factor)
        yield 5, f"with {here} plus `{name}`", ast.BinOp(place.node, ast.Add(), factor)
        yield 5, f"with {here} minus `{name}`", ast.BinOp(place.node, ast.Sub(), factor)
    for factor in (2, 0.5):
        yield 5, f"with {here} times {factor:g}", ast.BinOp(place.node, ast.Mult(), ast.Constant(factor))
    yield 3, f"with the sign of {here} changed", ast.UnaryOp(ast.USub(), place.node)


def _is_empty(node) -> bool:
    """np.zeros(…), np.empty_like(…): twice as much of it is the same."""
    name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
    return name in ("zeros", "zeros_like", "empty", "empty_like")
