"""Lesson 11: how fast NumPy's BLAS multiplies with each set of kernels that this processor understands.

OpenBLAS reads OPENBLAS_CORETYPE once, when it is loaded, so every set is measured in a process of its own: with one
thread, by processor time, which other programs hardly change.
"""

import json
import os
import subprocess
import sys

from llmc.course.machine.facts import cpu_flags
from llmc.course.machine.openblas import FORCE, LEVELS

SHAPES = ((1024, 1024, 1024), (256, 768, 3072))  # N, C_in, C_out: a large square, and GPT-2's fc with 256 tokens
MEASURE = f"""
import json
import numpy as np
from llmc.course.lessons.fast_on_cpu.measuring import processor_seconds
from threadpoolctl import threadpool_info

rates = []
for N, C_in, C_out in {SHAPES}:
    x, w = np.ones((N, C_in), np.float32), np.ones((C_out, C_in), np.float32)
    out = x @ w.T
    (seconds,) = processor_seconds(lambda: np.matmul(x, w.T, out=out), seconds=0.1)
    rates.append(2 * N * C_in * C_out / seconds / 1e9)
blas = [pool.get("architecture") or pool["internal_api"] for pool in threadpool_info() if pool["user_api"] == "blas"]
print(json.dumps([(blas or ["?"])[0], rates]))
"""


def rates_by_kernels() -> dict:
    """{kernels: [GFLOP/s of each of SHAPES]}: first the library's own choice, then those that it can be made to use.

    If the BLAS is not OpenBLAS, or the processor not an x86, there is only one entry: {its name: rates}.
    """
    able = [FORCE[level] for level, needed in LEVELS.items() if needed <= cpu_flags()]
    return dict([_measure(), *(_measure(OPENBLAS_CORETYPE=name) for name in able)])


def _measure(**variables):
    """(kernels, rates)."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"} | variables
    command = [sys.executable, "-c", MEASURE]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
