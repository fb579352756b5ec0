// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter of 128 bits, encrypted
// with a key of 64 bits in ten rounds. In cuRAND the key is the seed; a subsequence counts in the upper half of the
// counter, four numbers of it in the lower half.
#pragma once

LLMC_INLINE uint4 curand_Philox4x32_10(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned long long a = 0xD2511F53ull * counter.x, b = 0xCD9E8D57ull * counter.z;
        counter = {(unsigned)(b >> 32) ^ counter.y ^ key.x, (unsigned)b, (unsigned)(a >> 32) ^ counter.w ^ key.y, (unsigned)a};
        key.x += 0x9E3779B9;
        key.y += 0xBB67AE85;
    }
    return counter;
}

struct curandStatePhilox4_32_10 {
    uint4 ctr, output;  // the four numbers of this counter; `used` of them were given away
    uint2 key;
    unsigned used;
    int has_extra, has_extra_double;  // a normal number that was made with the last one
    float extra;
    double extra_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

LLMC_INLINE void llmc_philox_add(curandStatePhilox4_32_10* state, unsigned long long low, unsigned long long high) {
    unsigned long long before = (unsigned long long)state->ctr.y << 32 | state->ctr.x, sum = before + low;
    unsigned long long upper = ((unsigned long long)state->ctr.w << 32 | state->ctr.z) + high + (sum < before);
    state->ctr = {(unsigned)sum, (unsigned)(sum >> 32), (unsigned)upper, (unsigned)(upper >> 32)};
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
LLMC_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
    unsigned used = state->used + (unsigned)(n % 4);
    state->used = used % 4;
    llmc_philox_add(state, n / 4 + used / 4, 0);
}
LLMC_INLINE void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
    llmc_philox_add(state, 0, n);
}
LLMC_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                             curandStatePhilox4_32_10* state) {
    *state = {};
    state->key = {(unsigned)seed, (unsigned)(seed >> 32)};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}
LLMC_INLINE unsigned curand(curandStatePhilox4_32_10* state) {
    uint4 now = state->output;
    unsigned result = state->used == 0 ? now.x : state->used == 1 ? now.y : state->used == 2 ? now.z : now.w;
    skipahead(1, state);
    return result;
}
LLMC_INLINE uint4 curand4(curandStatePhilox4_32_10* state) {
    uint4 a = state->output;
    llmc_philox_add(state, 1, 0);
    uint4 b = state->output;
    switch (state->used) {
        case 1: return {a.y, a.z, a.w, b.x};
        case 2: return {a.z, a.w, b.x, b.y};
        case 3: return {a.w, b.x, b.y, b.z};
        default: return a;
    }
}
