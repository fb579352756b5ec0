"""Launches the kernels of norm.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel, laddered, scratch
from llmc.kernels.pointwise import THREADS, blocks_at_once, blocks_for

VERSIONS = {"global_norm": 2, "scale": 2}


@laddered(1)
def global_norm(grads, *, version=2):
    """Euclidean norm of grads, float32 (n,), as a float64 array (1,) on the device: float() of it waits for the GPU.

    The next call overwrites it. version: 1 or 2; only 2 adds in a fixed order.
    """
    grid, n = blocks_at_once(grads.size, each=4), np.int32(grads.size)
    sums = scratch("norm", (grid + 1,), "float64")  # (blocks + 1,): the norm, and the sum of each block
    norm, partial = sums[:1], sums[1:]  # (1,), (blocks,)
    kernel("norm", f"global_norm_partial_v{version}")((grid,), (THREADS,), (partial, grads, n))
    kernel("norm", f"global_norm_final_v{version}")((1,), (THREADS,), (norm, partial, np.int32(grid)))
    return norm


def clip_factor(factor, norm, max_norm):
    """*factor, float32 (1,), by which gradients of that norm, float64 (1,), come down to max_norm; 1 if they are below.

    NaN for a norm that is not finite; `adamw_update_by` then leaves everything as it is. max_norm may be infinity.
    Both arrays are on the device, so that a training step does not wait for the norm.
    """
    kernel("norm", "clip_factor_v1")((1,), (1,), (factor, norm, np.float64(max_norm)))


@laddered(1)
def scale(grads, factor, *, version=2):
    """*grads *= factor; grads: float32 (n,), C-contiguous. version: 1 or 2."""
    arguments = (grads, np.float32(factor), np.int32(grads.size))
    kernel("norm", f"scale_v{version}")((blocks_for(grads.size, each=4),), (THREADS,), arguments)
