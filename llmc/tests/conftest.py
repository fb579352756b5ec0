"""What several tests share: the backends under test and the reference files that are not part of the repository."""

import os
from pathlib import Path

import pytest

from llmc.backends import BACKENDS, get_backend


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
