"""What may be missing in a learner's expression: an axis, a factor, a square, brackets. A solution has it.

`expressions` makes mistakes by leaving something out or by taking another; these changes put something in, so they are
made in the learner's function alone. Rank 0 is the likeliest kind.
"""

import ast
from itertools import combinations

from llmc.course.old.mutants.brackets import sum_of, terms_of
from llmc.course.old.mutants.factors import filled
from llmc.course.old.mutants.loops import names_in, root_of
from llmc.course.old.mutants.numbers import is_axis
from llmc.course.old.mutants.places import local_names, places, quoted, with_fields

REDUCTIONS = {"sum", "mean", "max", "min", "var", "std", "prod", "argmax", "argmin", "any", "all", "cumsum", "amax"}
MAKES = {"zeros", "empty", "ones", "full", "array", "arange", "eye", "linspace"}  # arrays, of float64 unless told
AXES = ("-1", "0", "(0, 1)")
INSTEAD = {  # of a call of that name, with its first argument in place of x
    "isinf": (("~np.isfinite(x)", 1),),
    "isnan": (("~np.isfinite(x)", 1),),
    "unique": (("np.sort(x)", 1),),
    "sort": (("np.sort(x)[::-1]", 1),),
    "sorted": (("sorted(x, reverse=True)", 1),),
    "argsort": (("np.argsort(-x)", 1),),
    "exp": (("np.exp(x - np.max(x, axis=-1, keepdims=True))", 2), ("np.exp(-x)", 2)),
    "isqrt": (("x ** 0.5", 1),),
    "log1p": (("np.log(x)", 1),),
    "expm1": (("np.exp(x)", 1),),
    "tril": (("np.tril(x, -1)", 2), ("np.tril(x, 1)", 2)),
    "triu": (("np.triu(x, 1)", 2), ("np.triu(x, -1)", 2)),
}
WHOLE = ("np.abs(x)", "np.maximum(x, 0)", "np.maximum(x, 1)", "x.astype(np.float64)", "x.astype(np.float32)")
POSITIVE, NEVER_NEGATIVE = ("np.abs(x)", "np.maximum(x, 0)", "max(x, 0)"), ("sqrt", "exp", "abs", "square", "norm")
TESTS = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.comprehension, ast.Assert)
LONGEST = 30  # characters of a piece that is put in another place
SCALARS = ("max(x, 0)", "max(x, 1)", "int(x)", "x + 1", "x - 1")


def changed(function):
    """Every (rank, words, changes) for the expressions of a function; changes: (place, what hangs there instead)."""
    lines, arguments = local_names(function), [argument.arg for argument in function.args.args]
    for place in places(function):
        if isinstance(getattr(place.node, "ctx", None), (ast.Store, ast.Del)):
            continue
        names = [name for name, line in lines.items() if line <= place.node.lineno]
        for rank, new in _instead(place, names, arguments):
            yield rank, f"with {quoted(new)} in place of {quoted(place.node)}{place.around}", ((place, new),)
        if isinstance(place.node, ast.Tuple) and isinstance(place.owner, ast.keyword) and place.owner.arg == "axis":
            for axis in (-1, 0):
                words = f"with axis {axis} in place of the axes {ast.unparse(place.node)}{place.around}"
                yield 1, words, ((place, ast.Constant(axis)),)
        elif is_axis(place) and getattr(place.node, "value", -1) >= 0:
            words = f"with axis -1 in place of axis {place.node.value}{place.around}"
            yield 1, words, ((place, ast.Constant(-1)),)
        if isinstance(place.node, ast.Name) and isinstance(place.owner, ast.Tuple):
            if isinstance(place.above[1], ast.Return):  # a count that starts again
                yield 1, f"with 0 in place of {quoted(place.node)}{place.around}", ((place, ast.Constant(0)),)
        if isinstance(place.node, ast.Compare) and not isinstance(place.owner, TESTS):  # `statements` and others do
            always = ast.BinOp(place.node, ast.BitOr(), ast.Constant(True))
            yield 1, f"without the condition {quoted(place.node)}{place.around}", ((place, always),)
    yield from _exchanged_names(function)
    yield from _own_pieces(function)


