"""Mistakes with functions: another one, none at all, a keyword left out, arguments swapped, a range."""

import ast

from llmc.course.old.mutants.factors import filled
from llmc.course.old.mutants.places import quoted, with_fields

INDICES = {"flatnonzero", "searchsorted", "argmax", "argmin", "argsort", "arange", "len"}
GELUS = (
    ("the approximation x · sigmoid(1.702 · x)", "x / (1 + np.exp(-1.702 * x))"),
    ("x · sigmoid(x)", "x / (1 + np.exp(-x))"),
    ("max(x, 0)", "np.maximum(x, 0)"),
    ("the exact formula with erf", "0.5 * x * (1 + np.vectorize(__import__('math').erf, otypes=[float])(x / 2**0.5))"),
)
LARGER = {"max", "min", "maximum", "minimum"}  # of two numbers
OF_TEXT = {"re", "regex", "codecs", "string"}  # modules
IN_PLACE = {"append", "clear", "extend", "fill", "insert", "reverse", "shuffle", "sort", "update"}  # and return None
TUPLES = {"nonzero", "where"}  # of indices, one array for each axis

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


def call(place):
    node, function = place.node, place.node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    for other in OTHER_FUNCTION.get(name, ()):
        changed = (
            with_fields(function, attr=other) if isinstance(function, ast.Attribute) else ast.Name(other, ast.Load())
        )
        yield 1, f"with {other} in place of {name} in {quoted(node)}", with_fields(node, func=changed)
    method = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") not in ("np", "math", "numba")
    inner = function.value if method else next(iter(node.args), None)
    if name in LARGER and len(node.args) == 2 and not node.keywords:
        for chosen in node.args:  # before what makes the other one lose: a term left out, say
            yield 0, f"with {quoted(chosen)} alone in place of {quoted(node)}", chosen
    if name in ("gelu", "gelu_forward") and len(node.args) == 1:
        for words, text in GELUS:
            yield 1, f"with {words} in place of {quoted(node)}", filled(text, node.args[0])
    if name == "exp" and len(node.args) == 1 and _is_difference(node.args[0]):
        ratio = ast.BinOp(with_fields(node, args=[node.args[0].left]), ast.Div(), node.args[0].right)
        yield 2, f"with {quoted(ratio)} in place of {quoted(node)}", ratio
    if name == "einsum":
        yield from _letters(node)
    if name in INDICES:
        yield from _one_off(node)
    if name in ("range", "enumerate", "zip", "len", "slice"):
        yield from _range(place, name)
    elif name == "where" and len(node.args) == 3:
        for chosen in node.args[1:]:
            yield 1, f"with {quoted(chosen)} in place of {quoted(node)}", chosen
    elif name in IN_PLACE and not isinstance(place.owner, ast.Expr) and inner is not None:  # what it returns is used
        changed = node.args[0] if name == "shuffle" and node.args else inner
        both = ast.Subscript(ast.Tuple([node, changed], ast.Load()), ast.Constant(1), ast.Load())
        yield 0, f"with {quoted(node)} on a line in front and {quoted(changed)} here: {name} returns None", both
    elif inner is not None and not isinstance(inner, ast.Starred):
        if name == "reshape":
            yield 3, f'with order="F", where the first axis runs fastest, in {quoted(node)}', _in_columns(node)
        if name in ("transpose", "swapaxes"):
            yield 2, f"with a reshape in place of the transpose in {quoted(node)}", _reshaped(node)
        yield 2, f"without {name} in {quoted(node)}", inner
    for k, keyword in enumerate(node.keywords):
        if keyword.arg not in ("dtype", "out", "copy"):
            rest = node.keywords[:k] + node.keywords[k + 1 :]
            yield 3, f"without {quoted(keyword)} in {quoted(node)}", with_fields(node, keywords=rest)
    for k in range(len(node.args) - 1 if name != "swapaxes" and not _has_roles(node) else 0):
        if ast.dump(node.args[k]) == ast.dump(node.args[k + 1]):
            continue
        args = [*node.args[:k], node.args[k + 1], node.args[k], *node.args[k + 2 :]]
        swapped = f"with {quoted(node.args[k])} and {quoted(node.args[k + 1])} in the other order"
        yield 3, swapped + f" in {quoted(node)}", with_fields(node, args=args)


def _has_roles(node) -> bool:
    """Does a text say what its arguments are, a pattern, a separator, letters of axes? No other order has a meaning."""
    module = node.func.value if isinstance(node.func, ast.Attribute) else None
    texts = [
        isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", 0), str | bytes) for each in node.args
    ]
    return any(texts) or getattr(module, "id", "") in OF_TEXT or isinstance(getattr(module, "value", 0), str | bytes)


def _is_difference(node) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def _letters(node):
    """Another letter of the same einsum in one place of it."""
    text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
    letters = dict.fromkeys(letter for letter in text if letter.isalpha()) if isinstance(text, str) else ()
    for k, old in enumerate(text if letters else ""):
        for new in letters if old.isalpha() else ():
            if new != old:
                other = ast.Constant(text[:k] + new + text[k + 1 :])
                yield (
                    2,
                    f"with {quoted(other)} in place of {quoted(node.args[0])}",
                    with_fields(node, args=[other, *node.args[1:]]),
                )


def index(place):
    """One more or one less than `np.nonzero(x)[0]`."""
    call = place.node.value if isinstance(place.node, ast.Subscript) else None
    if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in TUPLES and len(call.args) == 1:
        yield from _one_off(place.node)


def _one_off(node):
    """It comes before "without the call", which may be right by chance: indices are small whole numbers."""
    yield 1, f"with 1 added to {quoted(node)}", ast.BinOp(node, ast.Add(), ast.Constant(1))
    yield 1, f"with 1 subtracted from {quoted(node)}", ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _in_columns(node):
    """x.reshape(…) that fills column by column."""
    return with_fields(node, keywords=[*node.keywords, ast.keyword("order", ast.Constant("F"))])


def _reshaped(node):
    """The entries of what is transposed, in their old order, in the shape of the transpose."""
    before = node.value if isinstance(node, ast.Attribute) else node.func.value
    return ast.Call(ast.Attribute(before, "reshape", ast.Load()), [ast.Attribute(node, "shape", ast.Load())], [])


def _range(place, name):
    node = place.node
    if name == "range":
        for k, bound in enumerate(node.args):
            if isinstance(bound, ast.Constant):  # `numbers.constant` says it better
                continue
            for step, word in ((ast.Add(), "+ 1"), (ast.Sub(), "- 1")):
                args = [*node.args]
                args[k] = ast.BinOp(bound, step, ast.Constant(1))
                yield 1, f"with {quoted(bound)} {word} in {quoted(node)}", with_fields(node, args=args)
        if len(node.args) == 3:
            backwards = ast.Call(ast.Name("reversed", ast.Load()), [node], [])
            yield 1, f"with {quoted(node)} in the other direction", backwards
        if len(node.args) == 1:
            yield 2, f"from 1 on in {quoted(node)}", with_fields(node, args=[ast.Constant(1), *node.args])
            yield 3, f"with {quoted(node)} backwards", ast.Call(ast.Name("reversed", ast.Load()), [node], [])


def attribute(place):
    if place.node.attr == "float16":
        yield 1, f"with float32 in place of float16{place.around}", with_fields(place.node, attr="float32")
    if place.node.attr == "T":
        yield 1, f"without the transpose in {quoted(place.node)}{place.around}", place.node.value
        yield 2, f"with a reshape in place of the transpose in {quoted(place.node)}", _reshaped(place.node)
