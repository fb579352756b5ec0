"""The first wrong expression of a learner's function is found by putting our solution's numbers in its place."""

import ast

import numpy as np
import pytest

from llmc.course.old.mutants.grafted import Graft, graft
from llmc.course.old.mutants.replay import Replay
from llmc.course.old.mutants.solution import Solution, plain

SHARES = """
def shares(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
"""
CENTRED = """
def centred(x):
    mean = x.mean(axis=-1)
    return x - mean[:, None], mean
"""


def program(source):
    tree = plain(ast.parse(source))
    return Solution(tree.body[-1].name, tree, {"np": np})


@pytest.fixture
def found():
    """found(our solution, a learner's function): what the search says of three calls."""
    rng = np.random.default_rng(0)
    calls = [Replay((rng.normal(size=shape),), {}) for shape in [(4, 6), (4, 6), (3, 5)]]
    return lambda ours, theirs: graft(program(ours), program(theirs), calls)


def test_an_expression_that_makes_wrong_numbers_of_right_ones_is_named(found):
    theirs = SHARES.replace("e.sum(axis=-1, keepdims=True)", "(e.sum(axis=-1, keepdims=True) + 1)")
    assert found(SHARES, theirs) == Graft("`e.sum(axis=-1, keepdims=True) + 1`", "`e.sum(axis=-1, keepdims=True)`", [])


def test_a_row_after_the_other_is_compared_with_the_whole_array(found):
    theirs = """
def shares(x):
    out = np.empty_like(x)
    for i in range(len(x)):
        e = np.exp(x[i] - x[i].max())
        out[i] = e / np.sqrt(np.square(e).sum())
    return out
"""
    assert found(SHARES, theirs) == Graft("`np.sqrt(np.square(e).sum())`", "`e.sum(axis=-1, keepdims=True)`", [])


def test_names_that_hold_other_numbers_may_be_wrong_too(found):
    theirs = """
def shares(x):
    e = np.exp(x)
    total = e.sum(axis=-1, keepdims=True) + 1
    return e / total
"""
    named = found(SHARES, theirs)
    assert named.theirs == "`e / total`" and set(named.before) <= {"`e`", "`total`"} and named.before


def test_what_a_right_output_needs_is_not_named_though_our_solution_has_none_such(found):
    theirs = """
def centred(x):
    moved = x - x[:, :1]
    mean = moved.mean(axis=-1)
    return moved - mean[:, None], mean
"""
    named = found(CENTRED, theirs)
    assert named is None or "x[:, :1]" not in named.theirs


def test_what_goes_in_by_a_way_that_is_not_followed_is_not_called_right(found):
    theirs = """
def shares(x):
    rows = [np.exp(row) + 1 for row in x]
    return np.stack([e / e.sum() for e in rows])
"""
    assert found(SHARES, theirs) is None


def test_two_mistakes_in_two_places_have_no_graft(found):
    theirs = """
def centred(x):
    mean = x.mean(axis=-1) + 1
    return x - x.mean(axis=-1)[:, None] - 2, mean
"""
    assert found(CENTRED, theirs) is None


def test_one_wrong_call_is_not_enough():
    theirs = program(SHARES.replace("-1, keepdims=True)\n", "0, keepdims=True)\n"))
    assert graft(program(SHARES), theirs, [Replay((np.arange(12.0).reshape(3, 4),), {})]) is None


def test_an_expression_that_is_taken_from_a_list_is_not_followed(found):
    theirs = """
def shares(x):
    e = [np.exp(x), np.exp(-x)][0] + 1
    return e / e.sum(axis=-1, keepdims=True)
"""
    assert found(SHARES, theirs) is None


def test_names_that_are_exchanged_may_be_wrong_too(found):
    ours = "def product(x):\n    a, b = np.sin(x), np.cos(x)\n    return a / (b + 2)\n"
    theirs = "def product(x):\n    b, a = np.sin(x), np.cos(x)\n    return a / (b + 3)\n"
    assert found(ours, theirs) == Graft("`a / (b + 3)`", "`a / (b + 2)`", ["`a`", "`b`"])