def _own_pieces(function):
    """Another piece of the same text that has the name, `np.tanh(h)` for `h`; another entry, `d[k + 1]` for `d[k]`."""
    found = [place for place in places(function) if isinstance(getattr(place.node, "ctx", ast.Load()), ast.Load)]
    pieces = {ast.unparse(p.node): p.node for p in found if isinstance(p.node, (ast.Call, ast.Subscript, ast.BinOp))}
    pieces = {text: node for text, node in pieces.items() if len(text) <= LONGEST}
    for place in found:
        node, text = place.node, ast.unparse(place.node)
        if isinstance(node, (ast.Name, ast.Subscript)) and place.field not in ("func", "value"):
            root = root_of(node)
            for other, new in pieces.items():
                inside = any(each is new for each in (node, *place.above))
                same = other != text and not inside and root in names_in(new)
                if same and (isinstance(node, ast.Name) or isinstance(new, ast.Subscript)):
                    yield 3, f"with {quoted(new)} in place of {quoted(node)}{place.around}", ((place, new),)


def _instead(place, names, arguments):
    node = place.node
    if isinstance(node, ast.Call):
        yield from _call(node, arguments)
    elif isinstance(node, ast.BinOp):
        yield from _operation(node)
        yield from _powers(node, names)
    elif isinstance(node, ast.Name) and node.id.isupper() and place.field != "func" and node.id not in names:
        for name in names:  # in place of a constant of the learner's
            yield 2, ast.Name(name, ast.Load())
    if isinstance(place.owner, (ast.If, ast.IfExp, ast.BoolOp, ast.While)) and isinstance(node, ast.Name):
        yield 1, ast.Compare(node, [ast.IsNot()], [ast.Constant(None)])
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(place.owner, ast.BinOp):
            yield from _operand(place, names)
        if isinstance(place.owner, ast.Call) and place.field == "args":
            yield from _argument(place, names)
    if isinstance(node, (ast.Call, ast.Subscript, ast.Attribute, ast.Constant)) and place.field != "func":
        for name in names if isinstance(place.owner, (ast.BinOp, ast.Call, ast.Compare, ast.Subscript)) else ():
            yield 4, ast.Name(name, ast.Load())
    if isinstance(node, ast.Slice) and node.upper is None and isinstance(node.lower, ast.UnaryOp):
        yield 1, ast.Slice(None, node.lower.operand)  # the first ones, not the last
    if isinstance(place.owner, (ast.Assign, ast.Return, ast.AugAssign)) and place.field == "value":
        yield from _whole(node, names)


def _call(node, arguments):
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    keywords = {keyword.arg for keyword in node.keywords}
    method = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") not in ("np", "math")
    if name in REDUCTIONS and isinstance(node.func, ast.Attribute):
        bare = len(node.args) == (0 if method else 1)
        for axis in AXES if bare and "axis" not in keywords else ():
            for kept in (True, False):
                yield 2, _with_keywords(node, axis=axis, **({"keepdims": "True"} if kept else {}))
        if "axis" in keywords and "keepdims" not in keywords and not name.startswith("arg"):
            yield 2, _with_keywords(node, keepdims="True")
    if name in ("vdot", "dot", "inner") and len(node.args) == 2:
        product = ast.BinOp(node.args[0], ast.Mult(), node.args[1])
        yield 2, filled("x.sum(axis=-1, keepdims=True)", product)
    if len(node.args) == 1 and not node.keywords and (square := _squared(node.args[0])) is not None:
        yield 1, filled("x ** 2", with_fields(node, args=[square]))
    for text, rank in INSTEAD.get(name, ()) if len(node.args) == 1 and not node.keywords else ():
        if "max(" not in text or "max(" not in ast.unparse(node.args[0]):  # the right one belongs there, not another
            yield rank, filled(text, node.args[0])
    if name in MAKES and "dtype" not in keywords and not method:
        for each in arguments:
            yield 1, _with_keywords(node, dtype=f"{each}.dtype")
    if name == "decode" and method:  # first where it says already what should become of errors
        others = [keyword for keyword in node.keywords if keyword.arg != "errors"]
        plain = with_fields(node, args=node.args[:1], keywords=others)
        yield 0 if "errors" in keywords else 1, _with_keywords(plain, errors="'replace'")
    if name == "reshape" and method:
        yield from _turned(node)
    if name in ("transpose", "swapaxes", "einsum"):
        yield from _other_axes(node, name)


