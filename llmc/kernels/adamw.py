"""Launches the kernels of adamw.cu. Works on GPU arrays and on the emulator's alike."""

import numpy as np

from llmc.kernels import kernel
from llmc.kernels.pointwise import THREADS, blocks_at_once, blocks_for

VERSIONS = {"adamw_update": 2}


def adamw_update(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, t, clear=False, version=None):
    """One AdamW step on +params, +m, +v; t = 1, 2, … is its number. With clear, *grads = 0 on the way.

    params, grads, m, v: float32 (n,), C-contiguous. The others are Python numbers; what is the same for all parameters
    is computed here, in double precision. version: 1 or 2, None is the last.
    """
    version = version or VERSIONS["adamw_update"]
    n = params.size
    grid = blocks_for(n) if version == 1 else blocks_at_once(n, each=4)
    step, root = lr / (1.0 - beta1**t), (1.0 - beta2**t) ** -0.5
    numbers = (step, root, 1.0 - beta1, 1.0 - beta2, eps, 1.0 - lr * weight_decay)
    scalars = (np.float32(x) for x in numbers)
    arguments = (params, grads, m, v, np.int32(n), *scalars, np.int32(clear))
    kernel("adamw", f"adamw_update_v{version}")((grid,), (THREADS,), arguments)
