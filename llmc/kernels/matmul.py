"""The linear layer: products by a library (cuBLAS on a GPU, NumPy's BLAS without one) or by the kernels of matmul.cu.

LLMC_MATMUL=kernel selects our own products; so does `multiply_by("kernel")`. LLMC_TF32=1 lets cuBLAS round inputs to
TF32 (10 bits of mantissa, sums in float32), which tensor cores multiply many times faster; so does `cublas.tf32(True)`.
It is off by default, as in PyTorch: then results agree with other backends to 1e-5, with TF32 to about 1e-3.
"""

import os

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, kernel
from llmc.kernels.bias_backward import bias_backward
from llmc.kernels.pointwise import THREADS, blocks_at_once

VERSIONS = {"matmul_forward": 2, "matmul_gelu_forward": 2, "matmul_backward": 2}
TILE = 128  # rows and columns of the results of a block in version 2, as in matmul.cu
WAYS = ("library", "kernel")

_way = None  # what `multiply_by` has returned last


def multiply_by(way=None) -> str:
    """What multiplies, "library" or "kernel"; with an argument, from now on. Raises UserError for anything else."""
    global _way
    way = way or _way or os.environ.get("LLMC_MATMUL", "library")
    if way not in WAYS:
        raise UserError(f"matrices are multiplied by library or kernel (LLMC_MATMUL), not by {way!r}.")
    _way = way
    return _way


def matmul_forward(out, x, w, b, version=None):
    """*out = x · wᵀ + b.

    out: float32 (B, T, C_out). x: float32 (B, T, C_in). w: float32 (C_out, C_in). b: float32 (C_out,) or None.
    All are C-contiguous. version: 1 or 2 for our own product; None is the library's, or as `multiply_by` says.
    """
    if _library(version):
        _product("matmul_forward", out, x, w, w.shape[0], w.shape[1], version, bias=b)
        return
    _product("matmul_forward", out, x, w, w.shape[0], w.shape[1], version)
    if b is not None:
        arguments = (out, b, np.int32(out.size), np.int32(b.size))
        kernel("matmul", "bias_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def matmul_gelu_forward(gelu_out, out, x, w, b, version=None):
    """*out as by matmul_forward, *gelu_out = GELU(out), float32 (B, T, C_out); bias and GELU are one kernel."""
    _product("matmul_forward", out, x, w, w.shape[0], w.shape[1], version)
    arguments = (gelu_out, out, b, np.int32(out.size), np.int32(b.size))
    kernel("matmul", "bias_gelu_forward_v1")((blocks_at_once(out.size, each=4),), (THREADS,), arguments)


def matmul_backward(dx, dw, db, dout, x, w, version=None):
    """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout. dx and db may be None.

    dx, x: float32 (B, T, C_in). dw, w: float32 (C_out, C_in). db: float32 (C_out,). dout: float32 (B, T, C_out).
    All are C-contiguous. version as in matmul_forward.
    """
    C_out, C_in = w.shape
    if dx is not None:
        _product("matmul_backward_input", dx, dout, w, C_in, C_out, version)
    _product("matmul_backward_weight", dw, dout, x, C_in, dout.size // C_out, version)
    if db is not None:
        bias_backward(db, dout)


def _library(version) -> bool:
    """Whether this version of a product is the library's."""
    return version is None and multiply_by() == "library"


def _product(name, result, a, b, N, K, version, bias=None):
    """result (M, N) = a · b, sums over K numbers, by the library or by the kernel of that name; see matmul.cu.

    bias (N,), which is added to every row, is for the library only.
    """
    M = result.size // N
    if _library(version):
        multiply = cublas.on_gpu if cuda.device() == "gpu" else cublas.on_cpu
        multiply(name, result, a, b, M, N, K, bias)
        return
    version = version or VERSIONS["matmul_forward"]
    grid, block = ((ceil_div(N, 16), ceil_div(M, 16)), (16, 16))
    if version == 2:
        grid, block = ((ceil_div(N, TILE), ceil_div(M, TILE)), (256,))
    kernel("matmul", f"{name}_v{version}")(grid, block, (result, a, b, np.int32(M), np.int32(N), np.int32(K)))
