"""What tests of the course share: no progress is recorded, nothing takes long, kernels that never end do so soon."""

import pytest

from llmc.course import recording
from llmc.course.old.checks import remedy


@pytest.fixture(autouse=True)
def no_remedy():
    """Nobody waits seconds for a sentence that is not asked for."""
    with remedy.searching(0):
        yield


@pytest.fixture
def not_recorded():
    """The checks that run record no progress."""
    was = recording(False)
    yield
    recording(was)


@pytest.fixture
def one_second(monkeypatch):
    """For kernels that never end."""
    monkeypatch.setenv("LLMC_EMULATOR_SECONDS", "1")
