"""A rounding to bfloat16 that is one instruction where the processor has it (AVX512_BF16, as all with AMX have)."""

from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.extending import intrinsic

FEATURE = "+avx512bf16"  # as LLVM spells it


class _BFloat(ir.types._BaseFloatType):
    """LLVM's type, which llvmlite does not name."""

    null, intrinsic_name = "0.0", "bf16"

    def __str__(self):
        return "bfloat"


_BFloat._create_instance()


def rounding(otherwise):
    """A function for kernels: the uint16 of a float32, by that instruction, or where there is none by `otherwise`.

    The instruction takes numbers below 1.2e-38 for zero.
    """

    @intrinsic
    def rounded(typingctx, value):
        def code(context, builder, _, arguments):
            features = context.codegen().magic_tuple()[2]
            if FEATURE not in features.split(","):
                return context.compile_internal(builder, otherwise, signature(types.uint16, types.float32), arguments)
            return builder.bitcast(builder.fptrunc(arguments[0], _BFloat()), ir.IntType(16))

        return (types.uint16(types.float32), code) if value == types.float32 else None

    return rounded
