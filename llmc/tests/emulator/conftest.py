"""What tests of the emulator share: that kernels run on it, and launches of the kernels in a test module's CODE."""

import numpy as np
import pytest

from llmc.cuda import RawModule, device, inspect
from llmc.tests.emulator.marked import arguments


@pytest.fixture(scope="module")
def emulator():
    """Kernels run on the emulator, on a machine with a GPU too."""
    before = device()
    device("emulator")
    yield
    device(before)


@pytest.fixture
def one_second(monkeypatch):
    """For kernels that never end."""
    monkeypatch.setenv("LLMC_EMULATOR_SECONDS", "1")


@pytest.fixture(scope="module")
def module(request, emulator):
    """{are launches checked?: the test module's CODE}"""
    return {check: RawModule(code=request.module.CODE, check=check) for check in (True, False)}


@pytest.fixture
def report(module):
    """A function that launches one block of a kernel of CODE and returns what the emulator says of it."""

    def of(name, threads=64, n=64, dtype=np.float32, value=1, arrays=None):
        given = arguments(dtype, n, value) if arrays is None else (*arrays, np.int32(n))
        return inspect(module[True].get_function(name), (1,), (threads,), given, measure=False)

    return of
