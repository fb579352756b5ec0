"""What tests of the course share: no progress is recorded, kernels that never end do so soon."""

import pytest

from llmc.course import recording


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
