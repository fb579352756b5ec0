"""np.empty's arrays show while an answer runs, Numba's own are left alone, and np is as it was afterwards."""

import numpy as np
import pytest
from numba import njit

from llmc.course import check, compare
from llmc.course.checks.messages.diagnosis import WrongAnswer
from llmc.course.uncleared import GARBAGE, garbage, marked
from llmc.precision import e5m2


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.int8, np.uint16])
def test_every_number_is_the_same_one(dtype):
    with marked():
        arrays = np.empty((2, 3), dtype), np.empty_like(np.ones(4, dtype))
        assert np.empty(2, bool).shape == np.empty(2, object).shape == (2,)  # which have no such number
    assert np.isfinite(garbage(dtype)) and garbage(e5m2()) is None
    assert all((array == garbage(dtype)).all() and array.dtype == dtype for array in arrays)


def test_np_is_as_it_was_whatever_happens():
    makers = np.empty, np.empty_like
    with pytest.raises(ZeroDivisionError), marked(), marked():
        1 / 0  # noqa: B018
    assert (np.empty, np.empty_like) == makers


def test_numba_compiles_inside_and_arrays_show_again_afterwards():
    @njit
    def ones(n):
        array = np.empty(n)
        array[:] = 1
        return array

    with marked():
        assert (ones(3) == 1).all()
        assert (np.empty(3) == GARBAGE).all()


def half_of(x):
    out = np.empty_like(x)
    out[:4] = x[:4]
    return out


def added_to_it(x):
    out = np.empty_like(x)
    out += x
    return out


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (half_of, "part of out was never written: 4 of 8 entries, the first at [4]; np.empty clears nothing"),
        (added_to_it, "out was added to an array of np.empty"),
    ],
)
def test_what_is_left_of_it_is_named(function, says, not_recorded):
    with pytest.raises(WrongAnswer) as caught, check("matmul_forward") as c:
        x = c.random(8)
        compare("out", c.call(function, x), x)
    assert says in str(caught.value)
