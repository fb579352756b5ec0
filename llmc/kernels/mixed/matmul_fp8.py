"""The linear layer with factors of 8 bits: products by cuBLASLt on a GPU, by version 1 on the emulator, and on Hopper
by version 9 where GELU follows, or if `by` is "own".

What is rounded, and how, is said in `backends/fp8.py`. Tensor cores multiply 8 bits only along k: for dx that takes
weights that are transposed, for dw both factors. All copies live for one call.
"""

from typing import NamedTuple

import numpy as np

from llmc import cuda
from llmc.errors import UserError
from llmc.kernels import ceil_div, cublas, cublaslt, kernel, scratch, seen, tensor_cores
from llmc.kernels.mixed import matmul, matmul_hopper
from llmc.kernels.mixed.columns import bias_backward
from llmc.kernels.mixed.matmul_own import Product
from llmc.kernels.mixed.pointwise import gelu_backward, gelu_forward
from llmc.kernels.pointwise import aligned, check_elements
from llmc.precision import WEIGHTS

CAPABILITY = 89  # of GPUs whose tensor cores multiply 8 bits
SIDE, THREADS = 128, 256  # as in fp8.cu
WORD = 16  # bytes: what rows must consist of for cuBLASLt
COLUMNS = "{}, columns of 8 bits"  # the name of memory for transposed copies


class Factor(NamedTuple):
    """A matrix (n, K) of 8 bits, k running along its rows, that was multiplied by scale. kind: "e4m3" or "e5m2"."""

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


def matmul_forward(out, x, w, b, by="fastest"):
    """*out = x · wᵀ + b.

    out (B, T, C_out), x (B, T, C_in), w (C_out, C_in), b (C_out,) or None: bfloat16. x may be uint8: e4m3. by: whose
    kernels multiply, as in matmul.py.
    """
    product(out, *factors(x, w), by, bias=b)


def matmul_gelu_forward(gelu_out, out, x, w, b, by="fastest"):
    """*out as in matmul_forward; *gelu_out (B, T, C_out), uint8, = GELU(out) in e4m3."""
    both = factors(x, w)
    if not _by_hopper(gelu_out, *both, by, bias=b, to_gelu=out):
        product(out, *both, by, bias=b)
        gelu_forward(gelu_out, out)


def matmul_backward(dx, dw, db, dout, x, w, gradients, accumulate=True, by="fastest"):
    """*dx = dout · w; +dw += doutᵀ · x; +db += column sums of dout; = them, without accumulate. dx, db may be None.

    dx, x (B, T, C_in), dw, w (C_out, C_in), db (C_out,): bfloat16. dout (B, T, C_out): bfloat16, or float32, which is
    rounded to that first. x may be uint8: e4m3. dout may be uint8, without db: e5m2, multiplied by gradients, a power
    of two, as all others will be.
    """
    rows, columns = _rounded(db, dout, w, gradients, accumulate, rows=dx is not None)
    if dx is not None:
        product(dx, rows, _transposed("w", w, WEIGHTS), by)
    product(dw, columns, _transposed("x", x), by, add=accumulate)


def gelu_matmul_backward(dpre, dw, db, dout, pre, w, gradients, dbpre=None, accumulate=True, by="fastest"):
    """matmul_backward of GELU(pre), and through the GELU: *dpre (B, T, C_in), uint8, = dout · w · GELU'(pre) in e5m2,
    multiplied by gradients; +dbpre (C_in,), bfloat16, unless None, as in matmul.gelu_matmul_backward.

    What dw needs of GELU(pre), its transposed copy in 8 bits, is written from pre; on Hopper, by the product that reads
    pre for GELU'.
    """
    C = w.shape[1]
    rows, columns = _rounded(db, dout, w, gradients, accumulate, pairs=True)
    weights, sums = _transposed("w", w, WEIGHTS), None if dbpre is None else (dbpre, accumulate)
    active = None if pre.size // C % WORD else scratch(COLUMNS.format("x"), (pre.size,), "uint8")  # (C, N)
    by_hopper = _by_hopper(dpre, rows, weights, by, before_gelu=pre, column_sums=sums, active=active)
    if not by_hopper:
        numbers = scratch("before 8 bits", dpre.shape, w.dtype)
        product(numbers, rows, weights, by)
        gelu_backward(numbers, numbers, pre)
        narrow(dpre, dbpre, numbers, gradients, accumulate)
    if by_hopper and active is not None:
        factor = Factor(active, "e4m3", 1.0)
    else:
        factor = copies("x", pre, C, rows=False, gelu=True, pairs=True)[1]
    product(dw, columns, factor, by, add=accumulate)


