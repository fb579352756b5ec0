"""cuBLASLt through its C functions: products whose memory, bias and stream are all given by the caller.

CuPy's own cuBLAS refuses a stream that is being recorded into a CUDA graph, because its handle may allocate memory.
cuBLASLt allocates none: its workspace is an argument. What a product looks like is described once (a plan); NVIDIA's
heuristic then proposes kernels for it, always the same ones for the same description, version and GPU. Of these the
fastest is used; see `fastest.py`. Only kernels that add partial sums in a fixed order are allowed, so equal runs give
equal bits.

Names and numbers are those of cublasLt.h. Matrices are column-major there: a row-major (M, N) is an (N, M) one.
"""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import NamedTuple

from llmc.kernels import fastest, scratch

PROPOSALS = 8  # kernels that the heuristic is asked for
WORKSPACE = 32 << 20  # bytes, what NVIDIA advises for its largest GPUs
FLOAT = 0  # CUDA_R_32F, in which sums, alpha and beta are
TYPES = {"float32": FLOAT, "float16": 2, "bfloat16": 14, "e4m3": 28, "e5m2": 29}  # CUDA_R_*, of matrices and bias
TRANSPOSE_FIRST, TRANSPOSE_SECOND, EPILOGUE = 3, 4, 7  # CUBLASLT_MATMUL_DESC_*, like those of the next line
BIAS_POINTER, AUX_POINTER, AUX_STEP = 8, 11, 12
BIAS, GELU, AUX, GELU_BACKWARD = 4, 32, 128, 64  # CUBLASLT_EPILOGUE_*, which are sums of these
WORKSPACE_BYTES, REDUCTION_SCHEMES, ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # CUBLASLT_MATMUL_PREF_*; of A, B, C and D
IN_WORKSPACE = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: partial sums are added by a kernel of their own
NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
WIDEST = 256  # bytes of the largest alignment that makes a difference


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
    """A factor of a product: its address, the numbers from one of its column-major columns to the next, whether cuBLAS
    must read it transposed, and its type, one of TYPES, unless that is the result's."""

    address: int
    step: int
    transposed: bool
    kind: int | None = None


class Plan(NamedTuple):
    """A product that has been described, with the kernels that can compute it, the heuristic's first choice first."""

    description: c_void_p
    first: c_void_p
    second: c_void_p
    result: c_void_p
    choices: tuple


@cache
def number(value: float):
    """A float32 that stays where it is: alpha and beta are given by address."""
    return c_float(value)


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


