"""Every version of every kernel in llmc/kernels: is it right, and how near to the limit?

On a GPU: µs of a launch at the sizes of GPT-2 124M, and the share of the limit: a large copy or the library's float32
product, whichever bounds the kernel, both measured in the same run. On the emulator: what it moves, at small sizes.
Right means: as the "numpy" backend in float64 to 1e-5 of the largest element, and at the timed size as version 1.
"""

from llmc import cuda
from llmc.bench.kernels.cases import ONE_ROW, SMALL
from llmc.bench.kernels.checks import check
from llmc.bench.kernels.times import add_times, library_in_float32, limits


def measure(chosen):
    """Yield a dict for each version, those of one function side by side; `head` and `line` say what is in it."""
    on_gpu = cuda.device() == "gpu"
    with library_in_float32():
        bounds = limits() if on_gpu else {}
        for function in dict.fromkeys(version.function for version in chosen):
            group = [version for version in chosen if version.function == function]
            rows = check(group, ONE_ROW if on_gpu else SMALL)
            if on_gpu:
                add_times(group, rows, bounds)
            yield from rows
