"""Launches the kernels of pointwise.cu, GELU and the residual stream, on a GPU or on the emulator.

Also the grids of all kernels that treat every element alike: the number of blocks for one element per thread, or four.
"""

from functools import lru_cache

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, kernel, laddered

VERSIONS = {"gelu_forward": 4, "gelu_backward": 3, "residual_forward": 3}
THREADS = 256  # per block: eight warps
MOST = (1 << 31) - (1 << 20)  # elements: an index in `int` may pass the last of them by a whole grid of threads


@laddered(1, 3, 4)
def gelu_forward(out, x, *, version=2):
    """*out = GELU(x), the tanh form.

    out, x: float32 arrays of any one shape, C-contiguous; out may be x. version: 1 to 4.
    """
    kernel("pointwise", f"gelu_forward_v{version}")((blocks_for(x.size, 4),), (THREADS,), (out, x, np.int32(x.size)))


@laddered(1, 2)
def gelu_backward(dx, dout, x, *, version=3):
    """*dx = dout · GELU'(x), the tanh form.

    dx, dout, x: float32 arrays of any one shape, C-contiguous; dx may be dout. version: 1 to 3.
    """
    arguments = (dx, dout, x, np.int32(x.size))
    kernel("pointwise", f"gelu_backward_v{version}")((blocks_for(x.size, 4),), (THREADS,), arguments)


@laddered(1, 3)
def residual_forward(out, x1, x2, *, version=2):
    """*out = x1 + x2.

    out, x1, x2: float32 arrays of any one shape, C-contiguous; out may be one of the others. version: 1 to 3.
    """
    arguments = (out, x1, x2, np.int32(out.size))
    kernel("pointwise", f"residual_forward_v{version}")((blocks_for(out.size, 4),), (THREADS,), arguments)


def check_elements(n):
    """Raise UserError for more elements than the kernels can count."""
    if n > MOST:
        raise UserError(f"kernels take up to {MOST:,} elements in an array, not {n:,}; use a smaller batch or model.")


def blocks_for(n, each=1) -> int:
    """Blocks for n elements, `each` of them per thread: blocks_for(1000, each=4) is 1, with 6 threads to spare.

    Raises UserError for more elements than the kernels can count.
    """
    check_elements(n)
    return ceil_div(n, THREADS * each)


def blocks_at_once(n, each=1) -> int:
    """The same, but at most as many blocks as the GPU holds at once; the kernel must have a grid-stride loop."""
    return min(blocks_for(n, each), 2048 // THREADS * multiprocessors(cuda.device()))


@lru_cache
def multiprocessors(kind, imitated=4) -> int:
    """How many multiprocessors the GPU has; each holds 2048 threads, on most GPUs. kind: what `cuda.device` returns.

    imitated: how many the emulator should have: few, so that blocks have several tasks on small arrays too.
    """
    if kind == "emulator":
        return imitated
    return cuda.xp.cuda.Device().attributes["MultiProcessorCount"]


def aligned(*arrays) -> bool:
    """Whether all of them begin at multiples of 16 bytes, as 128-bit accesses need."""
    return all(address_of(array) % 16 == 0 for array in arrays)


def address_of(array) -> int:
    """Where an array begins in memory, NumPy's or CuPy's."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
