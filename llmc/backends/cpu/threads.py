"""Who may use the cores: Numba's threads, and no others.

Numba's pool (OpenMP where it is found) sleeps while it waits: by default an idle thread spins for milliseconds, and
when another program holds a core, everyone waits for that spinning. It spins for as long as Python takes between two
kernels, though: a wake-up in a virtual machine takes longer than most kernels of a sampled token do. The BLAS that the
kernels call has one thread (`blas.py`); NumPy's own keeps its threads, for the rest of the program.
"""

import os
from contextlib import contextmanager

ASLEEP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "10000"}  # about 0.2 ms


@contextmanager
def environment(defaults):
    """Environment variables that are set inside the block, where the user has not set them."""
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def load_pool():
    """Load Numba's OpenMP pool, which reads the environment once, now. Without OpenMP, Numba has a pool of its own."""
    with environment(ASLEEP):
        try:
            from numba.np.ufunc import omppool  # noqa: F401
        except ImportError:
            pass
