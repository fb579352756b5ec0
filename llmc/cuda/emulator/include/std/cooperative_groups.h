// Cooperative groups: a block, its tiles of up to 32 lanes, and whichever lanes happen to be active together.
// A group is a mask of lanes of the caller's warp, or 0 for the whole block. The grid and tiles of several warps are in
// ../llmc_large_groups.h.
#pragma once

namespace cooperative_groups {
struct thread_group {
    unsigned mask;

    LLMC_METHOD unsigned size() const { return mask ? __popc(mask) : blockDim.x * blockDim.y * blockDim.z; }
    LLMC_METHOD unsigned num_threads() const { return size(); }
    LLMC_METHOD unsigned thread_rank() const { return mask ? __popc(mask & ((1u << llmc_lane()) - 1)) : llmc_tid(); }
    LLMC_METHOD void sync(LLMC_HERE) const { mask ? __syncwarp(mask, line) : __syncthreads(line); }
};

struct thread_block : thread_group {
    static constexpr unsigned tile_size = 0;
    LLMC_METHOD thread_block() : thread_group{0} {}
    LLMC_METHOD static void sync(LLMC_HERE) { __syncthreads(line); }
    LLMC_METHOD static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    LLMC_METHOD static unsigned num_threads() { return size(); }
    LLMC_METHOD static unsigned thread_rank() { return llmc_tid(); }
    LLMC_METHOD static dim3 group_index() { return blockIdx; }
    LLMC_METHOD static dim3 thread_index() { return threadIdx; }
    LLMC_METHOD static dim3 group_dim() { return blockDim; }
    LLMC_METHOD static dim3 dim_threads() { return blockDim; }
};
LLMC_INLINE thread_block this_thread_block() { return {}; }
// Older GPUs keep the barriers of tiles over 32 threads in this memory; newer ones, and we, need none of it.
template <unsigned max_threads = 1024> struct alignas(8) block_tile_memory { char unused[8]; };
template <unsigned n> LLMC_INLINE thread_block this_thread_block(block_tile_memory<n>&, LLMC_HERE) {
    __syncthreads(line);  // as on older GPUs: all threads of the block must come here
    return {};
}
LLMC_INLINE thread_group this_thread() { return {1u << llmc_lane()}; }

// What a group within one warp can do. A rank counts the group's lanes from 0, whichever lanes they are.
struct LlmcLanes : thread_group {
    LLMC_METHOD int first() const { return __ffs(mask) - 1; }
    LLMC_METHOD bool together() const { return !(mask >> first() & ((mask >> first()) + 1)); }  // no gaps, as in a tile
    LLMC_METHOD int lane_of(unsigned rank) const {
        unsigned rest = mask;
        for (unsigned passed = 0; !together() && passed < rank; passed++) rest &= rest - 1;
        return together() ? first() + rank : __ffs(rest) - 1;
    }
    LLMC_METHOD unsigned by_rank(unsigned lanes) const {  // a mask of lanes as a mask of ranks
        if (together()) return lanes >> first();
        unsigned ranks = 0;
        for (unsigned rest = mask, rank = 0; rest; rest &= rest - 1, rank++)
            if (lanes & rest & -rest) ranks |= 1u << rank;
        return ranks;
    }
    // T may have any size: it is sent in pieces of 8 bytes.
    template <class T>
    LLMC_METHOD T from_rank(T value, unsigned rank, int line) const {
        constexpr int pieces = (sizeof(T) + 7) / 8;
        unsigned long long bits[pieces] = {};
        __builtin_memcpy(bits, &value, sizeof(T));
        int source = rank < size() ? lane_of(rank) : (int)llmc_lane();
        for (int k = 0; k < pieces; k++) bits[k] = llmc_shuffle(mask, bits[k], source, line);
        __builtin_memcpy(&value, bits, sizeof(T));
        return value;
    }
    template <class T> LLMC_METHOD T shfl(T value, int rank, LLMC_HERE) const { return from_rank(value, rank, line); }
    template <class T> LLMC_METHOD T shfl_up(T value, unsigned delta, LLMC_HERE) const {
        return from_rank(value, delta > thread_rank() ? ~0u : thread_rank() - delta, line);
    }
    template <class T> LLMC_METHOD T shfl_down(T value, unsigned delta, LLMC_HERE) const {
        return from_rank(value, thread_rank() + delta, line);
    }
    LLMC_METHOD int any(int yes, LLMC_HERE) const { return __any_sync(mask, yes, line); }
    LLMC_METHOD int all(int yes, LLMC_HERE) const { return __all_sync(mask, yes, line); }
    LLMC_METHOD unsigned ballot(int yes, LLMC_HERE) const { return by_rank(__ballot_sync(mask, yes, line)); }
    template <class T> LLMC_METHOD unsigned match_any(T value, LLMC_HERE) const {
        return by_rank(__match_any_sync(mask, value, line));
    }
    template <class T> LLMC_METHOD unsigned match_all(T value, int& all, LLMC_HERE) const {
        return by_rank(__match_all_sync(mask, value, &all, line));
    }
};

struct coalesced_group : LlmcLanes {
    LLMC_METHOD unsigned long long meta_group_rank() const { return 0; }
    LLMC_METHOD unsigned long long meta_group_size() const { return 1; }
};
LLMC_INLINE coalesced_group coalesced_threads(LLMC_HERE) { return {{{llmc_active_lanes(line)}}}; }

template <unsigned N>
struct LlmcTile : LlmcLanes {
    static_assert(N >= 1 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16, 32, 64, 128, 256 or 512 threads");
    static constexpr unsigned tile_size = N;
    unsigned meta_rank, meta_size;

    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
    LLMC_METHOD static unsigned thread_rank() { return llmc_lane() % N; }
    LLMC_METHOD unsigned meta_group_rank() const { return meta_rank; }
    LLMC_METHOD unsigned meta_group_size() const { return meta_size; }
    template <class T> LLMC_METHOD T shfl(T value, int rank, LLMC_HERE) const {
        return this->from_rank(value, rank % N, line);
    }
    template <class T> LLMC_METHOD T shfl_xor(T value, unsigned flip, LLMC_HERE) const {
        return this->from_rank(value, thread_rank() ^ flip, line);
    }
};
}  // namespace cooperative_groups
#include "llmc_large_groups.h"
namespace cooperative_groups {
template <bool large, unsigned N> struct LlmcTileOf { using type = LlmcTile<N>; };
template <unsigned N> struct LlmcTileOf<true, N> { using type = LlmcLargeTile<N>; };
template <unsigned N, class Parent = void>
struct thread_block_tile : LlmcTileOf<(N > 32), N>::type {};
template <unsigned N>
struct thread_block_tile<N, void> : LlmcTileOf<(N > 32), N>::type {
    thread_block_tile() = default;
    template <class Parent>  // a tile forgets where it comes from
    LLMC_METHOD thread_block_tile(const thread_block_tile<N, Parent>& tile) : LlmcTileOf<(N > 32), N>::type(tile) {}
};

LLMC_INLINE unsigned llmc_tile_mask(unsigned n) { return (~0u >> (32 - n)) << (llmc_lane() & -n & 31); }
template <unsigned N, class Parent>
LLMC_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
    thread_block_tile<N, Parent> tile;
    if constexpr (N <= 32) tile.mask = llmc_tile_mask(N);
    tile.meta_rank = parent.thread_rank() / N;
    tile.meta_size = (parent.size() + N - 1) / N;
    return tile;
}
LLMC_INLINE thread_group tiled_partition(const thread_group&, unsigned n) { return {llmc_tile_mask(n)}; }
LLMC_INLINE coalesced_group binary_partition(const LlmcLanes& group, bool side, LLMC_HERE) {
    unsigned yes = __ballot_sync(group.mask, side, line);
    return {{{side ? yes : group.mask & ~yes}}};
}
template <class Label>
LLMC_INLINE coalesced_group labeled_partition(const LlmcLanes& group, Label label, LLMC_HERE) {
    return {{{__match_any_sync(group.mask, label, line)}}};
}

template <class Group> LLMC_INLINE void sync(const Group& group, LLMC_HERE) { group.sync(line); }
template <class Group> LLMC_INLINE unsigned thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> LLMC_INLINE unsigned group_size(const Group& group) { return group.size(); }
}  // namespace cooperative_groups
