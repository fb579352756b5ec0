"""The part of an array that nothing wrote, in words."""

import numpy as np
import pytest

from llmc.cuda.emulator.findings.extent import extent


def table(rows, columns):
    mask = np.zeros((5, 7), bool)
    mask[rows, columns] = True
    return mask


def box(*index):
    mask = np.zeros((2, 4, 6), bool)
    mask[index] = True
    return mask


@pytest.mark.parametrize(
    "mask, words",
    [
        (table(slice(None), slice(3, None)), "columns 3 to 6 of every row"),
        (table(slice(1, None), slice(None)), "all of rows 1 to 4"),
        (table(slice(4, None), slice(None)), "all of row 4"),
        (table(slice(2, 4), slice(0, 1)), "column 0 of rows 2 to 3"),
        (table(slice(None), slice(None)), "all of it"),
        (table(slice(None, None, 2), slice(None)), ""),
        (np.eye(4, dtype=bool), ""),
        (table(1, 2), ""),
        (box(1, slice(2, 4), slice(None)), "[1, 2:4, :]"),
        (box(slice(None), slice(None), 5), "[:, :, 5]"),
        (box(slice(None), slice(None, None, 2), slice(None)), ""),
        (box([0, 1], [3, 0], slice(None)), ""),
        (np.arange(9) > 5, "elements 6 to 8"),
        (np.arange(9) % 2 == 0, ""),
    ],
)
def test_words(mask, words):
    assert extent(mask) == words
