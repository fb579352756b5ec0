// cub::BlockLoad, BlockStore and BlockExchange: `items` values for each thread, blocked (thread 0 has the first ones) or
// striped (neighbours in memory go to neighbouring threads, which is what a GPU likes).
#pragma once

#include "llmc_cub_block.h"

namespace cub {
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};


template <class T, int N, class In>
LLMC_INLINE void LoadDirectBlocked(int id, In from, T (&items)[N], int valid = 1 << 30) {
    for (int k = 0; k < N; k++)
        if (id * N + k < valid) items[k] = from[id * N + k];
}
template <int threads, class T, int N, class In>
LLMC_INLINE void LoadDirectStriped(int id, In from, T (&items)[N], int valid = 1 << 30) {
    for (int k = 0; k < N; k++)
        if (k * threads + id < valid) items[k] = from[k * threads + id];
}
template <class T, int N, class Out>
LLMC_INLINE void StoreDirectBlocked(int id, Out to, T (&items)[N], int valid = 1 << 30) {
    for (int k = 0; k < N; k++)
        if (id * N + k < valid) to[id * N + k] = items[k];
}
template <int threads, class T, int N, class Out>
LLMC_INLINE void StoreDirectStriped(int id, Out to, T (&items)[N], int valid = 1 << 30) {
    for (int k = 0; k < N; k++)
        if (k * threads + id < valid) to[k * threads + id] = items[k];
}

template <class T, int x, int items, bool warp_time_slicing = false, int y = 1, int z = 1, int arch = 0>
class BlockExchange {
    static constexpr int threads = x * y * z;
    // Element i goes to place to(k) of the shared memory; afterwards item k comes from place from(k).
    template <class U, class To, class From>
    LLMC_METHOD void exchange(const T (&in)[items], U (&out)[items], To to, From from, int line) {
        for (int k = 0; k < items; k++) storage.all[to(k)] = in[k];
        __syncthreads(line);
        for (int k = 0; k < items; k++) out[k] = storage.all[from(k)];
    }
    template <class U, class To, class From>  // the same, where each warp has places of its own
    LLMC_METHOD void in_warps(const T (&in)[items], U (&out)[items], To to, From from, int line) {
        for (int k = 0; k < items; k++) storage.all[to(k)] = in[k];
        __syncwarp(~0u, line);
        for (int k = 0; k < items; k++) out[k] = storage.all[from(k)];
    }
    LLMC_METHOD static auto blocked() { return [id = (int)llmc_tid()](int k) { return id * items + k; }; }
    LLMC_METHOD static auto striped() { return [id = (int)llmc_tid()](int k) { return k * threads + id; }; }
    LLMC_METHOD static auto warp_striped() {
        return [id = (int)llmc_tid()](int k) { return id / 32 * 32 * items + k * 32 + id % 32; };
    }

public:
    struct TempStorage { LlmcStorage<T, threads * items> all; };
    LLMC_METHOD BlockExchange(TempStorage& storage) : storage(storage) {}
    template <class U> LLMC_METHOD void StripedToBlocked(const T (&in)[items], U (&out)[items], LLMC_HERE_TOO) {
        exchange(in, out, striped(), blocked(), line.at);
    }
    template <class U> LLMC_METHOD void BlockedToStriped(const T (&in)[items], U (&out)[items], LLMC_HERE_TOO) {
        exchange(in, out, blocked(), striped(), line.at);
    }
    template <class U> LLMC_METHOD void WarpStripedToBlocked(const T (&in)[items], U (&out)[items], LLMC_HERE_TOO) {
        in_warps(in, out, warp_striped(), blocked(), line.at);
    }
    template <class U> LLMC_METHOD void BlockedToWarpStriped(const T (&in)[items], U (&out)[items], LLMC_HERE_TOO) {
        in_warps(in, out, blocked(), warp_striped(), line.at);
    }
    template <class U, class Rank>
    LLMC_METHOD void ScatterToBlocked(const T (&in)[items], U (&out)[items], Rank (&ranks)[items], LLMC_HERE_TOO) {
        exchange(in, out, [&](int k) { return (int)ranks[k]; }, blocked(), line.at);
    }
    template <class U, class Rank>
    LLMC_METHOD void ScatterToStriped(const T (&in)[items], U (&out)[items], Rank (&ranks)[items], LLMC_HERE_TOO) {
        exchange(in, out, [&](int k) { return (int)ranks[k]; }, striped(), line.at);
    }
    LLMC_METHOD void StripedToBlocked(T (&both)[items], LLMC_HERE_TOO) { StripedToBlocked(both, both, line); }
    LLMC_METHOD void BlockedToStriped(T (&both)[items], LLMC_HERE_TOO) { BlockedToStriped(both, both, line); }
    LLMC_METHOD void WarpStripedToBlocked(T (&both)[items], LLMC_HERE_TOO) { WarpStripedToBlocked(both, both, line); }
    LLMC_METHOD void BlockedToWarpStriped(T (&both)[items], LLMC_HERE_TOO) { BlockedToWarpStriped(both, both, line); }

private:
    TempStorage& storage;
};

struct LlmcNoStorage {};
template <class T, int x, int items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int y = 1, int z = 1, int arch = 0>
class BlockLoad {
    static constexpr int threads = x * y * z;
    static constexpr bool transposes = algorithm >= BLOCK_LOAD_TRANSPOSE;
    using Exchange = BlockExchange<T, x, items, false, y, z>;

public:
    using TempStorage = std::conditional_t<transposes, typename Exchange::TempStorage, LlmcNoStorage>;
    LLMC_METHOD BlockLoad(TempStorage& storage) : storage(storage) {}
    template <class In> LLMC_METHOD void Load(In from, T (&out)[items], int valid, LLMC_HERE_TOO) {
        if constexpr (algorithm == BLOCK_LOAD_STRIPED || transposes) LoadDirectStriped<threads>(llmc_tid(), from, out, valid);
        else LoadDirectBlocked(llmc_tid(), from, out, valid);
        if constexpr (transposes) Exchange(storage).StripedToBlocked(out, line);
    }
    template <class In> LLMC_METHOD void Load(In from, T (&out)[items], LLMC_HERE_TOO) { Load(from, out, 1 << 30, line); }
    template <class In, class Value>
    LLMC_METHOD void Load(In from, T (&out)[items], int valid, Value otherwise, LLMC_HERE_TOO) {
        for (T& item : out) item = otherwise;
        Load(from, out, valid, line);
    }

private:
    TempStorage& storage;
};
template <class T, int x, int items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int y = 1, int z = 1, int arch = 0>
class BlockStore {
    static constexpr int threads = x * y * z;
    static constexpr bool transposes = algorithm >= BLOCK_STORE_TRANSPOSE;
    using Exchange = BlockExchange<T, x, items, false, y, z>;

public:
    using TempStorage = std::conditional_t<transposes, typename Exchange::TempStorage, LlmcNoStorage>;
    LLMC_METHOD BlockStore(TempStorage& storage) : storage(storage) {}
    template <class Out> LLMC_METHOD void Store(Out to, T (&in)[items], int valid = 1 << 30, LLMC_HERE_TOO) {
        if constexpr (transposes) Exchange(storage).BlockedToStriped(in, line);
        if constexpr (algorithm == BLOCK_STORE_STRIPED || transposes) StoreDirectStriped<threads>(llmc_tid(), to, in, valid);
        else StoreDirectBlocked(llmc_tid(), to, in, valid);
    }

private:
    TempStorage& storage;
};
}  // namespace cub
