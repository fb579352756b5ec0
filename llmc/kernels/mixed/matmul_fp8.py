"""The linear layer with factors of 8 bits: products by cuBLASLt on a GPU, by the kernel of fp8.cu on the emulator.

What is rounded, and how, is said in `backends/fp8.py`. Tensor cores multiply 8 bits only along k: for dx that takes
weights that are transposed, for dw both factors. All copies live for one call.
"""

from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.backends.fp8 import ACTIVATIONS, WEIGHTS
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, cublaslt, scratch, seen, tensor_cores
from llmc.kernels.mixed import kernel_for, matmul
from llmc.kernels.mixed.columns import bias_backward
from llmc.kernels.pointwise import aligned, check_elements

CAPABILITY = 89  # of GPUs whose tensor cores multiply 8 bits
TILE, SIDE, THREADS = 64, 128, 256  # as in fp8.cu
WORD = 16  # bytes: what rows must consist of for cuBLASLt


class Factor(NamedTuple):
    """A matrix (n, K) of 8 bits, k running along its rows, that was multiplied by scale. kind: "E4M3" or "E5M2"."""

    array: object  # uint8
    kind: str
    scale: float


def check_device():
    """Raise UserError for a GPU whose tensor cores do not multiply 8 bits."""
    kind = cuda.device()
    capability = tensor_cores.compute_capability(kind)
    if kind == "gpu" and capability < CAPABILITY:
        raise UserError(
            f"fp8 needs a GPU of compute capability {CAPABILITY / 10} or more, and this one has {capability / 10};"
            " use bf16."
        )


def matmul_forward(out, x, w, b):
    """*out = x · wᵀ + b.

    out (B, T, C_out), x (B, T, C_in), w (C_out, C_in), b (C_out,) or None: bfloat16.
    """
    N, K = w.shape
    _product(out, _copy("x", x, K, "E4M3", ACTIVATIONS), _copy("w", w, K, "E4M3", WEIGHTS), bias=b)


def matmul_backward(dx, dw, db, dout, x, w, gradients, accumulate=True):
    """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate. dx, db may be None.

    dx, x (B, T, C_in), dw, w (C_out, C_in), db (C_out,): bfloat16. dout (B, T, C_out): bfloat16, or float32, which is
    rounded to that first. gradients: what dout is multiplied by, a power of two.
    """
    dout, db = matmul.rounded(db, dout, w, accumulate)
    if db is not None:
        bias_backward(db, dout, accumulate=accumulate)
    N, K = w.shape
    rows, columns = _copies("dout", dout, N, "E5M2", gradients, rows=dx is not None)
    if dx is not None:
        _product(dx, rows, _copies("w", w, K, "E4M3", WEIGHTS, rows=False)[1])
    _product(dw, columns, _copies("x", x, K, "E4M3", ACTIVATIONS, rows=False)[1], add=accumulate)


def _copy(name, x, C, kind, scale) -> Factor:
    """x (N, C) in 8 bits."""
    return _copies(name, x, C, kind, scale, columns=False)[0]


def _copies(name, x, C, kind, scale, rows=True, columns=True):
    """(Factor (N, C), Factor (C, N)) of x (N, C), each if it is asked for, in memory that is for this name."""
    N = x.size // C
    check_elements(x.size)
    wanted = {f"{name}, rows of 8 bits": rows, f"{name}, columns of 8 bits": columns}
    made = [scratch(title, (x.size,), np.uint8) if asked else 0 for title, asked in wanted.items()]
    launch = kernel_for(x, "fp8", "copies_v1", f"FORMAT={kind} ADD=0")
    blocks = ceil_div(N, SIDE) * ceil_div(C, SIDE)
    launch((blocks,), (THREADS,), (*made, x, np.float32(scale), np.int32(N), np.int32(C)))
    return [Factor(array, kind, scale) for array in made]


def _product(result, a, b, bias=None, add=False):
    """result (M, N), bfloat16, = or, with add, += a (M, K) · bᵀ (K, N), plus bias (N,) if there is one."""
    N = result.shape[-1]
    M = result.size // N
    K = a.array.size // M
    scale = 1.0 / (a.scale * b.scale)
    if cuda.device() == "gpu" and aligned(result) and not (M % WORD or N % WORD or K % WORD) and cublas.recordable():
        first, second = (cublaslt.Factor(f.array.data.ptr, K, f is b, cublaslt.TYPES[f.kind]) for f in (b, a))
        how = dict(compute=cublas.COMPUTE_32F, add=add, bias=bias, scale=scale)
        seen("cuBLAS", lambda: cublaslt.multiply(result, first, second, N, M, K, **how))
        return
    check_elements(max(result.size, a.array.size, b.array.size))
    blocks = ceil_div(M, TILE) * ceil_div(N, TILE)
    arguments = (result, a.array, b.array, 0 if bias is None else bias, np.float32(scale))
    launch = kernel_for(result, "fp8", "matmul_fp8_v1", f"FORMAT={a.kind} ADD={int(add)}")
    launch((blocks,), (THREADS,), (*arguments, np.int32(M), np.int32(N), np.int32(K)))
