"""Sums over the wrong axes: `compare(..., summed=terms)` says which axes of `terms` were summed."""

import ast
from itertools import combinations

import numpy as np

from llmc.course.old.checks.case import same
from llmc.course.old.checks.evidence import learners_function
from llmc.course.old.checks.text import tree_of


def wrong_sum(name, got, expected, terms):
    """One sentence, or None. expected is terms summed over some axes; got may have another shape."""
    terms = np.asarray(terms, np.float64)
    subsets = [axes for n in range(terms.ndim + 1) for axes in combinations(range(terms.ndim), n)]
    right = next((axes for axes in subsets if _like(terms.sum(axis=axes), expected)), None)
    if right is None:
        return None
    wanted = f"of the terms {terms.shape} it should be the sum over {_named(right)}"
    if not right:
        wanted = f"these terms {terms.shape} should not be summed in this call"
    for axes in subsets:
        sums = terms.sum(axis=axes)
        if axes != right and not _like(sums, expected) and _like(sums, got):
            return f"{name} is {'the sum over ' + _named(axes) if axes else 'not summed at all'}: {wanted}"
    for which, index in (("last", -1), ("first", 0)):
        if right and _like(terms[tuple(index if a in right else slice(None) for a in range(terms.ndim))], got):
            over = ", as if each overwrote the one before (use +=)" if which == "last" and _loops() else ""
            return f"{name} holds the {which} term alone{over}: {wanted}"
    return None


def _loops() -> bool:
    """Has the text of the learner's function a loop? Where nobody knows the text, it may."""
    tree = tree_of(learners_function())
    return tree is None or any(isinstance(node, ast.For | ast.While) for node in ast.walk(tree))


def _like(a, b):
    return np.shape(a) == np.shape(b) and same(np.asarray(a), np.asarray(b, np.float64))


def _named(axes) -> str:
    """ "axes 0 and 1"."""
    return ("axes " if len(axes) > 1 else "axis ") + " and ".join(map(str, axes))
