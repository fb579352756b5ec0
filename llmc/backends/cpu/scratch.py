"""Memory that kernels work in between two lines and that outlives no call: kept, so that a step allocates nothing."""

from math import prod

import numpy as np

LINE = 64  # bytes of a cache line, and of the widest vector register
_kept = {}


def zeros(n, dtype):
    """A new flat array of n zeros that begins at a cache line, so that equal runs round equally in every library."""
    dtype = np.dtype(dtype)
    raw = np.zeros(n * dtype.itemsize + LINE, np.uint8)  # (bytes,)
    start = -raw.ctypes.data % LINE
    return raw[start : start + n * dtype.itemsize].view(dtype)  # (n,)


def scratch(name, shape, dtype):
    """An array with anything in it, the same memory at every call of this name and dtype; it grows when it must."""
    size = prod(shape)
    dtype = np.dtype(dtype)
    flat = _kept.get((name, dtype))
    if flat is None or flat.size < size:
        flat = _kept[name, dtype] = zeros(size, dtype)
    return flat[:size].reshape(shape)
