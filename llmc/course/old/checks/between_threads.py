"""Which array do the threads of a learner's pool share, without need? One that was made once, and that each writes."""

import ast
import io
import threading
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from types import FunctionType

import numpy as np

from llmc.course.old.checks.text import tree_of
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.loops import names_in, root_of

MAKES = {"empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like"}  # a new array
STARTS = {"submit", "map", "Thread"}  # calls that give a function to a thread


def shared_by_threads(function, made, got) -> str | None:
    """A sentence about an array that all threads of a learner's function write to, if that makes `got`; or None.

    made: (the call, which of its outputs `got` is). Without threads the output must then be another one. None of a call
    too large to be kept: then it is enough that the threads share something.
    """
    shared = _shared(function)
    if not shared or made is None:
        return shared
    (replay, k), answer = made, learners(function)
    with redirect_stdout(io.StringIO()), np.errstate(all="ignore"), suppress(Exception):  # it needs more than its text
        alone = replay.run(answer.function(time.thread_time() + answer.seconds))[k]
        if np.shape(alone) == np.shape(got) and np.allclose(alone, got, equal_nan=True):
            return None
    return shared


def _shared(function) -> str | None:
    """A sentence about an array outside of a function that runs in several threads, which it writes to; or None."""
    known = getattr(function, "__globals__", {})
    tree = tree_of(function)
    if tree is None or not any(_is_pool(known.get(n.id)) for n in ast.walk(tree) if isinstance(n, ast.Name)):
        return None
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _called(n) in STARTS]
    inner = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not tree}
    for name in dict.fromkeys(n.id for call in calls for n in ast.walk(call) if isinstance(n, ast.Name)):
        worker = inner.get(name) or (tree_of(known[name]) if isinstance(known.get(name), FunctionType) else None)
        for array in _written_outside(worker) if worker else ():
            if isinstance(known.get(array), np.ndarray) or name in inner and array in _made_in(tree):
                return f"All threads write to `{array}`, which is made once: each of them needs an array of its own"
    return None


def _is_pool(value) -> bool:
    return any(value is each for each in (ThreadPoolExecutor, threading, threading.Thread)) or isinstance(
        value, Executor
    )


def _called(call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _made_in(tree) -> set:
    """The names that a function gives to a new array of NumPy's in its own lines."""
    pairs = [(line.targets[0], line.value) for line in tree.body if isinstance(line, ast.Assign)]
    several = [pair for pair in pairs if all(isinstance(each, ast.Tuple) for each in pair)]
    pairs += [each for target, value in several for each in zip(target.elts, value.elts)]
    made = [target for target, value in pairs if isinstance(value, ast.Call) and _called(value) in MAKES]
    return {target.id for target in made if isinstance(target, ast.Name)}


def _written_outside(worker) -> list[str]:
    """Names of what a function writes to in place, itself or through a slice with a name, and did not make itself.

    Not of what it writes to at an index of its own, `out[k : k + size]`.
    """
    nodes, parameters = list(ast.walk(worker)), {a.arg for a in worker.args.args}
    given = [n for n in nodes if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    views = {n.targets[0].id: n.value for n in given if isinstance(n.value, (ast.Subscript, ast.Name))}
    made = {n.targets[0].id for n in given} - views.keys() | parameters
    written = [n.target for n in nodes if isinstance(n, ast.AugAssign)]
    written += [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    written += [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "out"]
    whole = [views.get(root_of(place), place) for place in written if not _has_index(place)]
    roots = [root_of(place) for place in whole if not _has_index(place)]
    return [name for name in dict.fromkeys(roots) if name and name not in made]


def _has_index(place) -> bool:
    """Is it `x[k]` or `x[k:]`, where another thread may have another k? `x[:k]` begins where all others do."""
    while isinstance(place, ast.Subscript):
        for part in getattr(place.slice, "elts", [place.slice]):
            begin = part.lower if isinstance(part, ast.Slice) else part
            if begin is not None and names_in(begin):
                return True
        place = place.value
    return False
