"""Which expression takes most of the time? Each is timed in a smaller call, `x ** 3` also against `x * x * x`."""

import ast
import copy
import io
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from types import FunctionType

import numpy as np

from llmc.course.old.checks.evidence import largest_of
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.places import places
from llmc.course.old.mutants.replay import arrays_in
from llmc.course.old.mutants.traced import Trace
from llmc.course.own_names import learners_names

ENOUGH = 4096  # numbers of an array: with fewer, what Python does takes the time
TURNS = 5  # of a call: other programs lengthen some of them
MOST = 0.5  # of the time: what takes less may be what any answer needs
CLEARLY = 1.5  # times as fast: a change worth telling
POWERS = {  # as a value, and as one that is written into an array
    3: ("{0} * {0} * {0}", "np.multiply(np.multiply({0}, {0}, out={1}), {0}, out={1})"),
    4: ("{0} * {0} * {0} * {0}", "np.square(np.square({0}, out={1}), out={1})"),
}
COMPUTES = (ast.BinOp, ast.UnaryOp, ast.Call, ast.AugAssign)


class Timed(Trace):
    """spent: {text: seconds} of each expression's own work in the call, without that of its operands.

    arrays, wide: the texts of those that compute arrays, and arrays of float64.
    """

    def __init__(self, tree):
        super().__init__(tree)
        self.spent, self.arrays, self.wide = {}, set(), set()
        self.begin = None  # of the expression that is computed now

    def seen(self, number, value):
        """What the time since the last expression was spent on."""
        now, text = time.perf_counter(), self.texts[number]
        self.spent[text] = self.spent.get(text, 0.0) + now - (self.begin or now)
        if issubclass(self.kinds[number], COMPUTES) and isinstance(value, np.ndarray):
            self.arrays |= {text}
            self.wide |= {text} if value.dtype == np.float64 else set()
        super().seen(number, value)
        self.begin = time.perf_counter()
        return value


def where_the_time_goes(exercise, function, large) -> tuple:
    """Words about the expression that takes most of the time of an exercise's function, and about what is faster.

    (None, None) without such an expression; the second is None where nothing faster was found.

    large: its largest call that could be kept, or None.
    """
    if getattr(function, "__name__", None) != exercise or _compiled(function):
        return None, None
    with learners_names(), redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer = learners(function) if large and largest_of(large) >= ENOUGH else None
        spent, run = _least(answer, large) if answer else ({}, None)
        text, total = max(run.arrays if run else (), key=spent.get, default=None), sum(spent.values())
        if text is None or spent[text] < MOST * total:
            return None, None
        narrow = all(array.dtype != np.float64 for array in arrays_in((large.arguments, large.options)))
        wide = ", in float64," if narrow and text in run.wide else ""
        return f"{text}{wide} takes {spent[text] / total:.0%} of its time", _as_products(
            answer, large, text, total, run.outputs
        )


def first_wide(exercise, function, large) -> str | None:
    """A sentence about what makes the first float64 array that is as large as an input, where no input is float64.

    None without one. Arguments as those of `where_the_time_goes`.
    """
    given = arrays_in((large.arguments, large.options)) if large else []
    named = getattr(function, "__name__", None) == exercise and not _compiled(function)
    if not (large and named) or any(array.dtype == np.float64 for array in given):
        return None
    with learners_names(), redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = learners(function)
        trace = answer and Trace.of(answer, large)
    computed = [step for step in trace.steps if issubclass(step.kind, COMPUTES)] if trace else []
    computed = [step for step in computed if np.size(step.value) >= largest_of(large)]
    while computed and not computed[0].wide:
        del computed[0]
    if not computed:
        return None
    most = 2 * sum(step.wide for step in computed) > len(computed)
    more = ", and so is what is computed from it, twice as large" if most else ", twice as large as float32"
    return f"{computed[0].text} is float64{more}: stay in float32."


def _as_products(answer, replay, text, total, outputs) -> str | None:
    """What is gained with `x * x * x` in place of an expression `x ** 3`; None if it is little, or another result.

    outputs: of the function as it is. Those of the replay may be arrays that the check has written to since.
    """
    tree, product = copy.deepcopy(answer.tree), None
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for place in places(function):
            if f"`{ast.unparse(place.node)}`" == text and (product := _product(place.node)):
                place.hang(ast.copy_location(ast.parse(product, mode="eval").body, place.node))
    if not product:
        return None
    spent, run = _least(replace(answer, tree=ast.fix_missing_locations(tree)), replay)
    gained = total / sum(spent.values()) if spent and _alike(run.outputs, outputs) else 0.0
    return f"with `{product}` in its place it is {gained:.2g} times as fast" if gained > CLEARLY else None


def _product(node) -> str | None:
    """`x * x * x` for `x ** 3` and `np.power(x, 3)`, also where that has out=; None for anything else."""
    out = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = node.left, node.right
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "np.power" and len(node.args) == 2:
        base, exponent = node.args
        out = next((ast.unparse(keyword.value) for keyword in node.keywords), None)
        if [keyword.arg for keyword in node.keywords] not in ([], ["out"]):
            return None
    else:
        return None
    number = getattr(exponent, "value", None)
    known = isinstance(base, ast.Name) and number in POWERS
    return POWERS[number][out is not None].format(base.id, out) if known else None


def _alike(one, other) -> bool:
    """Are the outputs of two calls the same but for rounding? In `np.power(x, 3, out=x)`, x is lost on the way."""
    pairs = list(zip(one, other))
    return all(np.shape(a) == np.shape(b) and close(a, b, b, "float32") for a, b in pairs)


def _least(answer, replay):
    """({text: the least seconds in several traces of the call}, one of them); ({}, None) where it takes too long."""
    runs = [Timed.of(answer, replay) for _ in range(TURNS)]
    if not all(runs):
        return {}, None
    return {text: min(run.spent.get(text, 0.0) for run in runs) for text in runs[0].spent}, runs[0]


def _compiled(function) -> bool:
    """Does Numba compile it, or something that it calls? That would be timed in Python."""
    if not isinstance(function, FunctionType):
        return True
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return any(hasattr(each, "py_func") or type(each).__name__ == "DUFunc" for each in named)
