"""Memory of the "cpu" backend: arrays that begin at cache lines, and scratch memory made of them."""

import numpy as np

from llmc.flat_buffer import Scratch

LINE = 64  # bytes of a cache line, and of the widest vector register


def zeros(n, dtype):
    """A new flat array of n zeros that begins at a cache line, so that equal runs round equally in every library."""
    dtype = np.dtype(dtype)
    raw = np.zeros(n * dtype.itemsize + LINE, np.uint8)  # (bytes,)
    start = -raw.ctypes.data % LINE
    return raw[start : start + n * dtype.itemsize].view(dtype)  # (n,)


scratch = Scratch(zeros)
