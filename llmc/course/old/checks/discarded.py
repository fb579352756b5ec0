"""Is a result lost? `np.add(m, step)`, a whole line, makes a new array that no line takes: what if `out=m`?"""

import ast
import time

import numpy as np

from llmc.course.old.mutants.loops import root_of
from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.places import quoted


def discarded(name, answer, replay, k, target) -> str | None:
    """A sentence if output k of a call is `target` once such lines write into their first array; or None.

    answer: `learners` of the function.
    """
    lines = [line for line in ast.walk(answer.tree) if isinstance(line, ast.Expr) and _first(line.value) is not None]
    if not lines or not _right_with(answer, replay, k, target, lines):
        return None
    alone = [line for line in lines if len(lines) > 1 and _right_with(answer, replay, k, target, [line])]
    line = (alone or lines)[0]
    into = f"`{ast.unparse(_first(line.value))}[...] =` in front of it"
    if isinstance(line.value, ast.Call):
        into = f"`out={ast.unparse(_first(line.value))}` in it"
    right = f"your function gives the right {name.removeprefix('the ')}"
    return f"{quoted(line.value)} makes a new array, and no line takes it: with {into} {right}"


def _first(value):
    """The array that a new one is made of, `m` in `np.add(m, step)` and `m * beta`; None if it may write elsewhere."""
    if isinstance(value, ast.BinOp):
        found = value.left
    elif isinstance(value, ast.Call) and value.args and not value.keywords:
        made = getattr(np, value.func.attr, None) if ast.unparse(value.func).startswith("np.") else None
        found = value.args[0] if isinstance(made, np.ufunc) and len(value.args) == made.nin else None
    else:
        found = None
    return found if isinstance(found, ast.Name | ast.Subscript) and root_of(found) else None


def _right_with(answer, replay, k, target, lines) -> bool:
    """Is output k right if each of these lines writes what it makes into its first array?"""
    before = [line.value for line in lines]
    for line in lines:
        write = ast.parse("np.copyto", mode="eval").body
        line.value = ast.copy_location(ast.Call(write, [_first(line.value), line.value], []), line)
        ast.fix_missing_locations(line)
    try:
        made = replay.run(answer.function(time.thread_time() + answer.seconds))[k]
        return np.shape(made) == np.shape(target) and close(made, target, target, np.asarray(target).dtype.name)
    except Exception:  # not an array, or one of another shape
        return False
    finally:
        for line, value in zip(lines, before):
            line.value = value
