"""Do powers take the time of an answer that is too slow? It is timed again with products in their place.

NumPy squares by multiplying, but x**3 it computes as it does any power, which takes as long as dozens of products.
"""

import ast
import copy
import io
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from math import inf
from time import thread_time
from types import FunctionType

from llmc.course.mutants.learners import learners
from llmc.course.own_names import among_learners_names, learners_names

LEAST, MOST = 3, 8  # exponents that products are tried for
CLEARLY = 0.7  # of the seconds before: so much faster it must be, or powers are not what takes the time


def said_of_powers(function, yours) -> str | None:
    """A sentence if a call, yours(), takes much less time once the function multiplies in place of powers; or None.

    function: the learner's; yours, a function of nothing, calls it by its name.
    """
    name, names = getattr(function, "__name__", ""), yours.__globals__
    if not isinstance(function, FunctionType) or names.get(name) is not function:
        return None
    with suppress(Exception), redirect_stdout(io.StringIO()):
        with learners_names():
            answer = learners(function)
        products = _Products()
        tree = ast.fix_missing_locations(products.visit(copy.deepcopy(answer.tree)))
        if not products.found:
            return None
        before = _seconds(yours)
        try:
            names[name] = replace(answer, tree=tree).function(inf)
            after = _seconds(yours)
        finally:
            names[name] = function
        if after < CLEARLY * before:
            powers, instead = products.found[0]
            return f"With `{instead}` in place of `{powers}` it takes {1e3 * after:.1f} ms, not {1e3 * before:.1f} ms"
    return None


def _seconds(yours) -> float:
    """Of processor time, of the shorter of two calls."""
    call, found = among_learners_names(yours), []
    for _ in range(2):
        begin = thread_time()
        call()
        found.append(thread_time() - begin)
    return min(found)


class _Products(ast.NodeTransformer):
    """`x ** 3` and `np.power(x, 3)` become `x * x * x`, where x is a name."""

    def __init__(self):
        self.found = []  # (text before, text now)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return self._product(node, node.left, node.right) if isinstance(node.op, ast.Pow) else node

    def visit_Call(self, node):
        self.generic_visit(node)
        power = ast.unparse(node.func) == "np.power" and len(node.args) == 2
        return self._product(node, *node.args, node.keywords) if power else node

    def _product(self, node, base, exponent, options=()):
        times = getattr(exponent, "value", None)
        if not isinstance(base, ast.Name) or times not in range(LEAST, MOST + 1):
            return node
        product = base
        for _ in range(int(times) - (2 if options else 1)):
            product = ast.BinOp(product, ast.Mult(), base)
        if options:  # out=, say
            product = ast.Call(ast.parse("np.multiply", mode="eval").body, [product, base], options)
        self.found.append((ast.unparse(node), ast.unparse(product)))
        return product
