"""Mistakes with brackets: (a - b) · c as a - b · c, a · c + b as (a + b) · c, f(a) + b as f(a + b), a + (b & c) as
a + b & c, (a > b) | c as a > b | c.
"""

import ast

from llmc.course.old.mutants.places import quoted

PRODUCT = (ast.Mult, ast.Div, ast.MatMult)
MODULES = {"np", "math"}
BITS = (ast.BitAnd, ast.BitOr, ast.LShift, ast.RShift)  # which Python evaluates after + and -


def changed(place):
    """(rank, words, other expression) for products with a sum in them, sums of products, functions of a sum, bits."""
    node = place.node
    yield from _divided(node)
    yield from _of_bits(node)
    yield from _past_a_matrix(node)
    if _is(node, PRODUCT) and not (_is(place.owner, PRODUCT) and place.field == "left"):  # the whole product
        yield from _lost(node)
    elif _is(node, (ast.Add, ast.Sub)):
        yield from _gained(node)
        yield from _inside(place)
    elif _is(node, ast.Pow):
        yield from _outside(node, node.left, lambda term: ast.BinOp(term, ast.Pow(), node.right))
    elif isinstance(node, ast.Call) and len(node.args) == 1:
        yield from _outside(node, node.args[0], lambda term: ast.Call(node.func, [term], node.keywords))


def _is(node, operators) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, operators)


def terms_of(node, sign=1):
    """[(sign, term)] of a sum such as a - b - c; one entry if it is none."""
    if _is(node, (ast.Add, ast.Sub)):
        right = sign if isinstance(node.op, ast.Add) else -sign
        return [*terms_of(node.left, sign), *terms_of(node.right, right)]
    return [(sign, node)]


def sum_of(terms):
    """The sum of such a list."""
    (sign, total), *rest = terms
    total = total if sign > 0 else ast.UnaryOp(ast.USub(), total)
    for sign, term in rest:
        total = ast.BinOp(total, ast.Add() if sign > 0 else ast.Sub(), term)
    return total


def _factors(node):
    """[(operator, factor)] of a product such as a * b / c; the first operator means nothing."""
    if _is(node, PRODUCT):
        return [*_factors(node.left), (node.op, node.right)]
    return [(ast.Mult(), node)]


def _product(factors):
    """The product of such a list; None if it would begin with a division."""
    (op, total), *rest = factors
    if not isinstance(op, ast.Mult):
        return None
    for op, factor in rest:
        total = ast.BinOp(total, op, factor)
    return total


def _lost(node):
    """A factor on one of a sum's terms only, or on all but one."""
    factors = _factors(node)
    for i, (op, factor) in enumerate(factors):
        terms = terms_of(factor)
        for j, other in enumerate(factors if len(terms) > 1 and not isinstance(op, ast.Div) else ()):
            if j == i or isinstance(other[0], ast.MatMult) != isinstance(op, ast.MatMult) and len(factors) > 2:
                continue
            for k, (_, term) in enumerate(terms):
                pair = [other, (op, term)] if j < i else [(op, term), other]
                scaled = _product([(ast.Mult(), pair[0][1]), pair[1]])
                alone = [(s, scaled if m == k else t) for m, (s, t) in enumerate(terms)]
                rest = [(o, sum_of(alone) if m == i else f) for m, (o, f) in enumerate(factors) if m != j]
                new = _product([(ast.Mult(), rest[0][1]), *rest[1:]])
                yield 1, f"with {quoted(other[1])} applied to {quoted(term)} alone in {quoted(node)}", new


def _divided(node):
    """a / b · c for a / (b · c), and a / b - c for a / (b - c): what is behind the division was not kept together."""
    if _is(node, (ast.Div, ast.FloorDiv)) and _is(node.right, (ast.Mult,)):
        new = ast.BinOp(ast.BinOp(node.left, node.op, node.right.left), ast.Mult(), node.right.right)
        yield 1, f"with {quoted(new)} in place of {quoted(node)}", new

    terms = terms_of(node.right) if _is(node, (ast.Div,)) else []
    if len(terms) > 1:
        (sign, first), *rest = terms
        new = sum_of([(sign, ast.BinOp(node.left, node.op, first)), *rest])
        yield 1, f"with {quoted(new)} in place of {quoted(node)}", new


def _of_bits(node):
    """a + (b & c) for (a + b) & c, and the other way round."""
    sums, new = (ast.Add, ast.Sub), None
    if _is(node, BITS) and _is(node.left, sums):
        new = ast.BinOp(node.left.left, node.left.op, ast.BinOp(node.left.right, node.op, node.right))
    elif _is(node, sums) and _is(node.right, BITS):
        new = ast.BinOp(ast.BinOp(node.left, node.op, node.right.left), node.right.op, node.right.right)
    elif isinstance(node, ast.Compare) and _is(node.comparators[0], (ast.BitAnd, ast.BitOr)):
        new = _compared_first(node)
    if new:
        yield 1, f"with {quoted(new)} in place of {quoted(node)}", new


