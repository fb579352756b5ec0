"""Where mistakes come from: pieces of code, slices, arrays that are kept, constants."""

import functools
import math

import numpy as np
import pytest

from llmc.course.old.checks.held import held, held_bytes
from llmc.course.old.checks.origins import why_nan, why_wide
from llmc.course.old.checks.period import at_multiples, said_of_slices
from llmc.course.old.mutants.fitted import nice
from llmc.course.old.mutants.learners import learners
from llmc.course.old.mutants.replay import Replay

kept_here, MADE = {}, [np.zeros(10)]


def _widens(x):
    scale = np.sqrt(2 / np.pi)
    y = x * 2
    y[0] = 1
    return y * scale


def _overflows(x):
    e = np.exp(x)
    return _ratio(e, 1 + e)


def _ratio(above, below):
    return above / below


def _divides(p):
    z = np.log(p)
    return p * (z / z)


def _writes(out, x):
    y = np.log(x)
    out[...] = y - y
    x /= x


@functools.lru_cache
def _table(n):
    return np.ones(n)


def _keeps(x, made=MADE):
    kept_here[x.size] = kept_here.get(x.size, np.zeros(x.size))
    return x + _table(x.size)[: x.size] + kept_here[x.size]


def test_the_expression_that_widens_and_the_one_that_makes_nan_are_named():
    x = np.array([1, 200], np.float32)
    call = Replay.of((x,), {})
    wide = why_wide(learners(_widens), call, 0)
    assert wide.startswith("`y * scale` becomes float64: `scale`, made by `np.sqrt(2 / np.pi)`, is a NumPy float64")
    nan = why_nan(learners(_overflows), call, 0)
    assert nan == "`above / below` makes NaN of an infinity: inf / inf."


def test_what_makes_nan_in_the_entry_that_is_named():
    answer, call = learners(_divides), Replay.of((np.array([1.0, 0.0]),), {})
    of_log = "`np.log(p)` becomes infinite, and `z / z` makes NaN of that: inf / inf."
    assert why_nan(answer, call, 0) == why_nan(answer, call, 0, (1,)) == of_log
    assert why_nan(answer, call, 0, (0,)).startswith("`z / z` is NaN there, though what goes into it is finite: 0 / 0")


def test_what_is_written_into_a_buffer_makes_its_nan_and_not_the_last_one():
    nan = why_nan(learners(_writes), Replay.of((np.empty(2), np.zeros(2)), {}), 0)
    assert nan == "`np.log(x)` becomes infinite, and `y - y` makes NaN of that: inf - inf."


def test_arrays_that_a_function_keeps_are_counted_once():
    _keeps(np.ones(1000))
    assert held_bytes(_keeps) == 8 * (1000 + 1000 + 10)
    assert held(_keeps)["`kept_here`"] == 8000 and held(_widens) == {}


@pytest.mark.parametrize("places, found", [([20, 40], (20, 0)), ([19, 39], (20, -1)), ([5, 40], None), ([20], None)])
def test_places_where_slices_meet(places, found):
    wrong = np.zeros(55, bool)
    wrong[places] = True
    assert at_multiples(wrong) == found


def test_what_is_done_twice_or_not_at_all_is_said():
    before, right, wrong = np.zeros(50), np.ones(50), np.arange(50) % 20 == 0
    wrong[0] = False
    twice = np.where(wrong, 2.0, right)
    assert "are done twice" in said_of_slices("m", twice, right, before, right + 1, wrong)[0]
    assert "nothing is done there" in said_of_slices("m", np.where(wrong, 0, right), right, before, None, wrong)[0]


def test_a_fitted_number_is_named_as_the_solution_writes_it():
    known = {math.sqrt(2 / math.pi): "math.sqrt(2 / math.pi)"}
    assert nice(0.79788456, known, "float32")[1] == "math.sqrt(2 / math.pi)"
    assert nice(0.0447150000000001, {}) == (0.044715, "0.044715")
