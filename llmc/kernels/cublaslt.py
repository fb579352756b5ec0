"""cuBLASLt by its C functions: products whose memory, bias and stream are all given by the caller.

CuPy's own cuBLAS refuses a stream that is being recorded into a CUDA graph, because its handle may allocate memory.
cuBLASLt allocates none: its workspace is an argument. What a product looks like is described once (a plan); NVIDIA's
heuristic then picks a kernel for it, always the same one for the same description, version and GPU. Only kernels that
add partial sums in a fixed order are allowed, so equal runs give equal bits.

Names and numbers are those of cublasLt.h. Matrices are column-major there: a row-major (M, N) is an (N, M) one.
"""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import NamedTuple

from llmc.kernels import scratch

WORKSPACE = 32 << 20  # bytes, what NVIDIA advises for its largest GPUs
FLOAT = 0  # CUDA_R_32F, in which sums, alpha and beta are
TYPES = {"float32": FLOAT, "float16": 2, "bfloat16": 14}  # CUDA_R_*, of matrices and bias
TRANSPOSE_FIRST, TRANSPOSE_SECOND, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # CUBLASLT_MATMUL_DESC_*
BIAS = 4  # CUBLASLT_EPILOGUE_*
WORKSPACE_BYTES, REDUCTION_SCHEMES, ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # CUBLASLT_MATMUL_PREF_*; of A, B, C and D
IN_WORKSPACE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: partial sums are added by a kernel of their own
NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
WIDEST = 256  # bytes of the largest alignment that makes a difference
NUMBERS = (c_float * 2)(0.0, 1.0)  # alpha and beta are given by address
ZERO, ONE = ctypes.addressof(NUMBERS), ctypes.addressof(NUMBERS) + ctypes.sizeof(c_float)


class Choice(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: a kernel, and what it needs."""

    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("status", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


class Factor(NamedTuple):
    """A factor of a product: its address, the numbers from one of its column-major columns to the next, and whether
    cuBLAS must read it transposed."""

    address: int
    step: int
    transposed: bool


class Plan(NamedTuple):
    """A product that has been described and given a kernel."""

    description: c_void_p
    first: c_void_p
    second: c_void_p
    result: c_void_p
    choice: Choice


@cache
def library():
    """(cuBLASLt, a handle) of the library that CuPy has loaded; None where it cannot be found."""
    from cupy.cuda import cublas, device

    major = cublas.getVersion(device.get_cublas_handle()) // 10000
    try:
        lt = ctypes.CDLL(f"cublasLt64_{major}.dll" if os.name == "nt" else f"libcublasLt.so.{major}")
    except OSError:
        return None
    handle = c_void_p()
    _check(lt.cublasLtCreate(byref(handle)))
    lt.cublasLtMatmul.argtypes = [c_void_p] * 14 + [c_size_t, c_void_p]
    return lt, handle


def multiply(result, first, second, rows, columns, k, *, compute, add=False, bias=None):
    """result (rows, columns), column-major, = or += first (rows, k) · second (k, columns), plus bias (rows,) if given.

    result, bias: CuPy arrays · first, second: Factors, of the result's type · compute: a cublasComputeType_t. Sums are
    in float32; a result of 16 bits is rounded after the bias, and with add before and after it is added (measured).
    """
    from cupy.cuda import get_current_stream

    lt, handle = library()
    there, vector = result.data.ptr, 0 if bias is None else bias.data.ptr
    together = first.address | second.address | there  # as aligned as the least aligned of the three
    how = compute, TYPES[result.dtype.name], _alignment(together), _alignment(vector)
    plan = _plan(first[1:], second[1:], (rows, columns, k), *how)
    if bias is not None:
        _set(plan.description, BIAS_POINTER, c_void_p(vector))
    factors = ONE, first.address, plan.first, second.address, plan.second, ONE if add else ZERO
    results = there, plan.result, there, plan.result
    workspace = scratch("cublas", (WORKSPACE // 4,)).data.ptr
    space = ctypes.addressof(plan.choice), workspace, WORKSPACE, get_current_stream().ptr
    _check(lt.cublasLtMatmul(handle, plan.description, *factors, *results, *space))


def _alignment(address) -> int:
    """The largest power of two, up to WIDEST, that divides an address; 0 for 0."""
    return min(address & -address, WIDEST)


@cache
def _plan(first, second, shape, compute, kind, alignment, bias) -> Plan:
    """Describe a product. first, second: (step, transposed) · kind: one of TYPES · alignment: of all three matrices ·
    bias: its, or 0.
    """
    lt, handle = library()
    rows, columns, k = shape
    description = c_void_p()
    _check(lt.cublasLtMatmulDescCreate(byref(description), c_int(compute), c_int(FLOAT)))
    _set(description, TRANSPOSE_FIRST, c_int(first[1]))
    _set(description, TRANSPOSE_SECOND, c_int(second[1]))
    if bias:
        _set(description, EPILOGUE, c_int(BIAS))
        _set(description, BIAS_POINTER, c_void_p(bias))  # only how it is aligned counts here
    layouts = [
        _layout(kind, *((k, rows) if first[1] else (rows, k)), first[0]),
        _layout(kind, *((columns, k) if second[1] else (k, columns)), second[0]),
        _layout(kind, rows, columns, rows),
    ]
    return Plan(description, *layouts, _choose(lt, handle, (description, *layouts), alignment))


def _layout(kind, rows, columns, step):
    layout = c_void_p()
    arguments = byref(layout), c_int(kind), c_uint64(rows), c_uint64(columns), c_int64(step)
    _check(library()[0].cublasLtMatrixLayoutCreate(*arguments))
    return layout


def _choose(lt, handle, product, alignment) -> Choice:
    """The heuristic's first choice of a kernel."""
    preference, choice, found = c_void_p(), Choice(), c_int()
    _check(lt.cublasLtMatmulPreferenceCreate(byref(preference)))
    wishes = [(WORKSPACE_BYTES, c_uint64(WORKSPACE)), (REDUCTION_SCHEMES, c_uint32(IN_WORKSPACE))]
    wishes += [(name, c_uint32(alignment)) for name in ALIGNMENTS]
    for name, value in wishes:
        size = c_size_t(ctypes.sizeof(value))
        _check(lt.cublasLtMatmulPreferenceSetAttribute(preference, c_int(name), byref(value), size))
    description, a, b, d = product
    _check(
        lt.cublasLtMatmulAlgoGetHeuristic(
            handle, description, a, b, d, d, preference, c_int(1), byref(choice), byref(found)
        )
    )
    _check(choice.status if found.value else NOT_SUPPORTED)
    lt.cublasLtMatmulPreferenceDestroy(preference)
    return choice


def _set(description, name, value):
    size = c_size_t(ctypes.sizeof(value))
    _check(library()[0].cublasLtMatmulDescSetAttribute(description, c_int(name), byref(value), size))


def _check(status):
    if status:
        raise RuntimeError(f"cuBLASLt refuses a product with status {status}.")
