// cub::BlockReduce and cub::BlockScan: first each warp, then the warps' results through shared memory. As in CUB there
// is no barrier at the end: whoever uses the temporary storage again calls __syncthreads in between.
#pragma once

#include "llmc_cub_warp.h"

namespace cub {
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int n>
struct LlmcStorage {  // room for n values, without running a constructor
    char bytes[n * sizeof(T)] __attribute__((aligned(alignof(T))));
    LLMC_METHOD T& operator[](int i) { return ((T*)bytes)[i]; }
};
template <class T, int N, class Op>
LLMC_INLINE T llmc_cub_items(const T (&items)[N], Op op) {
    T sum = items[0];
    for (int k = 1; k < N; k++) sum = op(sum, items[k]);
    return sum;
}

template <class T, int x, BlockReduceAlgorithm algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1, int arch = 0>
class BlockReduce {
    static constexpr int threads = x * y * z, warps = (threads + 31) / 32;

public:
    struct TempStorage { LlmcStorage<T, warps> warp; };
    LLMC_METHOD BlockReduce(TempStorage& storage) : storage(storage) {}
    LLMC_METHOD BlockReduce() : storage(own()) {}
    // Only thread 0 receives the result. `valid`: of how many threads the values count.
    template <class Op> LLMC_METHOD T Reduce(T value, Op op, int valid, LLMC_HERE_TOO) {
        int id = llmc_tid(), counted = valid < threads ? valid : threads;
        value = llmc_cub_reduce<32>(value, op, counted - id / 32 * 32, line.at);
        if (id % 32 == 0 && id < counted) storage.warp[id / 32] = value;
        __syncthreads(line.at);
        for (int k = 1; id == 0 && k * 32 < counted; k++) value = op(value, storage.warp[k]);
        return value;
    }
    template <class Op> LLMC_METHOD T Reduce(T value, Op op, LLMC_HERE_TOO) { return Reduce(value, op, threads, line); }
    template <int N, class Op> LLMC_METHOD T Reduce(T (&items)[N], Op op, LLMC_HERE_TOO) {
        return Reduce(llmc_cub_items(items, op), op, threads, line);
    }
    LLMC_METHOD T Sum(T value, LLMC_HERE_TOO) { return Reduce(value, cub::Sum(), threads, line); }
    LLMC_METHOD T Sum(T value, int valid, LLMC_HERE_TOO) { return Reduce(value, cub::Sum(), valid, line); }
    template <int N> LLMC_METHOD T Sum(T (&items)[N], LLMC_HERE_TOO) { return Reduce(items, cub::Sum(), line); }

private:
    TempStorage& storage;
    LLMC_METHOD static TempStorage& own() {
        __shared__ TempStorage storage;
        return storage;
    }
};

template <class T, int x, BlockScanAlgorithm algorithm = BLOCK_SCAN_RAKING, int y = 1, int z = 1, int arch = 0>
class BlockScan {
    static constexpr int warps = (x * y * z + 31) / 32;

