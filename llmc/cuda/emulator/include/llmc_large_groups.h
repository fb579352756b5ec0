// Cooperative groups larger than a warp: tiles of 64 to 512 threads, and the grid.
#pragma once

namespace cooperative_groups {
// Posts `mine` for the tile of n threads that the caller belongs to; the last to arrive runs answer(slots, n).
template <unsigned n>
LLMC_QUIET void llmc_tile_together(void* mine, void (*answer)(void**, int)) {
    llmc_tile_collective(llmc_tid() / n * n, n, mine, answer);
}
template <class T>
struct LlmcTilePost {
    T value, result;
    unsigned source;
    LLMC_QUIET void shuffle(void** slots, int n) {
        for (int i = 0; i < n; i++) {
            LlmcTilePost* mine = (LlmcTilePost*)slots[i];
            mine->result = mine->source < (unsigned)n ? ((LlmcTilePost*)slots[mine->source])->value : mine->value;
        }
    }
    LLMC_QUIET void any(void** slots, int n) {
        T found = 0;
        for (int i = 0; i < n; i++) found |= ((LlmcTilePost*)slots[i])->value;
        for (int i = 0; i < n; i++) ((LlmcTilePost*)slots[i])->result = found;
    }
};
template <unsigned n, class T>
LLMC_QUIET T llmc_tile_shuffle(T value, unsigned source) {
    LlmcTilePost<T> mine = {value, value, source};
    llmc_tile_together<n>(&mine, LlmcTilePost<T>::shuffle);
    return mine.result;
}
template <unsigned n>
LLMC_QUIET bool llmc_tile_any(bool yes) {
    LlmcTilePost<int> mine = {yes, 0, 0};
    llmc_tile_together<n>(&mine, LlmcTilePost<int>::any);
    return mine.result;
}
template <class T, class Op>
struct LlmcTileReduction {
    T value;
    Op* op;
    LLMC_QUIET void answer(void** slots, int n) {
        T sum = ((LlmcTileReduction*)slots[0])->value;
        for (int i = 1; i < n; i++) sum = (*((LlmcTileReduction*)slots[0])->op)(sum, ((LlmcTileReduction*)slots[i])->value);
        for (int i = 0; i < n; i++) ((LlmcTileReduction*)slots[i])->value = sum;
    }
};
template <unsigned n, class T, class Op>
LLMC_QUIET T llmc_tile_reduce(T value, Op op) {
    LlmcTileReduction<T, Op> mine = {value, &op};
    llmc_tile_together<n>(&mine, LlmcTileReduction<T, Op>::answer);
    return mine.value;
}

template <unsigned N>
struct LlmcLargeTile {
    static_assert(N <= 512 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16, 32, 64, 128, 256 or 512 threads");
    static constexpr unsigned tile_size = N;
    unsigned meta_rank, meta_size;

    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
    LLMC_METHOD static unsigned thread_rank() { return llmc_tid() % N; }
    LLMC_METHOD unsigned meta_group_rank() const { return meta_rank; }
    LLMC_METHOD unsigned meta_group_size() const { return meta_size; }
    LLMC_METHOD void sync(int = 0) const { llmc_tile_together<N>(nullptr, nullptr); }
    LLMC_METHOD int any(int yes) const { return llmc_tile_any<N>(yes != 0); }
    LLMC_METHOD int all(int yes) const { return !llmc_tile_any<N>(yes == 0); }
    template <class T> LLMC_METHOD T shfl(T value, int rank) const { return llmc_tile_shuffle<N>(value, rank % N); }
};

struct grid_group {
    LLMC_METHOD static bool is_valid() { return num_blocks() == 1; }
    LLMC_METHOD static void sync(LLMC_HERE) {
        if (num_blocks() == 1) return __syncthreads(line);
        llmc_stop(LLMC_UNSUPPORTED, line, "makes all blocks of the grid wait for each other");
    }
    LLMC_METHOD static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    LLMC_METHOD static unsigned long long block_rank() {
        return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    LLMC_METHOD static unsigned threads_in_block() { return blockDim.x * blockDim.y * blockDim.z; }
    LLMC_METHOD static unsigned long long num_threads() { return num_blocks() * threads_in_block(); }
    LLMC_METHOD static unsigned long long size() { return num_threads(); }
    LLMC_METHOD static unsigned long long thread_rank() { return block_rank() * threads_in_block() + llmc_tid(); }
    LLMC_METHOD static dim3 block_index() { return blockIdx; }
    LLMC_METHOD static dim3 dim_blocks() { return gridDim; }
    LLMC_METHOD static dim3 group_dim() { return gridDim; }
};
LLMC_INLINE grid_group this_grid() { return {}; }
}  // namespace cooperative_groups
