// Barriers of a block and of a warp, and shuffles.
// Each lane posts a request; the last to arrive answers all of them (llmc_collective in llmc_core.h).
#pragma once

LLMC_INLINE void __syncthreads(LLMC_HERE) { llmc_block_barrier(line); }
LLMC_INLINE int __syncthreads_count(int value, LLMC_HERE) { return llmc_block_barrier_reduce(line, value, LLMC_COUNT); }
LLMC_INLINE int __syncthreads_and(int value, LLMC_HERE) { return llmc_block_barrier_reduce(line, value, LLMC_AND); }
LLMC_INLINE int __syncthreads_or(int value, LLMC_HERE) { return llmc_block_barrier_reduce(line, value, LLMC_OR); }
LLMC_INLINE unsigned __activemask(LLMC_HERE) { return llmc_active_lanes(line); }
LLMC_INLINE void __syncwarp(unsigned mask = ~0u, LLMC_HERE) {
    llmc_collective(mask, LLMC_SYNCWARP, line, nullptr, nullptr);
}

// ----------------------------------------------------------------------------------------------------- shuffles
struct LlmcShuffle {
    unsigned long long value, result;
    int source;  // the lane whose value is wanted
    bool found;
};
LLMC_QUIET void llmc_answer_shuffles(void** slots, unsigned mask) {
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1) || !slots[lane]) continue;
        LlmcShuffle* mine = (LlmcShuffle*)slots[lane];
        void* other = mask >> mine->source & 1 ? slots[mine->source] : nullptr;
        mine->found = other;
        if (other) mine->result = ((LlmcShuffle*)other)->value;
    }
}
LLMC_QUIET unsigned long long llmc_shuffle(unsigned mask, unsigned long long value, int source, int line) {
    LlmcShuffle mine = {value, value, source, true};
    const void* from = __builtin_return_address(0);
    llmc_collective(mask, LLMC_SHFL, line, &mine, llmc_answer_shuffles, from);
    if (!mine.found) llmc_inactive_lane(line, source, from);
    return mine.result;
}

// The lane that a shuffle reads. As in PTX, only five bits of `by` count, and a lane out of reach means the lane
// itself. An xor may reach back into an earlier group of `width` lanes, but not forward into a later one.
LLMC_INLINE int llmc_source_index(int by, int width) {
    return ((int)llmc_lane() & -width & 31) | (by & (width - 1));
}
LLMC_INLINE int llmc_source_up(int by, int width) {
    int lane = llmc_lane(), source = lane - (by & 31);
    return source < (lane & -width & 31) ? lane : source;
}
LLMC_INLINE int llmc_source_down(int by, int width) {
    int lane = llmc_lane(), source = lane + (by & 31);
    return source > (lane | (width - 1)) ? lane : source;
}
LLMC_INLINE int llmc_source_xor(int by, int width) {
    int lane = llmc_lane(), source = lane ^ (by & 31);
    return source > (lane | (width - 1)) ? lane : source;
}

template <class T>
LLMC_INLINE T llmc_shuffle_value(unsigned mask, T value, int source, int line) {  // T: at most 8 bytes
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = llmc_shuffle(mask, bits, source, line);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
#define LLMC_SHUFFLES(T)                                                                             \
    LLMC_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32, LLMC_HERE) {         \
        return llmc_shuffle_value(mask, value, llmc_source_index(lane, width), line);                \
    }                                                                                                \
    LLMC_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, LLMC_HERE) { \
        return llmc_shuffle_value(mask, value, llmc_source_up(delta, width), line);                  \
    }                                                                                                \
    LLMC_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, LLMC_HERE) { \
        return llmc_shuffle_value(mask, value, llmc_source_down(delta, width), line);                \
    }                                                                                                \
    LLMC_INLINE T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32, LLMC_HERE) {     \
        return llmc_shuffle_value(mask, value, llmc_source_xor(flip, width), line);                  \
    }
LLMC_SHUFFLES(int)
LLMC_SHUFFLES(unsigned)
LLMC_SHUFFLES(long)
LLMC_SHUFFLES(unsigned long)
LLMC_SHUFFLES(long long)
LLMC_SHUFFLES(unsigned long long)
LLMC_SHUFFLES(float)
LLMC_SHUFFLES(double)