def narrow(dout, db, numbers, gradients, accumulate=True):
    """*dout (…, C), uint8, = numbers, bfloat16, times gradients, in e5m2; +db (C,), unless None, their column sums."""
    if db is not None:
        bias_backward(db, numbers, accumulate=accumulate)
    copies("dout", numbers, numbers.shape[-1], "e5m2", gradients, rows=dout, columns=False)


def factors(x, w):
    """Both factors of a forward pass."""
    K = w.shape[1]
    return copies("x", x, K, columns=False)[0], copies("w", w, K, scale=WEIGHTS, columns=False)[0]


def _transposed(name, x, scale=1.0) -> Factor:
    """x (…, C) as (C, N)."""
    return copies(name, x, x.shape[-1], scale=scale, rows=False)[1]


def _rounded(db, dout, w, gradients, accumulate, rows=True, pairs=False):
    """dout (N, C_out) as it lies, if rows says so, and as (C_out, N); +db is what it is for matmul_backward."""
    if dout.dtype.itemsize > 1:
        dout, db = matmul.rounded(db, dout, w, accumulate)
    if db is not None:
        bias_backward(db, dout, accumulate=accumulate)
    return copies("dout", dout, len(w), "e5m2", gradients, rows, pairs=pairs)


def copies(name, x, C, kind="e4m3", scale=1.0, rows=True, columns=True, gelu=False, pairs=False):
    """(Factor (N, C), Factor (C, N)) of x (N, C), each if it is asked for, in memory that is for this name.

    x: bfloat16, which is multiplied by scale and rounded; or uint8, which is of this kind and scale already · rows: may
    be the memory for them · gelu: of GELU(x) instead, with scale 1 · pairs: the columns in the order that fp8.cu calls
    so, if N is a multiple of 16; of two factors with the same N, both or none.
    """
    N, there = x.size // C, x.dtype.itemsize == 1
    check_elements(x.size)
    if rows is True and not there:
        rows = scratch(f"{name}, rows of 8 bits", (x.size,), "uint8")
    transposed = scratch(COLUMNS.format(name), (x.size,), "uint8") if columns else 0
    if not there or columns:
        memory = 0 if there or rows is False else rows, transposed
        words = not (N % WORD or C % WORD) and aligned(*(a for a in (x, *memory) if not isinstance(a, int)))
        defines = f"FORMAT={kind} INPUT={f'Number8<{kind}>' if there else 'floatX'} GELU={int(gelu)} WORDS={int(words)}"
        defines += " PAIRS=1" if pairs and N % WORD == 0 else ""
        blocks = ceil_div(N, SIDE) * ceil_div(C, SIDE)
        arguments = (*memory, x, np.float32(1.0 if there else scale), np.int32(N), np.int32(C))
        kernel("mixed/fp8", "copies_v1", f"FLOAT16=0 {defines}")((blocks,), (THREADS,), arguments)
    return Factor(x if there else rows, kind, scale), Factor(transposed, kind, scale)


def product(result, a, b, by="fastest", bias=None, add=False):
    """result (M, N), bfloat16, = or, with add, += a (M, K) · bᵀ (K, N), plus bias (N,) if there is one."""
    M, N, K = _sizes(result, a)
    scale, words = 1.0 / (a.scale * b.scale), not (M % WORD or N % WORD or K % WORD)
    if by == "own" and _by_hopper(result, a, b, by, bias=bias, add=add):
        return
    if by != "own" and cuda.device() == "gpu" and words and aligned(result) and cublas.recordable():
        first, second = (cublaslt.Factor(f.array.data.ptr, K, f is b, cublaslt.TYPES[f.kind]) for f in (b, a))
        how = dict(compute=cublas.COMPUTE_32F, add=add, bias=bias, scale=scale)
        seen("cuBLAS", lambda: cublaslt.multiply(result, first, second, N, M, K, **how))
        return
    matmul.by_kernel(Product("matmul_forward", result, a.array, b.array, M, N, K, bias, add, kind=a.kind, scale=scale))


def _by_hopper(result, a, b, by, bias=None, add=False, to_gelu=None, before_gelu=None, **more) -> bool:
    """`product` by version 9, where the GPU has what that takes; returns whether it has.

    The rest as in matmul_own.Product, and more as in matmul_hopper.multiply; with before_gelu, the result keeps the
    scale of a.
    """
    M, N, K = _sizes(result, a)
    scale = 1.0 / (b.scale if before_gelu is not None else a.scale * b.scale)
    whole = Product("matmul_forward", result, a.array, b.array, M, N, K, bias, add, to_gelu, before_gelu, a.kind, scale)
    if by == "cublas" or cuda.device() != "gpu" or not matmul_hopper.fits(whole):
        return False
    matmul_hopper.multiply(whole, unscale=1.0 / a.scale, **more)
    return True


def _sizes(result, a):
    """M, N and K of result (M, N), a sum over K numbers, with a (M, K)."""
    N = result.shape[-1]
    M = result.size // N
    return M, N, a.array.size // M
