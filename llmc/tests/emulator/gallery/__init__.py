"""Kernels that decide whether the emulator is honest: broken ones with the diagnosis they must get, clean ones without.

`broken/*.cu` hold the classic mistakes. A comment `//! kind [place]` marks the line that must be named, for a race both
lines; `a|b` means that either is right. `clean/*.cu` hold what looks suspicious and is not. `broken.py` and `clean.py`
say how each is launched. The kernels of one file are compiled together: that is most of the time it takes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from llmc.cuda import RawModule

FOLDER = Path(__file__).parent
KERNEL = re.compile(r"__global__ void (\w+)\(")
MARK = re.compile(r"//! ([a-z0-9|-]+)(?: (\S+))?$")


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched. make() gives the arguments; for a clean kernel also {index of one: values expected}."""

    grid: tuple
    block: tuple
    make: Callable
    shared_mem: int = 0
    outputs: tuple = ()
    name: str = ""  # the template's name expression, if it is not the case's own


@dataclass(frozen=True)
class Mark:
    line: int
    kinds: frozenset
    place: str | None


def launch(grid, block, make, **more):
    """launch(2, (8, 8), make): the sizes are numbers or tuples."""
    return Launch(triple(grid), triple(block), make, **more)


def triple(size):
    size = size if isinstance(size, tuple) else (size,)
    return size + (1,) * (3 - len(size))


def source(path):
    """Text of a kernel file: source("broken/races.cu")."""
    return (FOLDER / path).read_text(encoding="utf-8")


@cache
def module(path, names=(), check=True):
    """The compiled file; names are the name expressions of its templates."""
    return RawModule(code=source(path), name_expressions=names, check=check)


@cache
def marks(path):
    """{kernel: [Mark, ...]} of a file. What is marked in a __device__ function belongs to the kernel below it."""
    found, pending, kernel = {}, [], None
    for number, line in enumerate(source(path).splitlines(), start=1):
        if "__device__" in line:
            kernel = None
        if match := KERNEL.search(line):
            kernel = match[1]
            found[kernel], pending = pending, []
        if match := MARK.search(line):
            (pending if kernel is None else found[kernel]).append(
                Mark(number, frozenset(match[1].split("|")), match[2])
            )
    return found


def draw(*shape, seed=0, dtype=np.float32):
    """Normal random numbers."""
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def integers(high, *shape, low=0, seed=0, dtype=np.int32):
    return np.random.RandomState(seed).randint(low, high, shape).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)
