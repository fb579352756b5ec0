// Barriers of a block, and what the lanes of a warp do together: barriers, shuffles, votes, matches, reductions.
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
    llmc_collective(mask, LLMC_SHFL, line, &mine, llmc_answer_shuffles);
    if (!mine.found) llmc_inactive_lane(line, source);
    return mine.result;
}

// The lane a shuffle reads. As in PTX only five bits of `by` count, and a lane out of reach means the lane itself.
// An xor may reach back into an earlier group of `width` lanes, but not on into a later one.
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

// ------------------------------------------------------------------------------------- votes, matches, reductions
struct LlmcVote {
    unsigned long long value;
    unsigned result;
};
LLMC_QUIET void llmc_answer_votes(void** slots, unsigned mask) {  // to all: the lanes that said yes
    unsigned yes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) && slots[lane] && ((LlmcVote*)slots[lane])->value) yes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) && slots[lane]) ((LlmcVote*)slots[lane])->result = yes;
}
LLMC_QUIET void llmc_answer_matches(void** slots, unsigned mask) {  // to each: the lanes with its value
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1) || !slots[lane]) continue;
        LlmcVote* mine = (LlmcVote*)slots[lane];
        for (int other = 0; other < 32; other++)
            if ((mask >> other & 1) && slots[other] && ((LlmcVote*)slots[other])->value == mine->value)
                mine->result |= 1u << other;
    }
}
LLMC_QUIET unsigned llmc_ballot(unsigned mask, bool yes, int line, unsigned* took_part) {
    LlmcVote mine = {yes, 0};
    *took_part = llmc_collective(mask, LLMC_VOTE, line, &mine, llmc_answer_votes);
    return mine.result;
}
LLMC_QUIET unsigned llmc_match(unsigned mask, unsigned long long value, int line, unsigned* took_part) {
    LlmcVote mine = {value, 0};
    *took_part = llmc_collective(mask, LLMC_MATCH, line, &mine, llmc_answer_matches);
    return mine.result;
}
LLMC_INLINE unsigned __ballot_sync(unsigned mask, int yes, LLMC_HERE) {
    unsigned took_part;
    return llmc_ballot(mask, yes, line, &took_part);
}
LLMC_INLINE int __any_sync(unsigned mask, int yes, LLMC_HERE) { return __ballot_sync(mask, yes, line) != 0; }
LLMC_INLINE int __all_sync(unsigned mask, int yes, LLMC_HERE) {
    unsigned took_part, ballot = llmc_ballot(mask, yes, line, &took_part);
    return ballot == took_part;
}
LLMC_INLINE int __uni_sync(unsigned mask, int yes, LLMC_HERE) {
    unsigned took_part, ballot = llmc_ballot(mask, yes, line, &took_part);
    return ballot == took_part || !ballot;
}

template <class T>
LLMC_INLINE unsigned long long llmc_widen(T value) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
#define LLMC_MATCHES(T)                                                                 \
    LLMC_INLINE unsigned __match_any_sync(unsigned mask, T value, LLMC_HERE) {          \
        unsigned took_part;                                                             \
        return llmc_match(mask, llmc_widen(value), line, &took_part);                   \
    }                                                                                   \
    LLMC_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all, LLMC_HERE) { \
        unsigned took_part, same = llmc_match(mask, llmc_widen(value), line, &took_part); \
        *all = same == took_part;                                                       \
        return *all ? took_part : 0;                                                    \
    }
LLMC_MATCHES(int)
LLMC_MATCHES(unsigned)
LLMC_MATCHES(long)
LLMC_MATCHES(unsigned long)
LLMC_MATCHES(long long)
LLMC_MATCHES(unsigned long long)
LLMC_MATCHES(float)
LLMC_MATCHES(double)

// Reduces what the lanes posted, in pairs, and gives the result to all. T: anything; Op: called as op(a, b).
template <class T, class Op>
struct LlmcReduction {
    T value;
    Op* op;
    LLMC_QUIET void answer(void** slots, unsigned mask) {
        LlmcReduction* lanes[32];
        int n = 0;
        for (int lane = 0; lane < 32; lane++)
            if ((mask >> lane & 1) && slots[lane]) lanes[n++] = (LlmcReduction*)slots[lane];
        int all = n;
        for (int half; n > 1; n = half) {
            half = (n + 1) / 2;
            for (int k = 0; k + half < n; k++) lanes[k]->value = (*lanes[k]->op)(lanes[k]->value, lanes[k + half]->value);
        }
        for (int k = 1; k < all; k++) lanes[k]->value = lanes[0]->value;
    }
};
template <class T, class Op>
LLMC_QUIET T llmc_reduce(unsigned mask, T value, Op op, int line) {
    LlmcReduction<T, Op> mine = {value, &op};
    llmc_collective(mask, LLMC_REDUCE, line, &mine, LlmcReduction<T, Op>::answer);
    return mine.value;
}
#define LLMC_WARP_REDUCE(T, name, expression)                                                          \
    LLMC_INLINE T __reduce_##name##_sync(unsigned mask, T value, LLMC_HERE) {                          \
        return llmc_reduce(mask, value, [](T a, T b) -> T { return expression; }, line);               \
    }
LLMC_WARP_REDUCE(int, add, (int)((unsigned)a + (unsigned)b))
LLMC_WARP_REDUCE(int, min, a < b ? a : b)
LLMC_WARP_REDUCE(int, max, a > b ? a : b)
LLMC_WARP_REDUCE(unsigned, add, a + b)
LLMC_WARP_REDUCE(unsigned, min, a < b ? a : b)
LLMC_WARP_REDUCE(unsigned, max, a > b ? a : b)
LLMC_WARP_REDUCE(unsigned, and, a & b)
LLMC_WARP_REDUCE(unsigned, or, a | b)
LLMC_WARP_REDUCE(unsigned, xor, a ^ b)
