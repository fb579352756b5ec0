"""The linear layer: products by cuBLAS or by our own kernels on a GPU, by the kernel of matmul.cu on the emulator.

All add in float32. The kernels round once; cuBLAS rounds a product, and again when it has added it to a gradient. It is
not used for rows that do not consist of 128-bit words, nor by a GPU without tensor cores for the type. `by` says whose
kernels multiply: "fastest", whichever is faster for a product, that is cuBLAS except for some products on Hopper; or
"cublas"; or "own", our own on tensor cores where there are any, on the emulator too. A few rows, as in sampling, have a
kernel of their own in matvec.py, unless `by` is "cublas".
"""

import numpy as np

from llmc import cuda
from llmc.kernels import ceil_div, cublas, cublaslt, scratch, seen, tensor_cores
from llmc.kernels.mixed import kernel_for, matmul_hopper, matmul_own, matvec
from llmc.kernels.mixed.columns import bias_backward
from llmc.kernels.mixed.pointwise import gelu_backward, gelu_forward, round_to
from llmc.kernels.pointwise import aligned, check_elements

TILE, THREADS = 64, 256  # as in matmul.cu
CAPABILITY = {"bfloat16": 80, "float16": 70}  # of GPUs with tensor cores for it


def matmul_forward(out, x, w, b, by="fastest"):
    """*out = x · wᵀ + b.

    out (B, T, C_out), x (B, T, C_in), w (C_out, C_in), b (C_out,) or None: 16 bits.
    """
    _product("matmul_forward", out, x, w, *w.shape, by, bias=b)


def matmul_gelu_forward(gelu_out, out, x, w, b, by="fastest"):
    """*out as in matmul_forward, *gelu_out (B, T, C_out), 16 bits, = GELU(out)."""
    if _few_rows(x, w, by):
        matvec.matvec(out, x, w, b, gelu_out)
        return
    matmul_forward(out, x, w, b, by)
    gelu_forward(gelu_out, out)


def matmul_gelu_forward_once(gelu_out, out, x, w, b, by="fastest"):
    """The same; cuBLAS computes GELU before it rounds the product, and so saves a pass over it."""
    _product("matmul_forward", gelu_out, x, w, *w.shape, by, bias=b, to_gelu=out)


def matmul_backward(dx, dw, db, dout, x, w, accumulate=True, by="fastest"):
    """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate. dx, db may be None.

    dx, x (B, T, C_in), dw, w (C_out, C_in), db (C_out,): 16 bits. dout (B, T, C_out): 16 bits, or float32, which is
    rounded first.
    """
    dout, db = rounded(db, dout, w, accumulate)
    if dx is not None:
        _product("matmul_backward_input", dx, dout, w, *w.shape[::-1], by)
    _parameters(dw, db, dout, x, accumulate, by)


def gelu_matmul_backward(dpre, dw, db, dout, pre, x, w, dbpre=None, accumulate=True, by="fastest"):
    """matmul_backward where x = GELU(pre), and through the GELU: *dpre (B, T, C_in), 16 bits, = dout · w · GELU'(pre).

    +dbpre (C_in,), 16 bits, unless None, += column sums of dpre; = them, without accumulate. cuBLAS and version 9
    multiply by GELU' before they round the product, and save a pass over it; cuBLAS's GELU' is exact to 2^-10.
    Version 9 sums columns before it rounds, and saves another pass.
    """
    dout, db = rounded(db, dout, w, accumulate)
    sums = None if dbpre is None else (dbpre, accumulate)
    _product("matmul_backward_input", dpre, dout, w, *w.shape[::-1], by, before_gelu=pre, column_sums=sums)
    _parameters(dw, db, dout, x, accumulate, by)


def rounded(db, dout, w, accumulate):
    """(dout in the type of w, db), or (…, None) where +db, if there is one, has its column sums already."""
    if dout.dtype == w.dtype:
        return dout, db
    low = scratch("rounded", dout.shape, w.dtype)
    if db is None:
        round_to(low, dout)
    else:
        bias_backward(db, dout, low, accumulate)
    return low, None


