"""The emulator's arithmetic beside an H200's, bit for bit where CUDA promises bits: operations.json."""

import warnings

import numpy as np
import pytest

from llmc.precision import bfloat16
from llmc.tests.emulator import operations


def as_numbers(bits, type_):
    return bits.view(bfloat16()).astype(np.float32) if type_ == "b" else bits.view(operations.DTYPES[type_])


def units_apart(a, b):
    """Units in the last place between two arrays of bits of floats."""
    bits = 8 * a.itemsize

    def in_order(x):
        x = x.astype(object)
        return np.where(x >> (bits - 1), (1 << (bits - 1)) - x, x)

    return np.abs(in_order(a) - in_order(b))


def flushed(bits, type_):
    """Numbers in which a float32 that is too small to be a normal one is zero."""
    with np.errstate(invalid="ignore"):
        numbers = as_numbers(bits, type_).astype(np.float64)
    return np.where(np.abs(numbers) < 2.0**-126, 0.0, numbers) if type_ in "fdb" else numbers


@pytest.mark.parametrize("types, result", operations.groups())
def test_as_on_an_h200(types, result):
    rows = operations.groups()[types, result]
    found = operations.computed(types, result, [row[2] for row in rows])
    told = []
    for (_, _, expression, units, hexed), bits in zip(rows, found):
        gpu = np.frombuffer(bytes.fromhex(hexed), f">u{bits.itemsize}").astype(bits.dtype)
        same = bits == gpu
        if result in "fdhb":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nans = [np.isnan(as_numbers(each, result)) for each in (bits, gpu)]
            near = units < 0 or (units_apart(bits, gpu) <= units).astype(bool)
            if "f" in (
                result,
                *types,
            ):  # CuPy has float32 below 2^-126 flushed to zero (-ftz=true); the emulator keeps it
                near |= flushed(bits, result) == flushed(gpu, result)
            same |= nans[0] & nans[1] | ~nans[0] & ~nans[1] & near
        if not same.all():
            at = int(np.argmin(same))
            given = [as_numbers(each, type_)[at] for each, type_ in zip(operations.arguments(types), types)]
            told.append(
                f"{expression} of {given}: {as_numbers(bits, result)[at]}, on a GPU {as_numbers(gpu, result)[at]}"
            )
    assert not told, "\n".join(told)


def test_the_table_is_large():
    assert len(operations.rows()) >= 200