def _squared(node):
    """x, of x ** 2 and of x * x; None of anything else."""
    if isinstance(node, ast.BinOp):
        two = isinstance(node.op, ast.Pow) and getattr(node.right, "value", None) == 2
        same = isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right)
        return node.left if two or same else None
    return None


def _with_keywords(node, **texts):
    new = [ast.keyword(name, ast.parse(text, mode="eval").body) for name, text in texts.items()]
    return with_fields(node, keywords=[*node.keywords, *new])


def _turned(node):
    """x.reshape(b, a, …).swapaxes(0, 1) for x.reshape(a, b, …), and so on for each two neighbours: no transpose."""
    sizes = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
    for k in range(len(sizes) - 1):
        swapped = [*sizes[:k], sizes[k + 1], sizes[k], *sizes[k + 2 :]]
        inner = with_fields(node, args=swapped)
        yield 2, ast.Call(ast.Attribute(inner, "swapaxes", ast.Load()), [ast.Constant(k), ast.Constant(k + 1)], [])


def _other_axes(node, name):
    """Two axes of a transpose, or two letters of an einsum's result, exchanged."""
    if name == "einsum":
        text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
        left, arrow, right = str(text).partition("->")
        for a, b in combinations(dict.fromkeys(right.replace(".", "").strip()), 2):
            other = ast.Constant(left + arrow + right.translate({ord(a): b, ord(b): a}))
            yield 2, with_fields(node, args=[other, *node.args[1:]])
    elif name == "swapaxes":
        for pair in ((-1, -2), (0, 1), (1, 2), (0, 2), (1, 3), (2, 3)):
            yield 3, with_fields(node, args=[*node.args[:-2], *map(ast.Constant, pair)])
    elif len(node.args) > 2:
        for a, b in combinations(range(len(node.args)), 2):
            args = [*node.args]
            args[a], args[b] = args[b], args[a]
            yield 3, with_fields(node, args=args)


def _operation(node):
    if isinstance(node.op, ast.Sub):
        yield 2, ast.BinOp(node.right, ast.Sub(), node.left)
    elif isinstance(node.op, ast.FloorDiv):
        yield 1, ast.BinOp(node.left, ast.Div(), node.right)
    elif isinstance(node.op, ast.Div):
        yield 2, ast.BinOp(node.left, ast.FloorDiv(), node.right)
        if (
            isinstance(node.left, ast.Call)
            and getattr(node.left.func, "attr", "") == "exp"
            and len(node.left.args) == 1
        ):
            power = ast.BinOp(node.left.args[0], ast.Sub(), node.right)  # what it is divided by may be a logarithm
            yield 1, with_fields(node.left, args=[power])
    elif isinstance(node.op, (ast.Mult, ast.MatMult)):
        other = ast.MatMult() if isinstance(node.op, ast.Mult) else ast.Mult()
        yield 3, with_fields(node, op=other)
        yield from _of_the_product(node)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _into_brackets(node)
        yield from _exchanged_weights(node)


def _of_the_product(node):
    """(x * y).mean() for x.mean() * y.mean(), and for np.mean(x) * np.mean(y); sums alike."""
    one, two = node.left, node.right
    if not all(isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) for each in (one, two)):
        return
    if one.func.attr != two.func.attr or one.func.attr not in REDUCTIONS:
        return
    if all(getattr(each.func.value, "id", "") == "np" and each.args for each in (one, two)):
        product = ast.BinOp(one.args[0], node.op, two.args[0])
        yield 1, with_fields(one, args=[product, *one.args[1:]])
    else:
        product = ast.BinOp(one.func.value, node.op, two.func.value)
        yield 1, with_fields(one, func=ast.Attribute(product, one.func.attr, ast.Load()))


