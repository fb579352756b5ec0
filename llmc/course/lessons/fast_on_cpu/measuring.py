"""Lesson 11: what a function costs on one thread, in processor time, and how fast each set of BLAS kernels multiplies.

Processor time counts only while this program runs, so other programs on the machine hardly change it. It adds up the
seconds of all threads; with a single one it is the time that the function would take on a quiet machine. OpenBLAS reads
OPENBLAS_CORETYPE once, when it is loaded, so every set of its kernels is measured in a process of its own.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from time import perf_counter, process_time

import numpy as np
from numba import get_num_threads, set_num_threads
from threadpoolctl import threadpool_info, threadpool_limits

from llmc.course.checks.speed.timing import race
from llmc.course.machine.facts import cpu_flags
from llmc.course.machine.openblas import FORCE, LEVELS

CLOCK = perf_counter if sys.platform == "win32" else process_time  # on Windows, processor time moves in steps of 16 ms
CLOSE = 1.05  # costs within 5% of each other count as equal
SHAPES = ((1024, 1024, 1024), (256, 768, 3072))  # N, C_in, C_out: a large square, and GPT-2's fc with 256 tokens


@contextmanager
def one_thread():
    """Allow Numba and every BLAS library of this process one thread."""
    threads = get_num_threads()
    with threadpool_limits(1, user_api="blas"):
        set_num_threads(1)
        try:
            yield
        finally:
            set_num_threads(threads)


def processor_seconds(*functions, rounds=9, seconds=0.5):
    """`race` on one thread, by processor time: median seconds of each function, called without arguments."""
    with one_thread():
        return race(*functions, rounds=rounds, seconds=seconds, clock=CLOCK)


def times_as_fast(ratio) -> str:
    """A measured ratio of two times in words.

    >>> [times_as_fast(ratio) for ratio in (3.14, 1.02, 0.5)]
    ['3.1 times as fast', 'about as fast', 'slower, 2.0 times the time']
    """
    if ratio >= CLOSE:
        return f"{ratio:.1f} times as fast"
    return "about as fast" if ratio > 1 / CLOSE else f"slower, {1 / ratio:.1f} times the time"


def rates_by_kernels() -> dict:
    """{kernels: [GFLOP/s of each of SHAPES]}: first the library's own choice, then those that it can be made to use.

    If the BLAS is not OpenBLAS, or the processor not an x86, there is only one entry: {its name: rates}.
    """
    able = [FORCE[level] for level, needed in LEVELS.items() if needed <= cpu_flags()]
    return dict([_measure(), *(_measure(OPENBLAS_CORETYPE=name) for name in able)])


def _measure(**variables):
    """(kernels, rates) of a new process."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"} | variables
    command = [sys.executable, "-m", "llmc.course.lessons.fast_on_cpu.measuring"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def rates() -> tuple:
    """(kernels, [GFLOP/s of each of SHAPES]) of this process."""
    found = []
    for N, C_in, C_out in SHAPES:
        x, w, out = (np.ones(shape, np.float32) for shape in ((N, C_in), (C_out, C_in), (N, C_out)))
        (seconds,) = processor_seconds(lambda x=x, w=w, out=out: np.matmul(x, w.T, out=out), seconds=0.1)
        found.append(2 * N * C_in * C_out / seconds / 1e9)
    libraries = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return next((blas.get("architecture") or blas["internal_api"] for blas in libraries), "?"), found


if __name__ == "__main__":
    print(json.dumps(rates()))