def _compared_first(node):
    """(a > b) | c for a > (b | c), which is what a > b | c means; (a > b) | (c == d) for a > b | c == d."""
    (first, *ops), (bits, *others) = node.ops, node.comparators
    rest = ast.Compare(bits.right, ops, others) if ops else bits.right
    return ast.BinOp(ast.Compare(node.left, [first], [bits.left]), bits.op, rest)


def _past_a_matrix(node):
    """(a * f) @ w for (a @ w) * f, and the other way round: the factor is right, and stands on the wrong side."""
    if _is(node, (ast.Mult,)):
        for product, factor in ((node.left, node.right), (node.right, node.left)):
            if _is(product, (ast.MatMult,)):
                new = ast.BinOp(ast.BinOp(product.left, node.op, factor), product.op, product.right)
                yield 2, f"with {quoted(new)} in place of {quoted(node)}", new
    elif _is(node, (ast.MatMult,)) and _is(node.left, (ast.Mult,)):
        new = ast.BinOp(ast.BinOp(node.left.left, node.op, node.right), node.left.op, node.left.right)
        yield 2, f"with {quoted(new)} in place of {quoted(node)}", new


def _gained(node):
    """(a + b) · c for a · c + b."""
    terms = terms_of(node)
    if len(terms) > 1 and terms[0][0] > 0 and _is(terms[0][1], (ast.Mult, ast.Div)):  # a / (b - c) for a / b - c
        first = terms[0][1]
        new = ast.BinOp(first.left, first.op, sum_of([(1, first.right), *terms[1:]]))
        yield 1, f"with {quoted(new)} in place of {quoted(node)}", new
    for k, (_, term) in enumerate(terms):
        if _is(term, (ast.Mult, ast.Div)):
            sides = [(term.left, term.right), (term.right, term.left)][: 2 if isinstance(term.op, ast.Mult) else 1]
            for stays, factor in sides:
                whole = sum_of([(s, stays if m == k else t) for m, (s, t) in enumerate(terms)])
                new = ast.BinOp(whole, term.op, factor)
                yield 1, f"with {quoted(new)} in place of {quoted(node)}", new
        elif isinstance(term, ast.Name):  # a · (1 + b) for a + b
            rest = [(s, ast.Constant(1) if m == k else t) for m, (s, t) in enumerate(terms)]
            if len(terms) > 1 and rest[0][0] > 0:
                new = ast.BinOp(term, ast.Mult(), sum_of(rest))
                yield 2, f"with {quoted(new)} in place of {quoted(node)}", new


def _inside(place):
    """f(a + b) for f(a) + b, and (a + b) @ w for a @ w + b: the brackets span too much. Only of a whole sum."""
    node, terms = place.node, terms_of(place.node)
    if _is(place.owner, (ast.Add, ast.Sub)) and place.field == "left":
        return
    for k, (_, term) in enumerate(terms):
        for inner, around in _brackets(term):
            whole = sum_of([(s, inner if m == k else t) for m, (s, t) in enumerate(terms)])
            new = around(whole)
            yield 2, f"with {quoted(new)} in place of {quoted(node)}", new


def _brackets(term):
    """(what stands in its brackets, the term with something else there) of `f(a)`, `a.sum(0)`, `a ** 2`, `a @ w`."""
    if _is(term, (ast.Pow, ast.MatMult)):
        yield term.left, lambda inner: ast.BinOp(inner, term.op, term.right)
    if _is(term, (ast.MatMult,)):
        yield term.right, lambda inner: ast.BinOp(term.left, term.op, inner)
    if isinstance(term, ast.Call) and isinstance(term.func, ast.Attribute) and not term.args[1:]:
        module = isinstance(term.func.value, ast.Name) and term.func.value.id in MODULES
        if not module:
            method = term.func.attr
            yield (
                term.func.value,
                lambda inner: ast.Call(ast.Attribute(inner, method, ast.Load()), term.args, term.keywords),
            )
        elif term.args:
            yield term.args[0], lambda inner: ast.Call(term.func, [inner], term.keywords)


def _outside(node, argument, function):
    """f(a) + b for f(a + b)."""
    terms = terms_of(argument)
    for k, (sign, term) in enumerate(terms if len(terms) > 1 else []):
        moved = [(s, t) for j, (s, t) in enumerate(terms) if j != k]
        new = ast.BinOp(function(sum_of(moved)), ast.Add() if sign > 0 else ast.Sub(), term)
        yield 1, f"with {quoted(term)} outside of the brackets of {quoted(node)}", new
