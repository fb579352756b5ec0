"""What should a launch leave? Our solution says it: as a model in Python where there is one, else as CUDA C."""

import copy
import time

import numpy as np

from llmc.course.kernel_checks import runs
from llmc.course.kernel_checks.solutions import source_of


def after_launch(exercise, model, kernel, sizes, arguments, how) -> list | None:
    """The arguments as our solution leaves them; None where there is no solution.

    model: a modelled.Model, or None. sizes: (grid, block). how: (indices of outputs, bytes of shared memory, options).
    """
    ours, (outputs, shared_mem, options) = copy.deepcopy(list(arguments)), how
    if model is not None:
        with np.errstate(all="ignore"):
            model.function(time.thread_time() + model.seconds)(*sizes, *ours)
        return ours
    code = source_of(exercise)
    if code is None:
        return None
    runs.emulate(code, kernel, *sizes, ours, outputs=outputs, shared_mem=shared_mem, options=options)
    return ours
