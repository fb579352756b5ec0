"""The linear layer for a few rows, as in sampling: launches the kernel of matvec.cu, on a GPU or on the emulator."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from llmc.kernels import ceil_div
from llmc.kernels.mixed import kernel_for
from llmc.kernels.pointwise import MOST as ELEMENTS
from llmc.kernels.pointwise import aligned

MOST = 8  # rows that the kernel takes
FASTER = 4, 2  # rows up to which it was faster than cuBLAS on an H200; the second for MANY columns
AHEAD = 4 * 32 * 8  # numbers of a row of w that a warp has under way at once
MANY = 16384  # columns of out from which on a warp has several, so that x is read less often


class Way(NamedTuple):
    """How the columns of the result are shared out, under the names of the macros of matvec.cu."""

    WARPS: int = 4
    COLUMNS: int = 1
    SHARE: int = 1


@lru_cache
def way(N, K) -> Way:
    """As many warps for a column as make it a single round of loads, and a few columns for a warp if there are many."""
    share = min(8, 1 << (ceil_div(K, AHEAD) - 1).bit_length())
    return Way(WARPS=max(4, share), COLUMNS=2 if N >= MANY else 1, SHARE=share)


def fits(x, w) -> bool:
    """Whether the kernel should multiply x (…, K) by w (N, K): few rows, and rows that consist of 128-bit words."""
    N, K = w.shape
    return x.size <= FASTER[N >= MANY] * K and K % 8 == 0 and w.size <= ELEMENTS and aligned(x, w)


def matvec(out, x, w, b=None, gelu_out=None, how: Way | None = None):
    """*out = x · wᵀ + b and, unless gelu_out is None, *gelu_out = GELU(out), of the rounded numbers.

    out, gelu_out (M, N), x (M, K), w (N, K), b (N,) or None: 16 bits, C-contiguous; only the sizes of out and x matter,
    not their shapes; up to 8 rows. `fits` is true of x and w but for the number of rows. how: None for what `way` says.
    """
    N, K = w.shape
    how = how or way(N, K)
    macros = " ".join(f"{name}={value}" for name, value in how._asdict().items())
    defines = f"M={x.size // K} {macros} GELU={int(gelu_out is not None)}"
    arguments = (out, 0 if gelu_out is None else gelu_out, x, w, 0 if b is None else b, np.int32(N), np.int32(K))
    blocks = ceil_div(N, how.WARPS // how.SHARE * how.COLUMNS)
    kernel_for(out, "matvec", "matvec_v1", defines)((blocks,), (32 * how.WARPS,), arguments)
