"""Matrix products by cuBLAS, and for the emulator's arrays, in its place, by NumPy.

PRODUCTS lists the three products of the linear layer: how their factors lie in memory, and whether the result is added
to. BLAS is column-major: it sees a row-major result (M, N) as an (N, M) matrix, so the second factor comes first.
cuBLAS writes straight into the result; it allocates nothing after its first call, and nothing waits for it.
"""

import os

import numpy as np

from llmc import cuda

PRODUCTS = {  # name: (k runs through memory in a, in b, the result is added to)
    "matmul_forward": (True, True, False),
    "matmul_backward_input": (True, False, False),
    "matmul_backward_weight": (False, False, True),
}
COMPUTE_32F, COMPUTE_32F_FAST_TF32 = 68, 77  # cublasComputeType_t
R_32F, DEFAULT = 0, -1  # cudaDataType_t, cublasGemmAlgo_t
NUMBERS = np.array([0.0, 1.0], np.float32)  # alpha and beta are given to cuBLAS by address
ZERO, ONE = NUMBERS.ctypes.data, NUMBERS.ctypes.data + NUMBERS.itemsize

_tf32 = os.environ.get("LLMC_TF32", "0") == "1"


def tf32(on=None) -> bool:
    """Whether cuBLAS may round inputs to TF32; with an argument, from now on."""
    global _tf32
    _tf32 = _tf32 if on is None else bool(on)
    return _tf32


def description() -> str:
    """What multiplies: "cuBLAS 13.1.0 (TF32)", or NumPy's BLAS."""
    if cuda.device() == "emulator":
        return "NumPy's, on the emulator"
    from cupy.cuda import cublas, device

    version = cublas.getVersion(device.get_cublas_handle())
    numbers = "TF32" if _tf32 else "float32"
    return f"cuBLAS {version // 10000}.{version // 100 % 100}.{version % 100} ({numbers})"


def on_gpu(name, result, a, b, M, N, K):
    """result (M, N) = or += a · b, by cuBLAS on the current stream; CuPy keeps a handle for each device."""
    from cupy.cuda import cublas, device

    a_runs, b_runs, add = PRODUCTS[name]
    first = (int(b_runs), b.data.ptr, K if b_runs else N)  # transposed?, address, numbers from row to row
    second = (int(not a_runs), a.data.ptr, K if a_runs else M)
    compute = COMPUTE_32F_FAST_TF32 if _tf32 else COMPUTE_32F
    factors = (ONE, first[1], R_32F, first[2], second[1], R_32F, second[2], ONE if add else ZERO)
    target = (result.data.ptr, R_32F, N, compute, DEFAULT)
    cublas.gemmEx(device.get_cublas_handle(), first[0], second[0], N, M, K, *factors, *target)


def on_cpu(name, result, a, b, M, N, K):
    """The same by NumPy."""
    a_runs, b_runs, add = PRODUCTS[name]
    a = a.reshape(M, K) if a_runs else a.reshape(K, M).T  # (M, K), a view
    b = b.reshape(N, K).T if b_runs else b.reshape(K, N)  # (K, N), a view
    result = result.reshape(M, N)  # a view
    if add:
        result += a @ b  # (M, N)
    else:
        np.matmul(a, b, out=result)  # (M, N)