def _into_brackets(node):
    """f(a + b) for f(a) + b: the root of a sum, for one."""
    for call, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(node.op, ast.Add):
            yield 1, with_fields(call, args=[ast.BinOp(call.args[0], ast.Add(), other)])


def _exchanged_weights(node):
    """b * x + a * y for a * x + b * y."""
    one, other = node.left, node.right
    if all(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult) for each in (one, other)):
        pair = with_fields(one, left=other.left), with_fields(other, left=one.left)
        yield 1, with_fields(node, left=pair[0], right=pair[1])


def _powers(node, names):
    """a + b * c**n for (a + b * c)**n, and 1 - b**t for 1 - b."""
    if isinstance(node.op, ast.Pow):
        terms = terms_of(node.left)
        for k, (sign, term) in enumerate(terms):
            last = term.right if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult) else term
            power = ast.BinOp(last, ast.Pow(), node.right)
            new = power if last is term else ast.BinOp(term.left, ast.Mult(), power)
            if len(terms) > 1 or last is not term:
                yield 1, sum_of([*terms[:k], (sign, new), *terms[k + 1 :]])
    elif isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Name):
        for name in names:
            if name != node.right.id:
                yield 2, ast.BinOp(node.left, ast.Sub(), ast.BinOp(node.right, ast.Pow(), ast.Name(name, ast.Load())))


def _operand(place, names):
    node, op = place.node, place.owner.op
    if isinstance(op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        yield 2, filled("x ** 2", node)
        for text in ("x[..., None]", "x[:, None]", "x[None]"):
            yield 3, filled(text, node)
    if isinstance(op, ast.MatMult) and not (isinstance(node, ast.Attribute) and node.attr == "T"):
        yield 1, ast.Attribute(node, "T", ast.Load())
    for name in names if isinstance(op, (ast.Add, ast.Sub)) else ():
        yield 4, ast.BinOp(node, ast.Mult(), ast.Name(name, ast.Load()))
        yield 4, ast.BinOp(node, ast.Div(), ast.Name(name, ast.Load()))


def _argument(place, names):
    """f(x + eps) for f(x). T, a length, is added to a number of turns, and to no array."""
    node, counts = place.node, getattr(place.owner.func, "id", "") in ("range", "min", "max")
    for name in names:
        if name != getattr(node, "id", ""):
            lengths = name.isupper() and not counts
            for op in (ast.Mult(), ast.Div()) if lengths else (ast.Add(), ast.Sub(), ast.Mult(), ast.Div()):
                yield 3, ast.BinOp(node, op, ast.Name(name, ast.Load()))


def _whole(node, names):
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        yield 2, filled("x.copy()", node)
    if isinstance(node, (ast.Constant, ast.Tuple, ast.List, ast.Dict)):
        return
    for text in (*WHOLE, *SCALARS):
        if not (text in POSITIVE and getattr(getattr(node, "func", None), "attr", "") in NEVER_NEGATIVE):
            yield 4, filled(text, node)
    for name in names:
        for function in ("min", "max"):
            yield 4, ast.Call(ast.Name(function, ast.Load()), [node, ast.Name(name, ast.Load())], [])


def _exchanged_names(function):
    """Two names of a line exchanged, wherever it has them."""
    for line in function.body:
        for inner in [node for node in ast.walk(line) if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return))]:
            value = getattr(inner, "value", None)
            if value is None:
                continue
            found = {}
            for place in places(ast.Module([inner], [])):
                if isinstance(place.node, ast.Name) and isinstance(place.node.ctx, ast.Load) and place.field != "func":
                    found.setdefault(place.node.id, []).append(place)
            for a, b in combinations([name for name in found if name not in ("np", "math")], 2):
                changes = [(place, ast.Name(b, ast.Load())) for place in found[a]]
                changes += [(place, ast.Name(a, ast.Load())) for place in found[b]]
                yield 3, f"with `{a}` and `{b}` exchanged in {quoted(inner)}", tuple(changes)
