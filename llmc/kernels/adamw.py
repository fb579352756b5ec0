"""Launches the kernels of adamw.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel, laddered
from llmc.kernels.pointwise import THREADS, blocks_for

VERSIONS = {"adamw_update": 3, "adamw_update_by": 1}
FACTOR = 6  # the place in the settings of what multiplies the gradients


@laddered(1, 2)
def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False, *, version=3):
    """One AdamW step on +params, +m, +v; t = 1, 2, … is its number. With clear, *grads = 0 on the way.

    params, grads, m, v: float32 (n,), C-contiguous. The others are Python numbers. version: 1 to 3.
    """
    numbers = settings(lr, beta1, beta2, eps, weight_decay, t)[:FACTOR]
    arguments = (params, grads, m, v, np.int32(params.size), *numbers, np.int32(clear))
    kernel("adamw", f"adamw_update_v{version}")((blocks_for(params.size, each=4),), (THREADS,), arguments)


def settings(lr, beta1, beta2, eps, weight_decay, t):
    """What is the same for all parameters in step t, computed in double precision: float32 (7,), on the host.

    The last one multiplies the gradients: 1, until `norm.clip_factor` writes another into a copy on the device.
    """
    step, root = lr / (1.0 - beta1**t), (1.0 - beta2**t) ** -0.5
    return np.array([step, root, 1.0 - beta1, 1.0 - beta2, eps, 1.0 - lr * weight_decay, 1.0], np.float32)


def adamw_update_by(params, grads, m, v, settings, decayed=True, clear=False, version=1):
    """adamw_update with its numbers from device memory: settings, float32 (7,), as the function above makes them.

    decayed: whether these parameters have weight decay. A CUDA graph that holds this call follows whatever the settings
    are when it is replayed.
    """
    arguments = (params, grads, m, v, np.int32(params.size), settings, np.int32(decayed), np.int32(clear))
    kernel("adamw", f"adamw_update_by_v{version}")((blocks_for(params.size, each=4),), (THREADS,), arguments)
