// cooperative_groups::inclusive_scan and exclusive_scan: all lanes up to this one, or before it, combined.
#pragma once

#include "reduce.h"

namespace cooperative_groups {
template <class T, class Op>
LLMC_INLINE T inclusive_scan(const LlmcLanes& group, T value, Op op, LLMC_HERE) {
    unsigned rank = group.thread_rank();
    for (unsigned step = 1; step < group.size(); step *= 2) {
        T before = group.shfl_up(value, step, line);
        if (rank >= step) value = op(before, value);
    }
    return value;
}
template <class T, class Op>
LLMC_INLINE T exclusive_scan(const LlmcLanes& group, T value, Op op, LLMC_HERE) {
    T before = group.shfl_up(inclusive_scan(group, value, op, line), 1, line);
    return group.thread_rank() ? before : T();
}
template <class T>
LLMC_INLINE T inclusive_scan(const LlmcLanes& group, T value, LLMC_HERE) {
    return inclusive_scan(group, value, plus<T>(), line);
}
template <class T>
LLMC_INLINE T exclusive_scan(const LlmcLanes& group, T value, LLMC_HERE) {
    return exclusive_scan(group, value, plus<T>(), line);
}
}  // namespace cooperative_groups
