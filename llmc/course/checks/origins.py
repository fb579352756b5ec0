"""Where in the learner's function do the first NaN, the first infinity, or the first float64 come from?

The failing call is made again, and every expression reports its value: `llmc.course.mutants.traced`.
"""

import ast
import re

import numpy as np

from llmc.course.mutants.traced import Trace

ALL = "inf / inf, 0 · inf or inf - inf"
LOGARITHM = re.compile(r"(np\.|math\.)?log\w*\(")
MAKERS = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye", "array")


def why_nan(answer, replay, k) -> str | None:
    """A sentence about the expression that makes the first NaN or infinity of output k of a call; or None."""
    trace = Trace.of(answer, replay)
    if trace is None or k >= len(trace.outputs):
        return None
    of_nan = bool(np.isnan(trace.outputs[k]).any())
    has = (lambda step: step.nan) if of_nan else (lambda step: step.infinite)
    step = _last(trace, trace.outputs[k], has)
    if step is None:
        return None
    made = trace.origin(step, has)
    if not _says_something(made):
        return None
    if not of_nan:
        how = "a logarithm of 0" if LOGARITHM.match(_bare(made)) else "it overflows, or divides by 0"
        return f"`{_bare(made)}` is infinite, though what goes into it is finite: {how}."
    first = _infinite_at_the_first_nan(trace.outputs[k])
    infinite = next((part for has in (first, _is_infinite) for part in made.made_of if has(part)), None)
    if infinite is None:
        return (
            f"`{_bare(made)}` is NaN, though what goes into it is finite: 0 / 0, or a root or logarithm of a negative?"
        )
    source = trace.origin(infinite, first if first(infinite) else _is_infinite)
    if not _says_something(source) or any(part.infinite for part in source.made_of):
        return f"`{_bare(made)}` makes NaN of an infinity: {_of_infinity(made)}."
    return f"`{_bare(source)}` becomes infinite, and `{_bare(made)}` makes NaN of that: {_of_infinity(made)}."


def _is_infinite(step) -> bool:
    return step.infinite


def _infinite_at_the_first_nan(output):
    """A function of a step: is it infinite where this array has its first NaN? A message shows that place."""
    at = tuple(np.argwhere(np.isnan(output))[0])

    def has(step):
        alike = isinstance(step.value, np.ndarray) and step.value.shape == np.shape(output)
        return step.infinite and (not alike or bool(np.isinf(step.value[at])))

    return has


def why_wide(answer, replay, k) -> str | None:
    """A sentence about the expression that makes float64 of a call's float32 numbers, in output k; or None."""
    trace = Trace.of(answer, replay)
    if trace is None or k >= len(trace.outputs) or not isinstance(trace.outputs[k], np.ndarray):
        return None
    step = _last(trace, trace.outputs[k], lambda step: step.wide)
    made = step and trace.origin(step, lambda step: step.wide)
    if not made or not _says_something(made):
        return None
    number = next((part for part in made.made_of if part.wide_number), None)
    if number is not None:
        source = trace.origin(number, lambda step: step.wide_number)
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
    return {ast.Div: "inf / inf", ast.Mult: "0 · inf", ast.Sub: "inf - inf"}.get(operation, ALL)


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
