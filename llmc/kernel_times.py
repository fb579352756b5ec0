"""How long a launch takes on a GPU, by the GPU's own clock, and what this GPU can do at best."""

from functools import lru_cache
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda
from llmc.kernels import library, matmul

COPIED = 1 << 28  # floats of the array that is copied: 1 GiB
PRODUCT = 8192  # rows and columns of the matrices of the product
TOGETHER = 20_000  # µs of launches that are timed as one
MOST = 2000  # launches in a graph
TRIES, ENOUGH = 9, 0.5  # medians of so many, or of three when that took so many seconds


def microseconds(launches, graph=True) -> float:
    """Median time of one launch. launches: functions that launch the same kernel on arrays of their own, in turns.

    Python needs longer for a launch than many a kernel for its work, so launches are recorded in a graph, which the
    GPU replays by itself. graph=False for what cannot be recorded: calls of the library.
    """
    for launch in launches:
        launch()  # compiles, allocates scratch memory
    rounds = max(1, min(int(TOGETHER / _elapsed(launches)), MOST // len(launches)))
    work = [_recorded(launches * rounds)] if graph else launches * rounds
    found, start = [_elapsed(work)], perf_counter()  # the first one warms up
    while len(found) <= 3 or (len(found) <= TRIES and perf_counter() - start < ENOUGH):
        found.append(_elapsed(work))
    return median(found[1:]) / (rounds * len(launches))


def _elapsed(launches) -> float:
    """µs from the start of the first launch to the end of the last."""
    begin, end = cuda.xp.cuda.Event(), cuda.xp.cuda.Event()
    begin.record()
    for launch in launches:
        launch()
    end.record()
    end.synchronize()
    return 1e3 * cuda.xp.cuda.get_elapsed_time(begin, end)


def _recorded(launches):
    """A function that has the GPU make all these launches, one after the other."""
    stream = cuda.xp.cuda.Stream(non_blocking=True)
    cuda.synchronize()
    with stream:
        stream.begin_capture()
        for launch in launches:
            launch()
        graph = stream.end_capture()
    return graph.launch  # on the current stream


@lru_cache(maxsize=1)
def limits() -> dict:
    """{"copy_gb_s": bytes read and written by a large copy, "sgemm_tflop_s": the library's float32, TF32 off}."""
    return {"copy_gb_s": 8 * COPIED / _copy() / 1e3, "sgemm_tflop_s": 2 * PRODUCT**3 / _product() / 1e6}


def _copy() -> float:
    """µs to copy COPIED floats from one place to another."""
    one, other = _noise(COPIED), cuda.xp.empty(COPIED, np.float32)  # (COPIED,) each
    return microseconds([lambda: cuda.xp.copyto(other, one)], graph=False)


def _product() -> float:
    """µs of a product of two matrices (PRODUCT, PRODUCT)."""
    a, w = (_noise(PRODUCT * PRODUCT).reshape(1, PRODUCT, PRODUCT) for _ in range(2))  # (1, n, n) each
    out = cuda.xp.empty_like(a)  # (1, n, n)
    before = library.tf32()
    library.tf32(False)
    try:
        return microseconds([lambda: matmul.matmul_forward(out, a, w[0], None)], graph=False)
    finally:
        library.tf32(before)


def _noise(n):
    """Random numbers (n,): zeros would be multiplied faster."""
    few = np.random.RandomState(0).standard_normal(1 << 20).astype(np.float32)  # (2^20,)
    return cuda.xp.resize(cuda.xp.asarray(few), n)  # (n,)


def name_of_gpu() -> str:
    """ "NVIDIA H200"."""
    runtime = cuda.xp.cuda.runtime
    return runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
