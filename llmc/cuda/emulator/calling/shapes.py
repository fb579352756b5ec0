"""What a GPU can launch at all: the limits of a grid, of a block and of its shared memory."""

import numpy as np

from llmc.errors import KernelError

DYNAMIC_LIMIT = 48 * 1024  # bytes of shared memory that a block may have by default
MOST_SHARED = 227 * 1024  # and at most, on an H100, if the kernel asks for more
GRID_LIMITS = (2**31 - 1, 65535, 65535)
THREADS, MOST_DEEP = 1024, 64  # of a block: in all, and along z


def check_launch(kernel: str, grid, block, shared_mem=0, static: int = 0, allowed: int | None = None, most=THREADS):
    """(grid, block) as triples of ints. Raises KernelError for whatever a GPU would not launch.

    shared_mem: bytes of dynamic shared memory requested; static: bytes declared in the kernel; allowed: the value that
    `kernel.max_dynamic_shared_size_bytes` was set to, if it was; most: threads of a block, by __launch_bounds__.
    """
    grid, block = _three_sizes(kernel, "grid", grid), _three_sizes(kernel, "block", block)
    for axis, size, limit in zip("xyz", grid, GRID_LIMITS):
        if size > limit:
            raise KernelError(
                f"{kernel}: the grid has {size} blocks along {axis}, but {limit} is the most; use x for more."
            )
    threads = block[0] * block[1] * block[2]
    if threads > THREADS:
        shape = " · ".join(map(str, block))
        raise KernelError(
            f"{kernel}: a block has {shape} = {threads} threads, but {THREADS} is the most; use more blocks."
        )
    if threads > most:
        raise KernelError(
            f"{kernel}: a block has {threads} threads, but the kernel's `__launch_bounds__` promises at most {most}: "
            "launch smaller blocks, or promise less."
        )
    if block[2] > MOST_DEEP:
        raise KernelError(f"{kernel}: a block has {block[2]} threads along z, but {MOST_DEEP} is the most; use x or y.")
    _check_shared(kernel, shared_mem, static, allowed)
    return grid, block


def _three_sizes(kernel, what, sizes):
    if not isinstance(sizes, tuple):
        hint = f"({sizes},)" if isinstance(sizes, (int, np.integer)) else "(x, y, z)"
        raise KernelError(f"{kernel}: {what} is {sizes!r}; CuPy needs a tuple: {hint}.")
    if not 1 <= len(sizes) <= 3:
        raise KernelError(f"{kernel}: {what} is {sizes!r}; give it one to three sizes.")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise KernelError(
                f"{kernel}: {what} is {sizes!r}; its sizes must be integers, and / makes a float: use //."
            )
        if size < 1:
            raise KernelError(
                f"{kernel}: {what} is {sizes!r}; each size must be at least 1: is there anything to do at all?"
            )
    return (*map(int, sizes), 1, 1)[:3]


def _check_shared(kernel, dynamic, static, allowed):
    if isinstance(dynamic, bool) or not isinstance(dynamic, (int, np.integer)) or dynamic < 0:
        raise KernelError(f"{kernel}: shared_mem is {dynamic!r}; give it a number of bytes.")
    if static > DYNAMIC_LIMIT:  # nothing raises this limit: nvcc refuses to compile such a kernel
        mend = "make them smaller, or use dynamic shared memory: extern __shared__ T name[];"
        raise KernelError(
            f"{kernel}: its static __shared__ arrays take {static} bytes, but at most {DYNAMIC_LIMIT} fit; {mend}"
        )
    asked = f"{dynamic} bytes of dynamic shared memory" + (f" plus {static} static ones" if static else "")
    if dynamic + static > MOST_SHARED:
        raise KernelError(f"{kernel}: {asked}, but a block never has more than {MOST_SHARED}; use smaller tiles.")
    limit = DYNAMIC_LIMIT - static if allowed is None else allowed
    if dynamic > limit:
        mend = f"kernel.max_dynamic_shared_size_bytes = {dynamic}"
        raise KernelError(f"{kernel}: {asked}, but this kernel may use only {limit}; set {mend} before the launch.")
