"""Checks every version of every kernel in llmc/kernels: is it right, and how close does it come to the limit?

On a GPU: µs per launch at the sizes of GPT-2 124M (T=1024; B=8 for products, attention and the classifier, B=32 for all
others), and the share of the limit. The limit is a large copy or the library's product (in float32 or TF32), whichever
bounds the kernel; both are measured in the same run. On the emulator: how much a kernel moves, at small sizes. A kernel
is right if it is within 1e-5 of the largest element (2e-3 with TF32) of what the "numpy" backend computes in float64,
at a large and at an odd size, and of what the first version computes at the timed size. The version that llmc uses must
also give the same bits twice. In 16 bits, mixed.py has the calls, and torch_calls.py has PyTorch's counterpart
of each, whose time is shown next to ours.
"""

from llmc import cuda
from llmc.bench.kernels.cases import ODD, ONE_ROW, SMALL
from llmc.bench.kernels.checks import check
from llmc.bench.kernels.times import add_times, limits


def measure(chosen, tf32=False, low=None, peer=None):
    """Yield a dict for each version in `chosen`, function by function; table.py shows what is in it.

    tf32, low: whether the limit is a product in TF32, or in which 16-bit data type · peer: as for `add_times`.
    """
    on_gpu = cuda.device() == "gpu"
    bounds = limits(tf32, low) if on_gpu else {}
    for function in dict.fromkeys(version.function for version in chosen):
        group = [version for version in chosen if version.function == function]
        rows = check(group, ONE_ROW if on_gpu else SMALL)
        if on_gpu:
            for row, odd in zip(rows, check(group, ODD)):
                row |= {"error": max(row["error"], odd["error"]), "right": row["right"] and odd["right"]}
            add_times(group, rows, bounds, peer)
        yield from rows
