"""A change of our solution and one of the learner's function, after which both give the same: that shows the place."""

import ast
import re
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from llmc.course.old.mutants.python_source import likely

SHARE = {"float64": 1e-6, "float32": 1e-3}  # of the error that may remain unexplained
LEFT = 0.05  # of the learner's own error: what may remain between the two
FEW = 4  # wrong entries; fewer of them in float32 can agree with a mutant by chance
ALIKE = 1e-9  # relative differences of sizes that are the same but for rounding
BARE = re.compile(r"without the \w+ `[\d.e+-]+` ")
ONLY_A_NAME = re.compile(r"with = in place of .= in (`(\w+) .= .*`)")  # not x[...] += …, which writes


@dataclass(frozen=True)
class Found:
    """Words for a change of our solution, of the learner's function, or of both, after which they give the same.

    ours alone: it then gives the learner's numbers. yours alone: it then gives the right ones. partly: in this array,
    while others, which the learner's function gets right, would be wrong.
    """

    ours: str | None = None
    yours: str | None = None
    partly: bool = False


def meeting(search, answer) -> Found | None:
    """The least change of the learner's function that meets a change of ours, here and in the check's other calls."""
    if search.target.size < FEW:
        return None
    weights = np.random.default_rng(0).uniform(1, 2, search.target.size)  # one number stands for an array
    unwritten = _unwritten(search)
    ours = list(_plain(search.made(search.solution, likely, search.end()), unwritten))
    keys = np.array([array.ravel() @ weights for _, array in ours])
    error = np.nanmax(np.abs(search.got - search.target))
    found, least = [], np.inf  # (words, Found) of changes that are as small
    for words, array in _plain(search.made(answer, likely, search.end()), unwritten):
        near, size = SHARE[search.dtype] * np.abs(array).sum(), np.abs(array - search.target).max()
        if size < least * (1 + ALIKE) and not search.explains(array):
            for k in np.flatnonzero(np.abs(keys - array.ravel() @ weights) <= near):  # the likeliest first
                mine, its = ours[k]
                if np.abs(array - its).max() > LEFT * error:
                    continue  # both are so far off that the learner's mistake is lost among the rest
                another = words != mine or words.startswith("without the term")  # which may stand elsewhere
                if another and search.explains(its, array) and _elsewhere(search, mine, answer):
                    yours = search.placed(_said(words, answer.tree), answer)
                    found = [] if size < least * (1 - ALIKE) else found
                    found.append((words, Found(_said(mine, search.solution.tree), yours)))
                    least = min(least, size)
                    break
    if not found:
        return None
    first, best = found[0]
    if best.yours.startswith("without") and best.ours.startswith("without"):
        return _one_piece([each for _, each in found])  # where both lack a piece, that piece is the mistake
    return _both(search, answer, first, best.yours) or best


def _one_piece(found) -> Found | None:
    """Of several pieces of the learner's function, any of which may be the mistake: one that our solution has, too.

    `d` in `(d + d * (1 - h)) @ w` adds as much as the 1: nobody knows which of them stands in the wrong place, unless
    our solution has it in another. A bare number is hardly the one of them.
    """
    if len(found) == 1:
        return found[0]
    named = [each for each in found if not BARE.match(each.yours)]
    alike = [each for each in named if _quotation(each.yours) == _quotation(each.ours)]
    return alike[0] if alike else named[0] if len(named) == 1 else None


def _quotation(words) -> str:
    """The first piece of source that these words quote."""
    return words.split("`")[1] if "`" in words else ""


def _both(search, answer, first, said) -> Found | None:
    """The second change of the learner's function that makes the array right together with the first; None without one.

    first: the words of that change. said: the same, as a message says them.
    """
    with closing(likely(answer.tree, answer.more)) as changes:
        for words in changes:
            if words == first:
                second = search.mending(answer)
                if second:
                    return Found(yours=f"{said} and {second}")
    return None


def _elsewhere(search, words, answer) -> bool:
    """Does our solution with that change give what the learner's function gives as it is changed now, elsewhere?"""
    end = search.end()
    functions = (lambda: search.solution.function(end)), (lambda: answer.function(end))
    with closing(likely(search.solution.tree, search.solution.more)) as changes:  # the words may fit twice
        return any(other == words and search.elsewhere.meet(*functions) for other in changes)


def _plain(made, unwritten):
    """Those (words, array) that say something: pieces of a line, not the whole, and not a disguise of leaving it out.

    `1 - t / t` is 0: then what it multiplies is left out, and that is a change of its own.
    """
    left_out = []
    for words, array in made:
        if words.startswith("without"):
            left_out.append(array)
        elif not words.startswith("with = ") and any(np.array_equal(array, other) for other in left_out):
            continue
        if _says_something(words, array) and (unwritten is None or not np.array_equal(array, unwritten)):
            yield words, array


def _says_something(words, array) -> bool:
    """Is it a piece of a line that was changed, and are numbers left?"""
    return not words.startswith("without the line") and np.isfinite(array).all() and np.ptp(array) > 0


def _unwritten(search):
    """What the array holds if nobody writes it, as without a whole loop; None where it is not an argument."""
    try:
        return search.pick(search.replay.run(lambda *arguments, **options: None))
    except ValueError:  # there is no such output then
        return None


def _said(words, tree) -> str:
    """`dx = rstd`, for an argument dx, does nothing to the caller's array: then the line is left out."""
    found = ONLY_A_NAME.fullmatch(words)
    given = {a.arg for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for a in node.args.args}
    return f"without the line {found[1]}" if found and found[2] in given else words
