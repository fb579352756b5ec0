"""Matrix products by cuBLAS, with the kernels of cublas.cu beside it; for the emulator's arrays, by NumPy instead.

PRODUCTS lists the three products of the linear layer: how their factors lie in memory, and whether the result is added
to. BLAS is column-major: it sees a row-major result (M, N) as an (N, M) matrix, so the second factor comes first.
cuBLAS writes straight into the result; it allocates nothing after its first call, and nothing waits for it.

tf32=True lets it round both factors to TF32: tensor cores multiply those many times faster. Hopper's read them along k
only. A factor that lies across it would halve their speed (155 instead of 286 TFLOP/s on an H200 for the weights of
qkv), so it is transposed first: one pass over it. NumPy multiplies the same rounded factors, in float32.
"""

from ctypes import addressof
from functools import cache
from warnings import warn

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, cublaslt, kernel, scratch, seen
from llmc.kernels.pointwise import THREADS, aligned

PRODUCTS = {  # name: (k runs through memory in a, in b, the result is added to)
    "matmul_forward": (True, True, False),
    "matmul_backward_input": (True, False, False),
    "matmul_backward_weight": (False, False, True),
}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77  # cublasComputeType_t
R_32F, DEFAULT = 0, -1  # cudaDataType_t, cublasGemmAlgo_t
TURNED = 1 << 24  # weights of the largest layer that factors are transposed for: with the vocabulary's it does not pay


def description(tf32=False) -> str:
    """The library: "cuBLAS 13.1.0 (TF32)", or NumPy's BLAS."""
    if cuda.device() == "emulator":
        return "NumPy's, on the emulator"
    from cupy.cuda import cublas, device

    version = cublas.getVersion(device.get_cublas_handle())
    numbers = "TF32" if tf32 else "float32"
    return f"cuBLAS {version // 10000}.{version // 100 % 100}.{version % 100} ({numbers})"


@cache
def recordable() -> bool:
    """Whether products can be recorded into a CUDA graph. If not, for want of cuBLASLt, a warning says so, once."""
    found = cublaslt.library() is not None
    if not found:
        text = "cuBLASLt is not where CuPy's cuBLAS is, so training runs without CUDA graphs, a little slower."
        warn(text, stacklevel=2)
    return found


def on_gpu(name, result, a, b, M, N, K, bias=None, tf32=False, accumulate=True):
    """result (M, N) = or, if PRODUCTS says so and accumulate, += a · b, plus bias (N,) if there is one, by cuBLAS.

    A single row, as in sampling, goes to a kernel of ours: cuBLAS would take several times as long.
    """
    if name == "matmul_forward" and M == 1 and row_fits(a, b):
        matmul_row(result, a, b, bias)
        return
    a_runs, b_runs, add = PRODUCTS[name]
    add = add and accumulate
    compute = COMPUTE_32F_FAST_TF32 if tf32 else COMPUTE_32F
    if tf32 and (result if name == "matmul_backward_weight" else b).size <= TURNED:
        (a, a_runs), (b, b_runs) = _along_k((a, a_runs, M), (b, b_runs, N), K)
    first = cublaslt.Factor(b.data.ptr, K if b_runs else N, b_runs)
    second = cublaslt.Factor(a.data.ptr, K if a_runs else M, not a_runs)
    multiply = cublaslt.multiply if recordable() else _by_cupy
    seen("cuBLAS", lambda: multiply(result, first, second, N, M, K, compute=compute, add=add, bias=bias))


def row_fits(x, w) -> bool:
    """Whether the kernel can multiply x, a single row, by w (N, K): rows consist of 128-bit words."""
    return x.size == w.shape[1] and x.size % 4 == 0 and aligned(x, w)


def matmul_row(out, x, w, b=None):
    """*out = w · x + b.

    out: float32 (N,). x: float32 (K,). w: float32 (N, K). b: float32 (N,) or None. All are C-contiguous; only the sizes
    of out and x matter, not their shapes. `row_fits` is true of x and w.
    """
    N, K = w.shape
    arguments = (out, x, w, x if b is None else b, np.int32(N), np.int32(K), np.int32(b is not None))
    kernel("cublas", "matmul_row_v1")((ceil_div(32 * N, THREADS),), (THREADS,), arguments)


def transpose(out, x, version=None):
    """*out = xᵀ.

    out: float32 (C, N). x: float32 (N, C). Both are C-contiguous. version: 1 or 2, None is the last; 2 falls back to 1
    where rows do not consist of 128-bit words.
    """
    N, C = x.shape
    version = version or 2
    if version == 2 and (N % 4 or C % 4 or not aligned(out, x)):
        version = 1
    side, block = {1: (32, (32, 8)), 2: (64, (16, 16))}[version]
    grid = ceil_div(C, side), ceil_div(N, side)
    kernel("cublas", f"transpose_v{version}")(grid, block, (out, x, np.int32(N), np.int32(C)))


def _along_k(a, b, K):
    """Both factors, given as (array, whether k runs through memory, its other length), copied if k does not."""
    lengths = [0 if runs else n * K for _, runs, n in (a, b)]  # numbers to copy
    room, start, found = scratch("turned", (sum(lengths),)), 0, []  # (sum,): one array for both
    for (array, runs, n), length in zip((a, b), lengths, strict=True):
        if not runs:
            turned = room[start : start + length].reshape(n, K)  # (n, K)
            transpose(turned, array.reshape(K, n))
            array, start = turned, start + length
        found.append((array, True))
    return found


def _by_cupy(result, first, second, rows, columns, k, *, compute, add, bias):
    """cublaslt.multiply by CuPy's cuBLAS, which keeps a handle for each device."""
    from cupy.cuda import cublas, device

    shape = int(first.transposed), int(second.transposed), rows, columns, k
    one, beta = (addressof(cublaslt.number(value)) for value in (1.0, float(add)))
    factors = (one, first.address, R_32F, first.step, second.address, R_32F, second.step)
    target = (beta, result.data.ptr, R_32F, rows, compute, DEFAULT)
    cublas.gemmEx(device.get_cublas_handle(), *shape, *factors, *target)
    if bias is not None:
        result.reshape(columns, rows)[...] += bias  # (columns, rows)


def on_cpu(name, result, a, b, M, N, K, bias=None, tf32=False, accumulate=True):
    """The same by NumPy."""
    a_runs, b_runs, add = PRODUCTS[name]
    a, b = (to_tf32(a), to_tf32(b)) if tf32 else (a, b)
    a = a.reshape(M, K) if a_runs else a.reshape(K, M).T  # (M, K), a view
    b = b.reshape(N, K).T if b_runs else b.reshape(K, N)  # (K, N), a view
    result = result.reshape(M, N)  # a view
    if add and accumulate:
        result += a @ b  # (M, N)
    else:
        np.matmul(a, b, out=result)  # (M, N)
    if bias is not None:
        result += bias  # (M, N)


def to_tf32(array):
    """The nearest TF32 numbers, 10 bits of mantissa, as float32; of two that are equally near, the larger magnitude.

    The instruction `cvt.rna.tf32.f32` does the same. What is not finite stays so.
    """
    bits = array.view(np.uint32)
    nearest = (bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(array), nearest.view(np.float32), array)