def _parameters(dw, db, dout, x, accumulate, by):
    """+dw += doutᵀ · x, and +db, unless it is None, += column sums of dout; = them, without accumulate."""
    C_out, C_in = dw.shape
    if db is not None:
        bias_backward(db, dout, accumulate=accumulate)
    _product("matmul_backward_weight", dw, dout, x, C_in, dout.size // C_out, by, add=accumulate)


def _product(name, result, a, b, N, K, by, bias=None, to_gelu=None, before_gelu=None, add=False, column_sums=None):
    """result (M, N) = or, with add, += a · b, plus bias (N,) if there is one; sums over K numbers.

    to_gelu (M, N): the product goes there, and GELU of it to result · before_gelu (M, N): the product is multiplied by
    GELU' of it · column_sums: (db, accumulate), as for matmul_hopper.multiply, only with before_gelu.
    """
    if name == "matmul_forward" and _few_rows(a, b, by):
        matvec.matvec(result if to_gelu is None else to_gelu, a, b, bias, None if to_gelu is None else result)
        return
    M = result.size // N
    own = matmul_own.Product(name, result, a, b, M, N, K, bias, add, to_gelu, before_gelu)
    version = matmul_own.best(result.dtype) if by == "own" else None
    others = [array for array in (to_gelu, before_gelu) if array is not None]
    a_runs, b_runs = own.runs
    if cuda.device() == "gpu" and _by_hoppers(own, by):
        matmul_hopper.multiply(own, column_sums=column_sums)
        return
    if by != "own" and _by_cublas((result, a, b, *others), (N, K if a_runs else M, K if b_runs else N)):
        first = cublaslt.Factor(b.data.ptr, K if b_runs else N, b_runs)  # column-major: the second factor comes first
        second = cublaslt.Factor(a.data.ptr, K if a_runs else M, not a_runs)
        how = dict(compute=cublas.COMPUTE_32F, add=add, bias=bias, to_gelu=to_gelu, before_gelu=before_gelu)
        seen("cuBLAS", lambda: cublaslt.multiply(result, first, second, N, M, K, **how))
    else:
        if version:
            matmul_own.multiply(own, version)
        else:
            by_kernel(own)
        if to_gelu is not None:
            gelu_forward(result, to_gelu)
        if before_gelu is not None:
            gelu_backward(result, result, before_gelu)
    if column_sums is not None:
        bias_backward(column_sums[0], result, accumulate=column_sums[1])


def by_kernel(product):
    """Version 1, which needs no tensor cores and leaves GELU to others."""
    _, result, a, b, M, N, K, bias, *_ = product
    result = result if product.to_gelu is None else product.to_gelu
    check_elements(max(array.size for array in (result, a, b)))  # cuBLAS counts in 64 bits
    sizes = np.int32(M), np.int32(N), np.int32(K)
    arguments = (result, a, b, 0 if bias is None else bias, *sizes, np.float32(product.scale))
    blocks = ceil_div(M, TILE) * ceil_div(N, TILE)
    kernel_for(result, "matmul", "matmul_v1", product.defines)((blocks,), (THREADS,), arguments)


def _few_rows(x, w, by) -> bool:
    """Whether matvec.py multiplies x by w."""
    return by != "cublas" and matvec.fits(x, w)


def _by_hoppers(product, by) -> bool:
    """Whether version 9 multiplies."""
    wanted = by == "own" or by == "fastest" and matmul_hopper.faster(product)
    return wanted and matmul_hopper.fits(product)


def _by_cublas(arrays, lengths) -> bool:
    """Whether cuBLAS multiplies arrays with rows of these lengths."""
    kind = cuda.device()
    able = tensor_cores.compute_capability(kind) >= CAPABILITY[arrays[0].dtype.name]
    whole = aligned(*arrays) and all(length % 8 == 0 for length in lengths)
    return able and whole and cublas.recordable()
