"""Lesson 18: is a carry lost because a sum is made in 16 bits? The learner's function runs again with 32."""

import ast
import time
from contextlib import suppress

import numpy as np

from llmc.course.old.checks import evidence
from llmc.course.old.checks.contrast import outcome
from llmc.course.old.checks.narrow_types import LINES
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.places import places, quoted
from llmc.course.own_names import learners_names

NAMES = {"uint16", "ushort", "u2", "<u2", "H"}
WRAPS = "a uint16 wraps around at 65536"


def lost(calls, same) -> str | None:
    """A sentence if 32 bits for what is changed to uint16, or for `random`, make all patterns right; else None.

    calls: [(arguments, right patterns)]. same(got, expected): are these the same patterns, of any dtype?
    """
    check = evidence.looked_into()
    if check is None or not calls:
        return None
    return _of_random(check.function, calls, same) or _of_a_line(check.function, calls, same)


def _of_random(function, calls, same) -> str | None:
    """With the second argument in uint32?"""
    if len(calls[0][0]) < 2:
        return None
    results = [outcome(function, x, random.astype(np.uint32)) for (x, random), _ in calls]
    if all(same(got, expected) for got, (_, expected) in zip(results, calls)):
        return f"With `random` in uint32 your function gives the right patterns: {WRAPS}.{_still_to_do(results)}"
    return None


def _still_to_do(results) -> str:
    """Another sentence if these results, which have the right patterns, are wider than 16 bits; "" otherwise."""
    wide = {np.asarray(result).dtype.name for result in results} - {"uint16"}
    return f" The result is {wide.pop()} then: make uint16 of it at the end." if wide else ""


def _of_a_line(function, calls, same) -> str | None:
    """With 32 bits in one line of the learner's?"""
    with learners_names():
        answer = learners(function)
    by_line = {}
    for definition in ast.walk(answer.tree) if answer else ():
        for place in places(definition) if isinstance(definition, ast.FunctionDef) else ():
            if _makes_sixteen(place.node):
                line = next((node for node in place.above if isinstance(node, LINES)), None)
                by_line.setdefault(line, []).append(place)
    for line, some in by_line.items():
        results = _with_more_bits(answer, some, calls) if line is not None else []
        if results and all(same(got, expected) for got, (_, expected) in zip(results, calls)):
            right = f"Your function gives the right patterns with 32 bits in place of 16 in {quoted(line)}"
            return f"{right}: {WRAPS}.{_still_to_do(results)}"
    return None


def _makes_sixteen(node) -> bool:
    """`x.astype(np.uint16)` or `np.uint16(x)`."""
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "astype"
    return any(_told(each) in NAMES for each in (node.args if method else [node.func]))


def _told(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", getattr(node, "id", None))


def _with_more_bits(answer, some, calls) -> list:
    """What these calls give if what is made in these places is widened after it was cut to 16 bits; [] if one stops."""
    before = [place.node for place in some]
    for place, node in zip(some, before):
        wide = ast.Call(ast.Attribute(node, "astype", ast.Load()), [ast.parse("np.uint32", mode="eval").body], [])
        place.hang(ast.fix_missing_locations(ast.copy_location(wide, node)))
    try:
        with suppress(Exception), learners_names(), np.errstate(all="ignore"):
            changed = answer.function(time.thread_time() + answer.seconds)
            return [changed(*(a.copy() for a in given)) for given, _ in calls]
        return []
    finally:
        for place, node in zip(some, before):
            place.hang(node)