    // What comes before this thread: all values of earlier threads combined, if there are any; `sum`: of the whole block.
    template <class Op> LLMC_METHOD void scan(T value, T& before, bool& has_before, T& sum, Op op, int line) {
        int id = llmc_tid(), warp = id / 32, lane = id % 32;
        T up_to_here = llmc_cub_scan<32>(value, op, line), prefix = value;
        T earlier = llmc_from_lane(up_to_here, lane ? lane - 1 : 0, line);
        if (lane == llmc_lanes_here() - 1) storage.warp[warp] = up_to_here;
        __syncthreads(line);
        sum = storage.warp[0];
        for (int k = 1; k * 32 < (int)(blockDim.x * blockDim.y * blockDim.z); k++) {
            if (k == warp) prefix = sum;
            sum = op(sum, storage.warp[k]);
        }
        has_before = id > 0;
        before = !warp ? earlier : lane ? op(prefix, earlier) : prefix;
    }
    template <int N, class Op, class First>
    LLMC_METHOD void scan_items(const T (&in)[N], T (&out)[N], bool inclusive, T& sum, Op op, First first, int line) {
        T before;
        bool has_before;
        scan(llmc_cub_items(in, op), before, has_before, sum, op, line);
        first(before, has_before, sum);
        for (int k = 0; k < N; k++) {
            T next = has_before ? op(before, in[k]) : in[k];
            if (inclusive) out[k] = next;
            else if (has_before) out[k] = before;
            before = next;
            has_before = true;
        }
    }
    template <class In, class Out, class Op, class First>  // one item of each thread, or an array of them
    LLMC_METHOD void go(const In& in, Out& out, bool inclusive, T& sum, Op op, First first, int line) {
        if constexpr (std::is_array_v<In>) {
            scan_items(in, out, inclusive, sum, op, first, line);
        } else {
            T items[1] = {(T)in}, results[1] = {items[0]};
            scan_items(items, results, inclusive, sum, op, first, line);
            out = results[0];
        }
    }
    // What comes before the first thread: a value that all know, nothing, or what a function makes of the block's sum.
    template <class Op> LLMC_METHOD static auto from(T initial, Op op) {
        return [=](T& before, bool& has_before, const T&) {
            before = has_before ? op(initial, before) : initial;
            has_before = true;
        };
    }
    LLMC_METHOD static auto from_nothing() { return [](T&, bool&, const T&) {}; }
    template <class Callback, class Op> LLMC_METHOD auto from_call(Callback& callback, Op op, int line) {
        return [&callback, op, line, this](T& before, bool& has_before, const T& sum) {
            if (llmc_tid() < 32) {  // the first warp calls it, and its first lane's value counts
                T prefix = callback(sum);
                if (llmc_tid() == 0) storage.prefix[0] = prefix;
            }
            __syncthreads(line);
            from(storage.prefix[0], op)(before, has_before, sum);
        };
    }

public:
    struct TempStorage { LlmcStorage<T, warps> warp; LlmcStorage<T, 1> prefix; };
    LLMC_METHOD BlockScan(TempStorage& storage) : storage(storage) {}
    LLMC_METHOD BlockScan() : storage(own()) {}

#define LLMC_CUB_SUM(name, inclusive, first)                                                                        \
    template <class In, class Out> LLMC_METHOD void name(const In& in, Out& out, LLMC_HERE_TOO) {                   \
        T sum;                                                                                                      \
        go(in, out, inclusive, sum, cub::Sum(), first, line.at);                                                    \
    }                                                                                                               \
    template <class In, class Out> LLMC_METHOD void name(const In& in, Out& out, T& sum, LLMC_HERE_TOO) {           \
        go(in, out, inclusive, sum, cub::Sum(), first, line.at);                                                    \
    }                                                                                                               \
    template <class In, class Out, class Callback>                                                                  \
    LLMC_METHOD void name(const In& in, Out& out, Callback& callback, LLMC_HERE_TOO) {                              \
        T sum;                                                                                                      \
        go(in, out, inclusive, sum, cub::Sum(), from_call(callback, cub::Sum(), line.at), line.at);                 \
    }
    LLMC_CUB_SUM(InclusiveSum, true, from_nothing())
    LLMC_CUB_SUM(ExclusiveSum, false, from(T(), cub::Sum()))
#undef LLMC_CUB_SUM
#define LLMC_CUB_SCAN(name, inclusive)                                                                              \
    template <class In, class Out, class Op, std::enable_if_t<!std::is_arithmetic_v<Op>, int> = 0>                  \
    LLMC_METHOD void name(const In& in, Out& out, Op op, LLMC_HERE_TOO) {                                           \
        T sum;                                                                                                      \
        go(in, out, inclusive, sum, op, from_nothing(), line.at);                                                   \
    }                                                                                                               \
    template <class In, class Out, class Op, std::enable_if_t<!std::is_arithmetic_v<Op>, int> = 0>                  \
    LLMC_METHOD void name(const In& in, Out& out, Op op, T& sum, LLMC_HERE_TOO) {                                   \
        go(in, out, inclusive, sum, op, from_nothing(), line.at);                                                   \
    }                                                                                                               \
    template <class In, class Out, class Op, class Callback, std::enable_if_t<!std::is_arithmetic_v<Op> && !std::is_same_v<Op, T>, int> = 0> \
    LLMC_METHOD void name(const In& in, Out& out, Op op, Callback& callback, LLMC_HERE_TOO) {                       \
        T sum;                                                                                                      \
        go(in, out, inclusive, sum, op, from_call(callback, op, line.at), line.at);                                 \
    }                                                                                                               \
    template <class In, class Out, class Op>                                                                        \
    LLMC_METHOD void name(const In& in, Out& out, T initial, Op op, LLMC_HERE_TOO) {                                \
        T sum;                                                                                                      \
        go(in, out, inclusive, sum, op, from(initial, op), line.at);                                                \
    }                                                                                                               \
    template <class In, class Out, class Op>                                                                        \
    LLMC_METHOD void name(const In& in, Out& out, T initial, Op op, T& sum, LLMC_HERE_TOO) {                        \
        go(in, out, inclusive, sum, op, from(initial, op), line.at);                                                \
    }
    LLMC_CUB_SCAN(InclusiveScan, true)
    LLMC_CUB_SCAN(ExclusiveScan, false)
#undef LLMC_CUB_SCAN

private:
    TempStorage& storage;
    LLMC_METHOD static TempStorage& own() {
        __shared__ TempStorage storage;
        return storage;
    }
};
}  // namespace cub
