"""Single instructions: prefetch, and a rounding to bfloat16 where the processor has it (AVX512_BF16, as with AMX)."""

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
    """A function for kernels: the uint16 of a float32, by that instruction or, where there is none, by `otherwise`.

    The instruction treats numbers below 1.2e-38 as zero.
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


@intrinsic
def prefetch(typingctx, a, i):
    """Have the processor fetch the cache line of element i of a flat array, which may lie beyond its end, and go on."""

    def code(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        to_read, close, data = number(0), number(3), number(1)
        builder.call(
            builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind), [place, to_read, close, data]
        )
        return context.get_dummy_value()

    return types.void(a, types.intp), code
