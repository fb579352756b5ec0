"""Matrix products by cuBLAS, and for the emulator's arrays, in its place, by NumPy.

PRODUCTS lists the three products of the linear layer: how their factors lie in memory, and whether the result is added
to. BLAS is column-major: it sees a row-major result (M, N) as an (N, M) matrix, so the second factor comes first.
cuBLAS writes straight into the result; it allocates nothing after its first call, and nothing waits for it.

tf32=True lets it round both factors to TF32: tensor cores multiply those many times faster. Hopper's read them along k
only. A factor that lies across it would halve their speed (155 instead of 286 TFLOP/s on an H200 for the weights of
qkv), so it is transposed first: one pass over it. NumPy multiplies the same rounded factors, in float32.
"""

from functools import cache
from warnings import warn

import numpy as np

from llmc import cuda
from llmc.kernels import cublaslt, matmul_row, scratch, seen
from llmc.kernels.transpose import transpose

PRODUCTS = {  # name: (k runs through memory in a, in b, the result is added to)
    "matmul_forward": (True, True, False),
    "matmul_backward_input": (True, False, False),
    "matmul_backward_weight": (False, False, True),
}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77  # cublasComputeType_t
R_32F, DEFAULT = 0, -1  # cudaDataType_t, cublasGemmAlgo_t
TURNED = 1 << 24  # weights of the largest layer that factors are transposed for: with a vocabulary's it does not pay


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
    """result (M, N) = or, as PRODUCTS says unless not accumulate, += a · b, plus bias (N,) if there is one, by cuBLAS.

    A single row, as in sampling, goes to a kernel of ours: cuBLAS would take several times as long.
    """
    if name == "matmul_forward" and M == 1 and matmul_row.fits(a, b):
        matmul_row.matmul_row(result, a, b, bias)
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


def _along_k(a, b, K):
    """Both factors, given as (array, whether k runs through memory, its other length), so that k does: with copies."""
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
    factors = (cublaslt.ONE, first.address, R_32F, first.step, second.address, R_32F, second.step)
    target = (cublaslt.ONE if add else cublaslt.ZERO, result.data.ptr, R_32F, rows, compute, DEFAULT)
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


# ---------------------------------------------------------------------------------------- attention with all its scores


def attention_scores(p, qkv):
    """*p (B, NH, T, T) = q · kᵀ / √hs for all pairs, later keys included; qkv (B, T, 3C)."""
    B, NH, T, _ = p.shape
    hs = qkv.shape[-1] // 3 // NH
    q, k, _ = _heads(qkv, NH)
    if cuda.device() == "emulator":
        np.matmul(q, k.swapaxes(-1, -2), out=p)  # (B, NH, T, T)
        p *= np.float32(hs**-0.5)
        return
    row = qkv.shape[-1]
    for b in range(B):  # all heads of a sequence are hs numbers apart
        _batched((1, k[b], row, hs), (0, q[b], row, hs), (p[b], T, T * T), (T, T, hs), NH, alpha=hs**-0.5)


def attention_values(out, p, qkv):
    """*out (B, T, C) = p · v; p (B, NH, T, T), qkv (B, T, 3C)."""
    B, NH, T, _ = p.shape
    hs = qkv.shape[-1] // 3 // NH
    v = _heads(qkv, NH)[2]
    heads = out.reshape(B, T, NH, hs).transpose(0, 2, 1, 3)  # (B, NH, T, hs), a view
    if cuda.device() == "emulator":
        heads[...] = p @ v  # (B, NH, T, hs)
        return
    for b in range(B):
        _batched((0, v[b], qkv.shape[-1], hs), (0, p[b], T, T * T), (heads[b], NH * hs, hs), (hs, T, T), NH)


def _heads(qkv, NH):
    """q, k, v: (B, NH, T, hs) each, views of qkv (B, T, 3C)."""
    B, T, C = qkv.shape
    return qkv.reshape(B, T, 3, NH, C // 3 // NH).transpose(2, 0, 3, 1, 4)


def _batched(first, second, target, sizes, count, alpha=1.0):
    """`count` products on the current stream. A factor: (transposed?, array, numbers from row to row, to the next)."""
    from cupy.cuda import cublas, device

    numbers = np.array([alpha, 0.0], np.float32)
    cublas.gemmStridedBatchedEx(
        *(device.get_cublas_handle(), first[0], second[0], *sizes, numbers.ctypes.data),
        *(first[1].data.ptr, R_32F, first[2], first[3], second[1].data.ptr, R_32F, second[2], second[3]),
        *(numbers.ctypes.data + 4, target[0].data.ptr, R_32F, target[1], target[2], count, COMPUTE_32F, DEFAULT),
    )
