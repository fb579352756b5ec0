"""How long a launch may take, by a clock that may leap."""

import itertools

import numpy as np

from llmc.cuda import RawKernel
from llmc.cuda.emulator.launching import native


def test_a_machine_that_slept_during_a_launch_does_not_end_it(emulator, monkeypatch):
    code = 'extern "C" __global__ void sums(float* x) { for (int i = 0; i < 300000000; i++) x[threadIdx.x] += i % 3; }'
    kernel, x, looks = RawKernel(code, "sums", check=False), np.zeros(1, np.float32), itertools.count()
    monkeypatch.setattr(native, "monotonic", lambda: 3600.0 * next(looks))  # an hour from look to look
    kernel((1,), (1,), (x,))
    assert x[0] > 0 and next(looks) > 2
