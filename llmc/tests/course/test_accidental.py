"""Changes that take something of another kind, or make a condition idle, pass a check by accident."""

import ast

import numpy as np
import pytest

from llmc.course.old.mutants.accidental import Kinds, accidental, does_nothing
from llmc.course.old.mutants.python_source import mutants
from llmc.course.old.mutants.solution import Solution, plain

TEXT = """
def answer(x, rate, ok, n, text):
    active = x != 0
    out = np.where(active, x * rate, x)
    return out, n * rate, text
"""
CALLS = [
    lambda function: function(np.array([0.0, 1.0, -2.0]), 0.5, np.True_, 3, "ab"),
    lambda function: function(np.array([2.0, 0.0]), 0.25, False, 1, "cd"),
]


@pytest.mark.parametrize(
    "words, now, by_accident",
    [
        ("with `rate` in place of `x`", "rate != 0", True),  # always true
        ("with -1 in place of 0", "x != -1", True),
        ("with `ok` in place of `n`", "ok * rate", True),  # a condition for a number
        ("with `text` in place of `n`", "text * rate", True),
        ("with `n` in place of `rate`", "x * n, x", False),
        ("with `x` in place of `rate`", "x * x, x", False),  # an array for a number, in a product
        ("without the factor `rate`", "active, x, x", False),
    ],
)
def test_which_changes_are_accidents(words, now, by_accident):
    program, found = Solution("answer", plain(ast.parse(TEXT)), {"np": np}), []
    before = Kinds(program, CALLS)
    for each in mutants(program.tree):
        if each.startswith(words) and now in ast.unparse(program.tree) and not each.endswith("everywhere"):
            found.append(accidental(each, before, lambda: Kinds(program, CALLS)))
    assert found == [by_accident]


def test_a_condition_that_is_multiplied_is_an_accident():
    program = Solution("answer", plain(ast.parse(TEXT)), {"np": np})
    other = Solution("answer", plain(ast.parse(TEXT.replace("n * rate", "n * ok"))), {"np": np})
    assert accidental("with a factor more", Kinds(program, CALLS), lambda: Kinds(other, CALLS))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("up = np.where(x > 1, up, up)", True),
        ("up = up if x else up", True),
        ("up = np.where(x > 1, up, x)", False),
        ("up = np.where(up, x, x)", False),
    ],
)
def test_a_line_that_gives_a_name_what_it_holds_does_nothing(line, kept):
    assert does_nothing(ast.parse(line)) == kept
