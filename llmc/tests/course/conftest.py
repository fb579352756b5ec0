"""What tests of the course share: progress is recorded nowhere, or apart; kernels that never end do so soon."""

import pytest

from llmc.course import recording
from llmc.course.learner import journal


@pytest.fixture
def not_recorded():
    """The checks that run record no progress."""
    was = recording(False)
    yield
    recording(was)


@pytest.fixture
def progress_file(tmp_path, monkeypatch):
    """Progress is recorded, in a file of its own."""
    monkeypatch.setenv("LLMC_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(journal, "_seen", {})
    was = recording(True)
    yield tmp_path / "progress.json"
    recording(was)


@pytest.fixture
def one_second(monkeypatch):
    """For kernels that never end."""
    monkeypatch.setenv("LLMC_EMULATOR_SECONDS", "1")
