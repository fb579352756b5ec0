"""Launches the kernels of norm.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel, scratch
from llmc.kernels.pointwise import THREADS, blocks_at_once

VERSIONS = {"global_norm": 1, "scale": 1}


def global_norm(grads, version=None):
    """Euclidean norm of grads, float32 (n,), as a float64 array (1,): float() of it waits for the GPU."""
    grid = blocks_at_once(grads.size, each=4)
    sums = scratch("norm", (grid + 1,), "float64")  # (blocks + 1,): the norm, and the sum of each block
    norm, partial = sums[:1], sums[1:]  # (1,), (blocks,)
    kernel("norm", "global_norm_partial_v1")((grid,), (THREADS,), (partial, grads, np.int32(grads.size)))
    kernel("norm", "global_norm_final_v1")((1,), (THREADS,), (norm, partial, np.int32(grid)))
    return norm


def scale(grads, factor, version=None):
    """*grads *= factor; grads: float32 (n,), C-contiguous."""
    arguments = (grads, np.float32(factor), np.int32(grads.size))
    kernel("norm", "scale_v1")((blocks_at_once(grads.size),), (THREADS,), arguments)
