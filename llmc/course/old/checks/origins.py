"""Where in the learner's function do the first NaN, the first infinity, or the first float64 come from?

The failing call is made again, and every expression reports its value: `llmc.course.old.mutants.traced`.
"""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from llmc.course.old.mutants.traced import Trace

LOGARITHM, ROOT = re.compile(r"(np\.|math\.)?log\w*\("), re.compile(r"(np\.|math\.)?sqrt\(")
GROWS = re.compile(r"(np\.|math\.)?(exp|exp2|expm1|sinh|cosh|square|sum|dot|matmul|einsum)\(")
UNWRITTEN = re.compile(r"np\.empty")
OPERATIONS = {ast.Div: "inf / inf", ast.Mult: "0 · inf", ast.Sub: "inf - inf", ast.Add: "inf - inf"}
NAMES_TYPE = re.compile(r"dtype|float|double|…")
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
            return f"`{_bare(made)}` is infinite{there}, {finite}{_why_infinite(made)}."
        infinite = next((part for part in made.made_of if self._infinite(part)), None)
        if infinite is None:
            if UNWRITTEN.match(_bare(made)):
                return None  # other lines may have written all of it
            return f"`{_bare(made)}` is NaN{there}, {finite}{_why_nan(made)}."
        before = self.trace.path(infinite, self._infinite)
        source, self.path = before[-1], self.path + before
        if not _says_something(source) or any(map(self._infinite, source.made_of)):
            return f"`{_bare(made)}` makes NaN of an infinity{there}{_of_infinity(made)}."
        becomes = f"`{_bare(source)}` becomes infinite{there}"
        return f"{becomes}, and `{_bare(made)}` makes NaN of that{_of_infinity(made)}."

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
        return f"`{_bare(made)}` makes a float64 array{': dtype= is missing' * (not NAMES_TYPE.search(made.text))}."
    return f"The first float64 array in your function is `{_bare(made)}`."


def _of_infinity(step) -> str:
    """ ": inf / inf", what makes NaN of an infinity in an expression; "" of others."""
    how = OPERATIONS.get(_operation(step))
    return f": {how}" if how else ""


def _why_infinite(step) -> str:
    """ ": it overflows", why an expression of finite numbers is infinite; "" where its kind does not say."""
    if LOGARITHM.match(_bare(step)):
        return ": a logarithm of 0"
    operation = _operation(step)
    if operation is ast.Div and len(step.made_of) > 1:
        with suppress(Exception):
            return ": it divides by 0" if np.any(np.equal(step.made_of[1].value, 0)) else ": it overflows"
    return ": it overflows" if operation in OPERATIONS or GROWS.match(_bare(step)) else ""


def _why_nan(step) -> str:
    """ ": 0 / 0", why an expression of finite numbers is NaN; "" where its kind does not say."""
    for kind, words in ((LOGARITHM, "the logarithm of a negative number"), (ROOT, "the root of a negative number")):
        if kind.match(_bare(step)):
            return f": {words}"
    operation = _operation(step)
    power = ": a power of a negative number that is not whole" if operation is ast.Pow else ""
    return ": 0 / 0" if operation is ast.Div else power


def _operation(step) -> type | None:
    """ast.Div of `a / b` and `a /= b`; None of what is no operation, or too long to be quoted as a whole."""
    with suppress(SyntaxError):
        line = ast.parse(_bare(step)).body[0]
        return type(getattr(line if isinstance(line, ast.AugAssign) else line.value, "op", None))
    return None


def _last(trace, output, has):
    """The step that an output came from; of a number, or a buffer that no name holds at the end, the last such step."""
    found = trace.step_of(output, has) if isinstance(output, np.ndarray) else None
    if found is None:
        found = next((step for step in reversed(trace.steps) if has(step)), None)
    return found


def _says_something(step) -> bool:
    """Is it more than a name, or a number that stands in the source?"""
    return step.kind not in (ast.Name, ast.Constant, ast.Tuple, ast.Attribute)


def _bare(step) -> str:
    return step.text.strip("`")
