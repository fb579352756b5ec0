"""What several tests share: the backends under test and the reference files that are not part of the repository."""

import os
from pathlib import Path

import pytest

from llmc.backends import BACKENDS, get_backend
from llmc.cuda import devices


@pytest.fixture(params=[name for name in BACKENDS if name != "cuda"])
def backend(request):
    """Each backend that takes NumPy arrays of float64 in turn; "cuda" has kernels/test_backend.py."""
    return get_backend(request.param)


@pytest.fixture
def reference_dir():
    """Folder of files made by llm.c itself; the test is skipped when LLMC_REFERENCE_DIR does not name one."""
    folder = os.environ.get("LLMC_REFERENCE_DIR")
    if not folder:
        pytest.skip("LLMC_REFERENCE_DIR is not set: the files made by llm.c are not part of this repository")
    return Path(folder)


@pytest.fixture
def on_the_emulator(monkeypatch):
    """Kernels run on the emulator, on a machine with a GPU too, and launches are checked as by default."""
    monkeypatch.setattr(devices, "_forced", "emulator")
    monkeypatch.delenv("LLMC_CHECK", raising=False)
