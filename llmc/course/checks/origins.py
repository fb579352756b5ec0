"""Where in the learner's function do the first NaN, the first infinity, or the first float64 come from?

The failing call is made again, and every expression reports its value: `llmc.course.mutants.traced`.
"""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from llmc.course.mutants.traced import Trace

ALL = "inf / inf, 0 · inf or inf - inf"
LOGARITHM = re.compile(r"(np\.|math\.)?log\w*\(")
MAKERS = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye", "array")
MOVES = re.compile(r"@|einsum|dot\(|matmul|\.T\b|transpose|axes|reshape|ravel|flatten")  # numbers to other places


def why_nan(answer, replay, k, at=None) -> str | None:
    """A sentence about the expression that makes the first NaN or infinity of output k of a call; or None.

    at: the index of the entry that the message names. What makes another one need not be what makes this one.
    """
    trace = Trace.of(answer, replay)
    if trace is None or k >= len(trace.outputs):
        return None
    output = trace.outputs[k]
    anywhere = _Looked(trace, output, bool(np.isnan(output).any())).sentence()
    if not at or np.isfinite(output[at]):
        return anywhere
    here = _Looked(trace, output, bool(np.isnan(output[at])), lambda value: _part(value, output.shape, at))
    told = here.sentence(" there")
    return told if told and told.replace(" there", "") != anywhere and here.is_local() else anywhere


@dataclass
class _Looked:
    """For what makes a NaN, or else an infinity; in part(value) of each step's value alone, if there is a part."""

    trace: Trace
    output: np.ndarray
    of_nan: bool
    part: Callable | None = None

    def sentence(self, there="") -> str | None:
        has = self._nan if self.of_nan else self._infinite
        step = _last(self.trace, self.output, has)
        self.path = self.trace.path(step, has) if step else []
        if not self.path or not _says_something(self.path[-1]):
            return None
        made, finite = self.path[-1], "though what goes into it is finite"
        if not self.of_nan:
            how = "a logarithm of 0" if LOGARITHM.match(_bare(made)) else "it overflows, or divides by 0"
            return f"`{_bare(made)}` is infinite{there}, {finite}: {how}."
        infinite = next((part for part in made.made_of if self._infinite(part)), None)
        if infinite is None:
            why = "0 / 0" if _is_division(_bare(made)) else "0 / 0, or a root or logarithm of a negative"
            return f"`{_bare(made)}` is NaN{there}, {finite}: {why}?"
        before = self.trace.path(infinite, self._infinite)
        source, self.path = before[-1], self.path + before
        if not _says_something(source) or any(map(self._infinite, source.made_of)):
            return f"`{_bare(made)}` makes NaN of an infinity{there}: {_of_infinity(made)}."
        becomes = f"`{_bare(source)}` becomes infinite{there}"
        return f"{becomes}, and `{_bare(made)}` makes NaN of that: {_of_infinity(made)}."

    def is_local(self) -> bool:
        """Are all values on the way arrays of which only a part was looked at, and did no step move numbers?"""
        parts = [step.held is not None and self.part(step.held) is not step.held for step in self.path]
        return all(parts) and not any(MOVES.search(step.text) for step in self.path)

    def _nan(self, step) -> bool:
        return step.nan and (self.part is None or step.held is None or bool(np.isnan(self.part(step.held)).any()))

    def _infinite(self, step) -> bool:
        return step.infinite and (self.part is None or step.held is None or bool(np.isinf(self.part(step.held)).any()))


def _part(value, shape, at):
    """What stands in an array where that entry, or its row, stands in one of this shape; all of it if none does."""
    if value.shape[: len(at)] == shape:
        return value[at]
    rows = len(at) > 1 and value.ndim <= len(at) and value.shape[: len(at) - 1] == shape[:-1]
    return value[at[:-1]] if rows else value


def why_wide(answer, replay, k) -> str | None:
    """A sentence about the expression that makes float64 of a call's float32 numbers, in output k; or None."""
    trace = Trace.of(answer, replay)
    if trace is None or k >= len(trace.outputs) or not isinstance(trace.outputs[k], np.ndarray):
        return None
    step = _last(trace, trace.outputs[k], lambda step: step.wide)
    made = step and trace.path(step, lambda step: step.wide)[-1]
    if not made or not _says_something(made):
        return None
    number = next((part for part in made.made_of if part.wide_number), None)
    if number is not None:
        source = trace.path(number, lambda step: step.wide_number)[-1]
        named = f"`{_bare(number)}`" + f", made by `{_bare(source)}`," * (source.text != number.text)
        cure = "math.sqrt or float(…) gives a Python number, which does not"
        return f"`{_bare(made)}` becomes float64: {named} is a NumPy float64, which widens float32 arrays; {cure}."
    if made.kind is ast.Call and any(f"{maker}(" in _bare(made) for maker in MAKERS):
        return f"`{_bare(made)}` makes a float64 array: dtype= is missing."
    return f"The first float64 array in your function is `{_bare(made)}`."


def _of_infinity(step) -> str:
    """What makes NaN of an infinity in an expression."""
    try:
        operation = type(getattr(ast.parse(_bare(step)).body[0].value, "op", None))
    except (SyntaxError, AttributeError):  # too long to be quoted as a whole
        operation = None
    return {ast.Div: "inf / inf", ast.Mult: "0 · inf", ast.Sub: "inf - inf", ast.Add: "inf - inf"}.get(operation, ALL)


def _last(trace, output, has):
    """The step that an output came from; of a number, or a buffer that no name holds at the end, the last such step."""
    found = trace.step_of(output, has) if isinstance(output, np.ndarray) else None
    if found is None:
        found = next((step for step in reversed(trace.steps) if has(step)), None)
    return found


def _says_something(step) -> bool:
    """Is it more than a name, or a number that stands in the source?"""
    return step.kind not in (ast.Name, ast.Constant, ast.Tuple, ast.Attribute)


def _is_division(text) -> bool:
    with suppress(SyntaxError):
        node = ast.parse(text, mode="eval").body
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return False


def _bare(step) -> str:
    return step.text.strip("`")
