"""Kernels like the hardest public ones, written for these tests, and what launches them."""

from functools import cache
from pathlib import Path

import numpy as np

from llmc.cuda import RawModule, inspect

FOLDER = Path(__file__).parent


@cache
def module(file, names=()):
    code = (FOLDER / f"{file}.cu").read_text(encoding="utf-8")
    return RawModule(code=code, name_expressions=names, check=True)


def run(file, name, grid, block, *arguments, shared_mem=0, names=()):
    """A checked launch that must have no problem."""
    grid, block = ((size,) if isinstance(size, int) else size for size in (grid, block))
    report = inspect(module(file, names).get_function(name), grid, block, arguments, shared_mem, measure=False)
    assert report.ok, str(report)


def close(got, expected, tolerance=1e-4):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def ceil_div(a, b):
    return -(-a // b)
