"""What the last call of a check should have given, result by result: where does one belong, which others are right?"""

import ast
import copy
import time

import numpy as np

from llmc.course.old.mutants.picked import close
from llmc.course.old.mutants.replay import arrays_in, labelled

FEW = 4  # entries; fewer of them may be alike by chance


def place_of(solution, replays, got) -> str | None:
    """Words for the result of the last call that should be what `got` is; None if none should."""
    if solution is None or not replays or np.size(got) < FEW:
        return None
    words, results, _ = _results(solution, replays[-1])
    same = (k for k, it in enumerate(results) if np.shape(it) == np.shape(got) and close(got, it, it, "float32"))
    return next((words[k] for k in same), None)


def same_array(solution, replays, got) -> list[str]:
    """Names of the results of the last call that are all the array `got`, though they should differ; [] if only one is.

    Words for their places where they have no names.
    """
    if solution is None or not solution.of_arrays or not replays or not isinstance(got, np.ndarray) or got.size < 2:
        return []
    last = replays[-1]
    mine = last.outputs[: len(last.outputs) - len(arrays_in((last.arguments, last.options)))]
    words, results, _ = _results(solution, last)
    same = [k for k, each in enumerate(mine) if isinstance(each, np.ndarray) and _same_memory(each, got)]
    if len(mine) != len(results) or len(same) < 2:
        return []
    if any(np.array_equal(results[same[0]], results[k]) for k in same[1:]):
        return []  # so they are, in our solution
    names = _returned(solution, words)
    return [names[k].strip('"') for k in same]


def _same_memory(a, b) -> bool:
    """Are they one array, or views of all of it?"""
    return a.shape == b.shape and a.__array_interface__["data"] == b.__array_interface__["data"]


def mistaken_for(solution, replays, got) -> str | None:
    """Words for another result of the last call that `got` should have been; None if it is none of them."""
    if solution is None or not solution.of_arrays or not replays or np.size(got) < FEW:
        return None
    last = replays[-1]
    words, results, arguments = _results(solution, last)
    before = list(arrays_in((last.arguments, last.options)))
    named = [name for name, value in last.named(solution.function(0.0)).items() for _ in arrays_in(value)]
    if len(named) != len(arguments) or len(last.outputs) != len(results) + len(arguments):
        return None
    words += [f"`{name}`" for name in named]
    should = [*results, *(None if np.array_equal(now, old) else now for now, old in zip(arguments, before))]
    own = next((k for k, mine in enumerate(last.outputs) if mine is got or np.may_share_memory(mine, got)), None)
    for k, (word, it) in enumerate(zip(words, should)):
        alike = it is not None and np.shape(it) == np.shape(got) and close(got, it, it, "float32")
        if own is not None and k != own and alike and np.ptp(it) > 0:
            return word
    return None


def others(solution, replays, got) -> tuple[list[str], list[str]]:
    """Names of the other results of the last call that are right, and of those that are wrong; [] where unknown."""
    if solution is None or not solution.of_arrays or not replays:
        return [], []
    last = replays[-1]
    words, results, arguments = _results(solution, last)
    named = last.named(solution.function(0.0))
    names = [*_returned(solution, words), *(name for name, value in named.items() for _ in arrays_in(value))]
    expected, before = [*results, *arguments], [*results, *arrays_in((last.arguments, last.options))]
    if not len(names) == len(last.outputs) == len(expected):
        return [], []
    if not any(isinstance(mine, np.ndarray) and np.may_share_memory(mine, got) for mine in last.outputs):
        return [], []  # a call too large to be kept made it
    right, wrong = [], []
    for k, (name, mine, it) in enumerate(zip(names, last.outputs, expected)):
        given = k >= len(results) and np.array_equal(it, before[k])
        if given or np.shape(mine) != np.shape(it) or np.may_share_memory(mine, got):
            continue
        (right if close(mine, it, it, "float32") else wrong).append(name)
    return right, wrong


def _results(solution, replay):
    """Of the solution's call: (words for each of its results, these, the arrays among its arguments afterwards).

    All of them are empty if it stops.
    """
    arguments, options = copy.deepcopy((replay.arguments, replay.options))
    try:
        returned = solution.function(time.thread_time() + solution.seconds)(*arguments, **options)
    except Exception:
        return [], [], []
    found = list(labelled(returned))
    return [words for words, _ in found], [value for _, value in found], arrays_in((arguments, options))


def _returned(solution, words) -> list[str]:
    """Names of what the solution returns; the words for those that have none, and for all if one of them is a dict."""
    last = solution.tree.body[-1].body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    parts = getattr(value, "elts", [value] if value else [])
    if len(parts) != len(words):
        return words
    return [part.id if isinstance(part, ast.Name) else word for part, word in zip(parts, words)]
