"""Matrix products for kernels: BLAS's gemm, called from inside Numba's threads.

NumPy's matmul has threads of its own, which would compete with Numba's for the cores, and it cannot add to what is
already in the output. A kernel gets the address of gemm as a number (`blas.py` finds it) and calls it.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def gemm(typingctx, address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc):
    """C = op(A) · op(B) + beta · C as BLAS defines it: column-major, m × n, sums over k, op transposes if ta or tb.

    address: of sgemm or dgemm, whichever fits the dtype of beta · a, b, c: addresses · lda, ldb, ldc: from one column
    to the next, in elements. A row-major matrix is its transpose in column-major order, so `x · wᵀ` is gemm of w and x.
    """
    if beta not in (types.float32, types.float64):
        return None
    i32, i64 = types.int32, types.int64
    flags, sizes = (types.boolean,) * 2, (i32,) * 3
    signature = types.void(i64, *flags, *sizes, i64, i32, i64, i32, beta, i64, i32)
    return signature, _call_gemm


def _call_gemm(context, builder, signature, arguments):
    """LLVM code of the call. Fortran takes every argument by its address, so scalars are put on the stack."""
    address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc = arguments
    number = context.get_value_type(signature.args[10])

    def on_stack(value):
        slot = cgutils.alloca_once(builder, value.type)
        builder.store(value, slot)
        return slot

    def letter(flag):
        true = builder.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0))
        return on_stack(builder.select(true, ir.IntType(8)(ord("T")), ir.IntType(8)(ord("N"))))

    def matrix(value):
        return builder.inttoptr(value, number.as_pointer())

    one = on_stack(ir.Constant(number, 1.0))
    values = [letter(ta), letter(tb), on_stack(m), on_stack(n), on_stack(k), one, matrix(a), on_stack(lda)]
    values += [matrix(b), on_stack(ldb), on_stack(beta), matrix(c), on_stack(ldc)]
    function = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    builder.call(builder.inttoptr(address, function.as_pointer()), values)
    return context.get_dummy_value()
