"""Launches made by hand: what the emulator would have recorded of them, and no kernel runs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from llmc.cuda.emulator.findings.raw import Raw

CODE = """extern "C" __global__ void add_up(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int k = 32; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
    }
    if (t == 0) out[blockIdx.x] = s[1];
}
"""


def launch(*problems, code=CODE, block=(64, 1, 1), grid=(4, 1, 1), **rest) -> Raw:
    """A launch with out (1024,) and x (32, 32), both float32."""
    out, x = np.zeros(1024, np.float32), np.zeros((32, 32), np.float32)
    plain = {"packed": None, "words": lambda: np.empty(0, np.uint64)}
    arguments = [
        SimpleNamespace(name=name, array=array, **plain) for name, array in (("out", out), ("x", x), ("n", None))
    ]
    return Raw(Path("none.so"), code, "add_up", grid, block, arguments, problems=list(problems), **rest)
