"""What tests of the kernels share."""

import numpy as np
import pytest

from llmc import cuda
from llmc.precision import find_precision


@pytest.fixture(params=["bf16", "fp16"])
def low(request, monkeypatch):
    """A data type of 16 bits. The emulator checks every launch in one of them: the text is the same in both."""
    if request.param == "bf16" and cuda.device() == "emulator":
        monkeypatch.setenv("LLMC_CHECK", "1")
    return find_precision(request.param).weights


@pytest.fixture(params=["float32", "16 bits"])
def stream(request, low):
    """The data type of the residual stream and its gradient: 16 bits in fp8."""
    return low if request.param == "16 bits" else np.dtype(np.float32)
