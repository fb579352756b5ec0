"""Launches the kernels of adamw.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import adamw, scratch
from llmc.kernels.mixed import kernel_for
from llmc.kernels.mixed.pointwise import EACH
from llmc.kernels.pointwise import THREADS, blocks_at_once, blocks_for

UNSCALE, KEY = adamw.FACTOR + 1, adamw.FACTOR + 2  # places in the settings


def settings(loss_scale, key, **numbers):
    """What is the same for all weights in a step: float32 (9,), on the host.

    numbers: those of `llmc.kernels.adamw.settings`, which come first · loss_scale: what gradients are divided by · key:
    of stochastic rounding; its lower 32 bits are the bits of the last number.
    """
    found = np.array([*adamw.settings(**numbers), 1.0 / loss_scale, 0.0], np.float32)  # (9,)
    found[KEY:].view(np.uint32)[0] = key & 0xFFFFFFFF
    return found


def adamw_update(params, grads, m, v, master, settings, decayed=True, clear=False, tensor=0, place=0, rows=None):
    """One AdamW step on +master, which may be None; *params become its rounding. With clear, *grads = 0.

    params, grads: 16 bits (n,). m, v, master: float32 (n,). settings: float32 (9,), on the device. decayed: whether
    these weights decay. tensor: added to the key of the settings, so that each tensor has random bits of its own;
    place: of the first of these weights in the tensor, for the same reason. rows: None, or (row, stride) for weights
    that lie in params, which is then longer, in rows of `row` each that begin `stride` apart.
    """
    n = grads.size
    arguments = (params, grads, m, v, 0 if master is None else master, np.int32(n), settings)
    numbers = tensor, place, *(rows or (n, n)), decayed, clear
    launch = kernel_for(params, "adamw", "adamw_update_v1")
    launch((blocks_for(n, EACH),), (THREADS,), (*arguments, *(np.int32(number) for number in numbers)))


def global_norm(grads, settings=None):
    """Euclidean norm of grads, 16 bits (n,), as a float64 array (1,) on the device: float() of it waits for the GPU.

    settings: on the device; with them, the norm is divided by the loss scale. The next call overwrites it.
    """
    grid = blocks_at_once(grads.size, EACH)
    sums = scratch("norm", (grid + 1,), "float64")  # (blocks + 1,): the norm, and the sum of each block
    norm, partial = sums[:1], sums[1:]  # (1,), (blocks,)
    kernel_for(grads, "adamw", "norm_partial_v1")((grid,), (THREADS,), (partial, grads, np.int32(grads.size)))
    unscale = 0 if settings is None else settings[UNSCALE:]
    kernel_for(grads, "adamw", "norm_final_v1")((1,), (THREADS,), (norm, partial, np.int32(grid), unscale))
    return norm
