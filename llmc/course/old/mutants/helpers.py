"""A factor in a helper of the learner's, or in what a call gives to it: `f(2 * x)` may do what a factor in f does.

Which of the two is wrong, no number shows. But a helper that does what its name says, `sigmoid`, is right.
"""

import ast
import re
import time
from contextlib import suppress

import numpy as np

from llmc.course.old.mutants.factors import filled
from llmc.course.old.mutants.places import Place, places, quoted

FACTOR = re.compile(
    r"without the (?:factor|division|sign)|with (?:-?[\d.e+-]+ in place of -?[\d.]|.* (?:times|divided by) )"
)
SCALES = ("2 * x", "0.5 * x", "-x")
WELL_KNOWN = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(),
    "log_softmax": lambda x: x - np.log(np.exp(x).sum()),
    "logsumexp": lambda x: np.log(np.exp(x).sum()),
}


def where_it_belongs(words, lines, now, program, mends) -> str | None:
    """The words of a change that mends a learner's function; of a factor in a helper, also what mends at its call.

    lines, now: of the function's tree before the change and with it. program: the learner's function, whole again.
    mends(): does the function, as its tree is now, do what is right? None if the helper is right as it is.
    """
    helper = _changed_helper(lines, now, program.tree) if FACTOR.match(words) else None
    if helper is None:
        return words
    at_its_call = next((each for each in _scaled(program.tree, helper) if mends()), None)
    if _does_what_its_name_says(program, helper):
        return at_its_call
    return f"{words}, or {at_its_call}" if at_its_call else words


def _changed_helper(lines, now, tree) -> str | None:
    """The name of the function, but not of the last one, in which these lines differ; None if there is no such one."""
    line = next((k for k, (old, new) in enumerate(zip(lines, now)) if old != new), len(lines))
    defined = {k: text.split("(")[0].removeprefix("def ") for k, text in enumerate(lines) if text.startswith("def ")}
    name = next((defined[k] for k in sorted(defined, reverse=True) if k <= line), None)
    return None if name == tree.body[-1].name else name


def _scaled(tree, helper):
    """Words for each call of the helper with an argument twice as large, half as large, or of the other sign."""
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or function.name == helper:
            continue
        for call in [each.node for each in places(function) if getattr(each.node, "func", None) is not None]:
            for k in range(len(call.args) if getattr(call.func, "id", "") == helper else 0):
                yield from _scaled_argument(call, Place(call, "args", k, ()))


def _scaled_argument(call, place):
    before, given = quoted(call), place.node
    for text in SCALES:
        negative = isinstance(given, ast.BinOp | ast.UnaryOp) and ast.unparse(given).startswith("-")
        product = not isinstance(given, ast.BinOp) or isinstance(given.op, ast.Mult | ast.Div)
        new = filled(text, given)
        if text == "-x" and negative and product:  # no one writes -(-2 * u)
            new = ast.parse(ast.unparse(given)[1:], mode="eval").body
        place.hang(ast.fix_missing_locations(ast.copy_location(new, given)))
        try:
            yield f"with {quoted(call)} in place of {before}"
        finally:
            place.hang(given)


def _does_what_its_name_says(program, helper) -> bool:
    known, x = WELL_KNOWN.get(helper.strip("_").lower()), np.linspace(-3.0, 3.0, 7)
    with suppress(Exception):  # it takes more than one array
        own = program.function(time.thread_time() + program.seconds).__globals__[helper]
        return known is not None and np.allclose(own(x), known(x))
    return False
