"""The emulator's arithmetic beside an H200's, bit for bit where CUDA promises bits: operations.json."""

import numpy as np
import pytest

from llmc.tests.emulator import operations
from llmc.tests.emulator.operations import as_numbers


def units_apart(a, b):
    """Units in the last place between two arrays of bits of floats."""
    top = 1 << (8 * a.itemsize - 1)
    a, b = (np.where(x.astype(object) >= top, top - x.astype(object), x.astype(object)) for x in (a, b))
    return np.abs(a - b)


def flushed(bits, type_):
    """Numbers in which a float32 that is too small to be a normal one is zero: CuPy compiles with -ftz=true."""
    numbers = as_numbers(bits, type_).astype(np.float64)
    return np.where(np.abs(numbers) < 2.0**-126, 0.0, numbers) if type_ in "fdb" else numbers


def alike(here, gpu, types, result, units):
    """Which bits are the same, or as near as they may be."""
    same = here == gpu
    if result in "fdhb":
        nans = [np.isnan(as_numbers(bits, result).astype(np.float64)) for bits in (here, gpu)]
        near = units < 0 or (units_apart(here, gpu) <= units).astype(bool)
        if "f" in (result, *types):
            near |= flushed(here, result) == flushed(gpu, result)
        same |= nans[0] & nans[1] | ~nans[0] & ~nans[1] & near
    return same


@pytest.mark.parametrize("types, result", operations.GROUPS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_as_on_an_h200(types, result):
    rows = operations.GROUPS[types, result]
    found = operations.computed(types, result, [row[2] for row in rows])
    told = []
    for (_, _, expression, units, hexed), here in zip(rows, found):
        gpu = np.frombuffer(bytes.fromhex(hexed), f">u{here.itemsize}").astype(here.dtype)
        for at in np.flatnonzero(~alike(here, gpu, types, result, units))[:1]:
            given = [as_numbers(each, type_)[at] for each, type_ in zip(operations.arguments(types), types)]
            both = [as_numbers(bits, result)[at] for bits in (here, gpu)]
            told.append(f"{expression} of {given}: {both[0]}, on a GPU {both[1]}")
    assert not told and len(rows) > 0, "\n".join(told)


def test_the_table_is_large():
    assert len(operations.TABLE["rows"]) >= 200
