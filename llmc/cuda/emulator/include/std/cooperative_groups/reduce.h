// cooperative_groups::reduce and its operations; any other function of two values works too.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {
#define LLMC_OPERATION(name, expression) \
    template <class T = void> struct name { LLMC_METHOD T operator()(T a, T b) const { return expression; } };
LLMC_OPERATION(plus, a + b)
LLMC_OPERATION(less, b < a ? b : a)
LLMC_OPERATION(greater, a < b ? b : a)
LLMC_OPERATION(bit_and, a & b)
LLMC_OPERATION(bit_or, a | b)
LLMC_OPERATION(bit_xor, a ^ b)

template <class T, class Op>
LLMC_INLINE T reduce(const LlmcLanes& group, T value, Op op, LLMC_HERE) {
    return llmc_reduce(group.mask, value, op, line);
}
template <unsigned N, class T, class Op>
LLMC_INLINE T reduce(const LlmcLargeTile<N>&, T value, Op op) {
    return llmc_tile_reduce<N>(value, op);
}
}  // namespace cooperative_groups
