"""How long a launch takes by the GPU's own clock, compared with the best that this GPU can do."""

from contextlib import suppress
from functools import lru_cache, partial
from statistics import median
from time import perf_counter

import numpy as np

from llmc import cuda
from llmc.bench.kernels.calls import computes
from llmc.bench.kernels.cases import GPT2, GPT2_32, Numbers
from llmc.bench.kernels.checks import difference, results
from llmc.kernels import matmul
from llmc.kernels.mixed import matmul as matmul_16
from llmc.kernels.mixed import matmul_fp8
from llmc.kernels.mixed.pointwise import round_to

ROTATE = 256 << 20  # bytes of arrays, in sets that take turns: more than any cache holds
COPIED = 1 << 28  # floats in the array that is copied: 1 GiB
PRODUCT = 8192  # rows and columns of the matrices that are multiplied
TOGETHER = 20_000  # µs of launches that are timed together
MOST = 2000  # launches in a graph
TRIES, ENOUGH = 9, 0.5  # a median of this many, or of fewer (at least three) after this many seconds


def add_times(group, rows, bounds, peer=None):
    """Add to a function's rows its times at GPT-2's sizes, how far its results are from version 1's ("apart"), and
    whether a second call gives the same bits ("repeats").

    peer(function, arguments): makes a function that computes the same in another way; its time is added too.
    """
    function = group[0].function
    sizes = GPT2 if computes(function) or function == "fused_classifier" else GPT2_32  # its logits take 1.6 GB at B=8

    def make(seed):
        return group[0].make(sizes, Numbers(cuda.xp, seed))

    first, others = None, []
    for version, row in zip(group, rows):
        case = make(seed=1)  # fresh: some versions overwrite what they read
        got = [a.copy() for a in results(version.launch, case, case.arguments)]
        first = first or got
        row["apart"] = max(difference(mine, its) for mine, its in zip(got, first))
        case = make(seed=1)
        again = results(version.launch, case, case.arguments)
        row["repeats"] = all(bool(cuda.xp.array_equal(_bits(mine), _bits(its))) for mine, its in zip(again, got))
        row["right"] &= row["apart"] <= version.agree and (row["repeats"] or not version.chosen)
        others = others or [make(seed) for seed in range(2, 1 + -(-ROTATE // case.nbytes))]
        launches = [partial(version.launch, **each.arguments) for each in (case, *others)]
        us = microseconds(launches, graph=not version.by_library)
        row |= {"device": cuda.name_of_gpu(), "shape": case.shape, **rates(case, us, bounds)}
        if peer:
            row["peer_us"] = microseconds([peer(function, each.arguments) for each in (case, *others)], graph=False)


def _bits(a):
    """A 16-bit array as whole numbers; any other array unchanged."""
    return a.view(np.uint16) if a.dtype.itemsize == 2 else a


def rates(case, us, bounds) -> dict:
    """The speed at `us` microseconds, which of the two limits is closer, and the share of it that is reached."""
    moving, computing = case.nbytes / bounds["copy_gb_s"] / 1e3, case.flops / bounds["sgemm_tflop_s"] / 1e6  # µs
    return {
        "bytes": case.nbytes,
        "flops": case.flops,
        "us": us,
        "gb_s": case.nbytes / us / 1e3,
        "tflop_s": case.flops / us / 1e6,
        "limit": "memory" if moving > computing else "compute",
        "share": max(moving, computing) / us,
        **bounds,
    }


# ------------------------------------------------------------------------------------------------------------ the clock


def microseconds(launches, graph=True) -> float:
    """Median time of one launch. launches: functions that take turns to launch the same kernel, each on its own arrays.

    Launching a kernel from Python takes longer than many kernels take to run, so launches are recorded in a graph,
    which the GPU replays by itself. graph=False is for library calls, which cannot be recorded.
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
    """Microseconds from the start of the first launch to the end of the last."""
    begin, end = cuda.xp.cuda.Event(), cuda.xp.cuda.Event()
    begin.record()
    for launch in launches:
        launch()
    end.record()
    end.synchronize()
    return 1e3 * cuda.xp.cuda.get_elapsed_time(begin, end)


def _recorded(launches):
    """A function that makes the GPU run all these launches, one after another."""
    stream = cuda.xp.cuda.Stream(non_blocking=True)
    cuda.synchronize()
    with stream:
        stream.begin_capture()
        try:
            for launch in launches:
                launch()
        except Exception:
            with suppress(cuda.xp.cuda.runtime.CUDARuntimeError):
                stream.end_capture()  # else nothing could run after this
            raise
        graph = stream.end_capture()
    return graph.launch  # on the current stream


@lru_cache
def limits(tf32=False, low=None, narrow=False) -> dict:
    """{"copy_gb_s": rate at which a large copy reads and writes, "sgemm_tflop_s": rate of a large product by cuBLAS}.

    low: the data type of the product's inputs, if that has 16 bits; narrow: whether they are rounded to 8 bits first.
    """
    return {
        "copy_gb_s": 8 * COPIED / _copy() / 1e3,
        "sgemm_tflop_s": 2 * PRODUCT**3 / _product(tf32, low, narrow) / 1e6,
    }


def _copy() -> float:
    """Microseconds to copy COPIED floats."""
    one, other = _noise(COPIED), cuda.xp.empty(COPIED, np.float32)  # (COPIED,) each
    return microseconds([lambda: cuda.xp.copyto(other, one)], graph=False)


def _product(tf32, low, narrow) -> float:
    """Microseconds to multiply two matrices of shape (PRODUCT, PRODUCT)."""
    a, w = (_noise(PRODUCT * PRODUCT).reshape(1, PRODUCT, PRODUCT) for _ in range(2))  # (1, n, n) each
    out = cuda.xp.empty_like(a)  # (1, n, n)
    if low is None:
        return microseconds([lambda: matmul.matmul_forward(out, a, w[0], None, tf32=tf32, by="cublas")], graph=False)
    rounded = [cuda.xp.empty(a.shape, low) for _ in range(3)]  # (1, n, n) each
    for to, array in zip(rounded, (a, w), strict=False):
        round_to(to, array)
    a, w, out = rounded
    if narrow:
        factors = matmul_fp8.factors(a, w[0])
        return microseconds([lambda: matmul_fp8.product(out, *factors)], graph=False)
    return microseconds([lambda: matmul_16.matmul_forward(out, a, w[0], None, by="cublas")], graph=False)


def _noise(n):
    """Random numbers (n,), because zeros would be multiplied faster."""
    few = np.random.RandomState(0).standard_normal(1 << 20).astype(np.float32)  # (2^20,)
    return cuda.xp.resize(cuda.xp.asarray(few), n)  # (n,)