def multiply(
    result,
    first,
    second,
    rows,
    columns,
    k,
    *,
    compute,
    add=False,
    bias=None,
    to_gelu=None,
    before_gelu=None,
    scale=1.0,
):
    """result (rows, columns), column-major, = or += scale · first (rows, k) · second (k, columns), plus bias (rows,).

    result, bias: CuPy arrays; bias may be None · first, second: Factors · compute: a cublasComputeType_t · to_gelu
    (rows, columns): the product goes there, and GELU of it to result · before_gelu (rows, columns): the product is
    multiplied by GELU' of it. Sums are in float32; a result of 16 bits is rounded after all that and, with add, both
    before and after it is added (measured).
    """
    from cupy.cuda import get_current_stream

    lt, handle = library()
    other = before_gelu if to_gelu is None else to_gelu
    there, vector, aux = (0 if array is None else array.data.ptr for array in (result, bias, other))
    epilogue = bool(vector) * BIAS + bool(aux) * (AUX + (GELU_BACKWARD if to_gelu is None else GELU))
    together = first.address | second.address | there | aux  # as aligned as the least aligned of them
    kind = TYPES[result.dtype.name]
    kinds = (kind, first.kind, second.kind) if first.kind else kind
    what = first[1:3], second[1:3], (rows, columns, k), compute, kinds
    key = (*what, _alignment(together), _alignment(vector), epilogue)
    plan = _plan(*key)
    if bias is not None:
        _set(plan.description, BIAS_POINTER, c_void_p(vector))
    if aux:
        _set(plan.description, AUX_POINTER, c_void_p(aux))
    alpha, beta = (byref(number(value)) for value in (scale, float(add)))
    factors = alpha, first.address, plan.first, second.address, plan.second, beta
    results = there, plan.result, there, plan.result
    space = (
        scratch("cublas", (WORKSPACE // 4,)).data.ptr,
        WORKSPACE,
        get_current_stream().ptr,
    )

    def launch(choice):
        _check(lt.cublasLtMatmul(handle, plan.description, *factors, *results, ctypes.addressof(choice), *space))

    fastest.launch(plan.choices, (*key, add), 2 * rows * columns * k, launch, result if add else None)


def _alignment(address) -> int:
    """The largest power of two, up to WIDEST, that divides an address; 0 for 0."""
    return min(address & -address, WIDEST)


@cache
def _plan(first, second, shape, compute, kinds, alignment, bias, epilogue) -> Plan:
    """Describe a product. first, second: (step, transposed) · kinds: one of TYPES, or those of result, first and second
    · alignment: of all matrices · bias: how it is aligned, or 0 · epilogue: what else is done with the product.
    """
    lt, handle = library()
    rows, columns, k = shape
    kinds = kinds if isinstance(kinds, tuple) else (kinds,) * 3
    description = c_void_p()
    _check(lt.cublasLtMatmulDescCreate(byref(description), c_int(compute), c_int(FLOAT)))
    _set(description, TRANSPOSE_FIRST, c_int(first[1]))
    _set(description, TRANSPOSE_SECOND, c_int(second[1]))
    if epilogue:
        _set(description, EPILOGUE, c_int(epilogue))
    if bias:
        _set(description, BIAS_POINTER, c_void_p(bias))  # only how it is aligned counts here
    if epilogue & AUX:
        _set(description, AUX_POINTER, c_void_p(alignment))  # likewise
        _set(description, AUX_STEP, c_int64(rows))
    layouts = [
        _layout(kinds[1], *((k, rows) if first[1] else (rows, k)), first[0]),
        _layout(kinds[2], *((columns, k) if second[1] else (k, columns)), second[0]),
        _layout(kinds[0], rows, columns, rows),
    ]
    return Plan(description, *layouts, _proposals(lt, handle, (description, *layouts), alignment))


def _layout(kind, rows, columns, step):
    layout = c_void_p()
    arguments = byref(layout), c_int(kind), c_uint64(rows), c_uint64(columns), c_int64(step)
    _check(library()[0].cublasLtMatrixLayoutCreate(*arguments))
    return layout


def _proposals(lt, handle, product, alignment) -> tuple:
    """The heuristic's choices of a kernel, the one that it thinks fastest first."""
    preference, choices, found = c_void_p(), (Choice * PROPOSALS)(), c_int()
    _check(lt.cublasLtMatmulPreferenceCreate(byref(preference)))
    wishes = [(WORKSPACE_BYTES, c_uint64(WORKSPACE)), (REDUCTION_SCHEMES, c_uint32(IN_WORKSPACE))]
    wishes += [(name, c_uint32(alignment)) for name in ALIGNMENTS]
    for name, value in wishes:
        size = c_size_t(ctypes.sizeof(value))
        _check(lt.cublasLtMatmulPreferenceSetAttribute(preference, c_int(name), byref(value), size))
    description, a, b, d = product
    _check(
        lt.cublasLtMatmulAlgoGetHeuristic(
            handle, description, a, b, d, d, preference, c_int(PROPOSALS), choices, byref(found)
        )
    )
    lt.cublasLtMatmulPreferenceDestroy(preference)
    able = tuple(choice for choice in choices[: found.value] if not choice.status)
    _check(0 if able else NOT_SUPPORTED)
    return able


def _set(description, name, value):
    size = c_size_t(ctypes.sizeof(value))
    _check(library()[0].cublasLtMatmulDescSetAttribute(description, c_int(name), byref(value), size))


def _check(status):
    if status:
        raise RuntimeError(f"cuBLASLt refuses a product with status {status}.")
