// cub::WarpReduce and cub::WarpScan, and CUB's operators. They shuffle, as on a GPU, and need no temporary storage.
#pragma once

struct LlmcLine { int at; };  // as LLMC_HERE, for functions whose last argument may be an int
#define LLMC_HERE_TOO LlmcLine line = {__builtin_LINE()}

namespace cub {
#define LLMC_CUB_OPERATOR(name, expression)                                                         \
    struct name {                                                                                   \
        template <class T, class U> LLMC_METHOD auto operator()(const T& a, const U& b) const { return expression; } \
    };
LLMC_CUB_OPERATOR(Sum, a + b)
LLMC_CUB_OPERATOR(Difference, a - b)
LLMC_CUB_OPERATOR(Max, a < b ? b : a)
LLMC_CUB_OPERATOR(Min, b < a ? b : a)
LLMC_CUB_OPERATOR(Equality, a == b)
LLMC_CUB_OPERATOR(Inequality, !(a == b))
LLMC_CUB_OPERATOR(ArgMax, b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a)
LLMC_CUB_OPERATOR(ArgMin, b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a)
template <class Key, class Value> struct KeyValuePair { Key key; Value value; };
struct NullType {};

// The value of another lane of the same group of `width`; its own where there is no such lane. T may have any size.
template <class T>
LLMC_INLINE T llmc_from_lane(T value, int lane, int line, unsigned mask = ~0u) {
    constexpr int pieces = (sizeof(T) + 7) / 8;
    unsigned long long bits[pieces] = {};
    __builtin_memcpy(bits, &value, sizeof(T));
    for (int k = 0; k < pieces; k++) bits[k] = llmc_shuffle(mask, bits[k], lane, line);
    __builtin_memcpy(&value, bits, sizeof(T));
    return value;
}
template <int width, class T>
LLMC_INLINE T ShuffleIndex(T value, int source, unsigned mask, LLMC_HERE_TOO) {
    return llmc_from_lane(value, llmc_lane() / width * width + source % width, line.at, mask);
}
template <int width, class T>  // the own value where the source comes before `first`, or after `last`
LLMC_INLINE T ShuffleUp(T value, int by, int first, unsigned mask, LLMC_HERE_TOO) {
    int lane = llmc_lane(), enough = lane % width - by >= first;
    return llmc_from_lane(value, enough ? lane - by : lane, line.at, mask);
}
template <int width, class T>
LLMC_INLINE T ShuffleDown(T value, int by, int last, unsigned mask, LLMC_HERE_TOO) {
    int lane = llmc_lane(), enough = lane % width + by <= last;
    return llmc_from_lane(value, enough ? lane + by : lane, line.at, mask);
}
LLMC_INLINE int llmc_lanes_here() {  // of the caller's warp: the last one of a block may be incomplete
    int left = (int)(blockDim.x * blockDim.y * blockDim.z - llmc_tid() / 32 * 32);
    return left < 32 ? left : 32;
}
// The first of every `width` lanes receives the combination of the first `valid` lanes of the group, in their order.
template <int width, class T, class Op>
LLMC_INLINE T llmc_cub_reduce(T value, Op op, int valid, int line) {
    int lane = llmc_lane(), rank = lane % width, there = llmc_lanes_here() - lane + rank;
    if (valid > there) valid = there;
    for (int step = 1; step < width; step *= 2) {
        T other = llmc_from_lane(value, rank + step < valid ? lane + step : lane, line);
        if (rank + step < valid) value = op(value, other);
    }
    return value;
}
template <int width, class T, class Op>
LLMC_INLINE T llmc_cub_scan(T value, Op op, int line) {  // inclusive
    int lane = llmc_lane(), rank = lane % width;
    for (int step = 1; step < width; step *= 2) {
        T before = llmc_from_lane(value, rank >= step ? lane - step : lane, line);
        if (rank >= step) value = op(before, value);
    }
    return value;
}

template <class T, int width = 32, int arch = 0>
struct WarpReduce {
    struct TempStorage {};
    LLMC_METHOD WarpReduce(TempStorage&) {}
    template <class Op> LLMC_METHOD T Reduce(T value, Op op, int valid = width, LLMC_HERE_TOO) {
        return llmc_cub_reduce<width>(value, op, valid, line.at);
    }
    LLMC_METHOD T Sum(T value, int valid = width, LLMC_HERE_TOO) {
        return llmc_cub_reduce<width>(value, cub::Sum(), valid, line.at);
    }
};

template <class T, int width = 32, int arch = 0>
struct WarpScan {
    struct TempStorage {};
    LLMC_METHOD WarpScan(TempStorage&) {}
    LLMC_METHOD T before(T inclusive, int line) {
        return llmc_from_lane(inclusive, (int)llmc_lane() - (llmc_lane() % width ? 1 : 0), line);
    }
    LLMC_METHOD T total(T inclusive, int line) {
        int last = (int)(llmc_lane() / width * width) + width - 1, there = llmc_lanes_here() - 1;
        return llmc_from_lane(inclusive, last < there ? last : there, line);
    }
    template <class Op> LLMC_METHOD void InclusiveScan(T value, T& out, Op op, LLMC_HERE_TOO) {
        out = llmc_cub_scan<width>(value, op, line.at);
    }
    template <class Op> LLMC_METHOD void InclusiveScan(T value, T& out, Op op, T& aggregate, LLMC_HERE_TOO) {
        InclusiveScan(value, out, op, line);
        aggregate = total(out, line.at);
    }
    template <class Op> LLMC_METHOD void ExclusiveScan(T value, T& out, T initial, Op op, LLMC_HERE_TOO) {
        T up_to_here = llmc_cub_scan<width>(value, op, line.at), earlier = before(up_to_here, line.at);
        out = llmc_lane() % width ? op(initial, earlier) : initial;
    }
    template <class Op> LLMC_METHOD void ExclusiveScan(T value, T& out, T initial, Op op, T& aggregate, LLMC_HERE_TOO) {
        T up_to_here = llmc_cub_scan<width>(value, op, line.at), earlier = before(up_to_here, line.at);
        aggregate = total(up_to_here, line.at);
        out = llmc_lane() % width ? op(initial, earlier) : initial;
    }
    template <class Op> LLMC_METHOD void ExclusiveScan(T value, T& out, Op op, LLMC_HERE_TOO) {  // lane 0: undefined
        out = before(llmc_cub_scan<width>(value, op, line.at), line.at);
    }
    LLMC_METHOD void InclusiveSum(T value, T& out, LLMC_HERE_TOO) { InclusiveScan(value, out, cub::Sum(), line); }
    LLMC_METHOD void InclusiveSum(T value, T& out, T& aggregate, LLMC_HERE_TOO) {
        InclusiveScan(value, out, cub::Sum(), aggregate, line);
    }
    LLMC_METHOD void ExclusiveSum(T value, T& out, LLMC_HERE_TOO) { ExclusiveScan(value, out, T(), cub::Sum(), line); }
    LLMC_METHOD void ExclusiveSum(T value, T& out, T& aggregate, LLMC_HERE_TOO) {
        ExclusiveScan(value, out, T(), cub::Sum(), aggregate, line);
    }
    LLMC_METHOD T Broadcast(T value, unsigned source, LLMC_HERE_TOO) {
        return llmc_from_lane(value, (int)(llmc_lane() / width * width + source), line.at);
    }
};
}  // namespace cub
