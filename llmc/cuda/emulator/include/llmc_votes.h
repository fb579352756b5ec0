// What the lanes of a warp find out together: votes, matches, reductions. Shuffles and barriers are in llmc_warp.h.
#pragma once

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
    *took_part = llmc_collective(mask, LLMC_VOTE, line, &mine, llmc_answer_votes, __builtin_return_address(0));
    return mine.result;
}
LLMC_QUIET unsigned llmc_match(unsigned mask, unsigned long long value, int line, unsigned* took_part) {
    LlmcVote mine = {value, 0};
    *took_part = llmc_collective(mask, LLMC_MATCH, line, &mine, llmc_answer_matches, __builtin_return_address(0));
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

// Reduces in pairs what the lanes posted, and gives the result to all of them. T: anything; Op: called as op(a, b).
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
            for (int k = 0; k + half < n; k++)
                lanes[k]->value = (*lanes[k]->op)(lanes[k]->value, lanes[k + half]->value);
        }
        for (int k = 1; k < all; k++) lanes[k]->value = lanes[0]->value;
    }
};
template <class T, class Op>
LLMC_QUIET T llmc_reduce(unsigned mask, T value, Op op, int line) {
    LlmcReduction<T, Op> mine = {value, &op};
    llmc_collective(mask, LLMC_REDUCE, line, &mine, LlmcReduction<T, Op>::answer, __builtin_return_address(0));
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
