// Who a thread is, and what threads do together: special registers, shuffles, votes, barriers.
#pragma once

namespace llmc_ptx {
LLMC_INLINE u32 laneid() { return llmc_lane(); }
LLMC_INLINE u32 warpid() { return llmc_tid() / 32; }
LLMC_INLINE u32 nwarpid() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }
LLMC_INLINE u32 lanes_below() { return (1u << llmc_lane()) - 1; }

// b has the lane, or how far it is away; c the last lane to read from and, in bits 8 to 12, which bits of a lane's number
// name its segment.
struct Reach {
    int lane, lowest, highest;
};
LLMC_INLINE Reach reach(u32 c) {
    int lane = (int)llmc_lane(), segment = (int)(c >> 8 & 31), last = (int)(c & 31);
    return {lane, lane & segment, (lane & segment) | (last & ~segment)};
}
LLMC_INLINE WithPredicate<b32> shuffle(b32 value, int source, bool inside, u32 mask, int lane, int line) {
    return {llmc_shuffle_value(mask, value, inside ? source : lane, line), inside};
}
LLMC_INLINE WithPredicate<b32> shfl_idx(b32 a, u32 b, u32 c, u32 mask, LLMC_HERE) {
    Reach r = reach(c);
    int source = r.lowest | (int)(b & 31 & ~(c >> 8));
    return shuffle(a, source, source <= r.highest, mask, r.lane, line);
}
LLMC_INLINE WithPredicate<b32> shfl_up(b32 a, u32 b, u32 c, u32 mask, LLMC_HERE) {
    Reach r = reach(c);
    int source = r.lane - (int)(b & 31);
    return shuffle(a, source, source >= r.highest, mask, r.lane, line);
}
LLMC_INLINE WithPredicate<b32> shfl_down(b32 a, u32 b, u32 c, u32 mask, LLMC_HERE) {
    Reach r = reach(c);
    int source = r.lane + (int)(b & 31);
    return shuffle(a, source, source <= r.highest, mask, r.lane, line);
}
LLMC_INLINE WithPredicate<b32> shfl_bfly(b32 a, u32 b, u32 c, u32 mask, LLMC_HERE) {
    Reach r = reach(c);
    int source = r.lane ^ (int)(b & 31);
    return shuffle(a, source, source <= r.highest, mask, r.lane, line);
}

LLMC_INLINE b32 vote_ballot(pred yes, u32 mask, LLMC_HERE) { return __ballot_sync(mask, yes, line); }
LLMC_INLINE pred vote_any(pred yes, u32 mask, LLMC_HERE) { return __any_sync(mask, yes, line); }
LLMC_INLINE pred vote_all(pred yes, u32 mask, LLMC_HERE) { return __all_sync(mask, yes, line); }
LLMC_INLINE pred vote_uni(pred yes, u32 mask, LLMC_HERE) { return __uni_sync(mask, yes, line); }
template <class T> LLMC_INLINE b32 match_any(T value, u32 mask, LLMC_HERE) { return __match_any_sync(mask, value, line); }
#define LLMC_PTX_REDUX(operation) \
    template <class T>            \
    LLMC_INLINE T redux_##operation(T value, u32 mask, LLMC_HERE) { return __reduce_##operation##_sync(mask, value, line); }
LLMC_PTX_REDUX(add)
LLMC_PTX_REDUX(min)
LLMC_PTX_REDUX(max)
LLMC_PTX_REDUX(and)
LLMC_PTX_REDUX(or)
LLMC_PTX_REDUX(xor)
#undef LLMC_PTX_REDUX
LLMC_INLINE b32 activemask(LLMC_HERE) { return __activemask(line); }

LLMC_INLINE void bar_warp_sync(u32 mask, LLMC_HERE) { __syncwarp(mask, line); }
LLMC_INLINE void bar_sync(u32, LLMC_HERE) { __syncthreads(line); }
LLMC_INLINE void bar_sync_of(u32 barrier, u32 threads, LLMC_HERE) { llmc_named_barrier(line, (int)barrier, (int)threads, true); }
LLMC_INLINE void bar_arrive(u32 barrier, u32 threads, LLMC_HERE) { llmc_named_barrier(line, (int)barrier, (int)threads, false); }
LLMC_INLINE void nanosleep(u32) { llmc_yield(); }
LLMC_INLINE void trap(LLMC_HERE) { llmc_stop(LLMC_TRAP, line, "__trap()"); }
}  // namespace llmc_ptx
