"""Sentences about a number, or a row, that a loop takes out of an array and changes in vain; and when none is said."""

import ast

import pytest

from llmc.course.old.checks.loop_variables import lost_in_a_loop

LOST = {
    "for a, b in zip(w, dw):\n  a -= b": "with `w[i] -= …`",
    "for i, (a, b) in enumerate(zip(w, dw)):\n  a = a - b": "with `w[i] = …`",
    "for i in range(3):\n  a = w[i]\n  a *= 2": "with `w[i] *= …`",
    "for a in w.flat:\n  a += 1": "a copy of an entry of `w`",
}
LOST_IN_ROWS = {
    "for row in w:\n  for a in row:\n   a += 1": "with `w[i, j] += …`",
    "for row in w:\n  row = row + 1": "with `row[...] = …`",
    "for b in range(3):\n  row = w[b]\n  row = row / 2": "gives the name `row` to a new array",
}
WRITTEN = (
    "for row in w:\n  row += 1",
    "for i in range(3):\n  a = w[i]\n  a -= dw[i]\n  w[i] = a",
    "a = w[mask]\n a -= dw[mask]",
    "for i in range(3):\n  i += 1",
    "for a, b in zip(w, dw):\n  a -= b\n np.subtract(w, dw, out=w)",
    "for a, b in zip(w, dw):\n  a -= b\n update(w)",
)


def said(body, ndim, **more):
    return lost_in_a_loop(ast.parse(f"def f(w, dw):\n {body}"), "w", ndim, **more)


@pytest.mark.parametrize("body, words", LOST.items())
def test_a_number_taken_out_of_an_array_is_a_copy(body, words):
    assert words in said(body, 1)


@pytest.mark.parametrize("body, words", LOST_IN_ROWS.items())
def test_a_row_given_to_a_new_array_is_lost(body, words):
    assert words in said(body, 2)


def test_a_list_of_arrays_is_gone_through_as_well():
    assert "with `w[n][i] *= …`" in said("for g in w:\n  for a in g:\n   a *= 2", 1, in_a_list=True)


@pytest.mark.parametrize("body", WRITTEN)
def test_nothing_is_said_where_a_line_may_write_into_the_array(body):
    assert said(body, 2) is None
