// XORWOW (Marsaglia, "Xorshift RNGs", 2003), cuRAND's default: five words that are shifted and combined, plus a counter.
// Subsequences are 2^67 numbers apart. To get there, a step is seen as a matrix of 160 x 160 bits, whose powers of two
// are computed once.
#pragma once

struct curandStateXORWOW {
    unsigned d, v[5];
    int has_extra, has_extra_double;  // a normal number that was made with the last one
    float extra;
    double extra_double;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState_t;
typedef curandStateXORWOW curandState;

LLMC_INLINE void llmc_xorwow_step(unsigned* v) {
    unsigned t = v[0] ^ v[0] >> 2;
    for (int k = 0; k < 4; k++) v[k] = v[k + 1];
    v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
}

struct LlmcXorwowPower {
    unsigned column[160][5];  // where each bit of the state goes
};
LLMC_QUIET void llmc_xorwow_apply(const LlmcXorwowPower* power, unsigned* v) {
    unsigned result[5] = {};
    for (int bit = 0; bit < 160; bit++)
        for (int k = 0; (v[bit / 32] >> bit % 32 & 1) && k < 5; k++) result[k] ^= power->column[bit][k];
    for (int k = 0; k < 5; k++) v[k] = result[k];
}
// 2^i steps, for i below 128. The table is filled once for all threads; another worker waits meanwhile.
LLMC_QUIET const LlmcXorwowPower* llmc_xorwow_powers() {
    static LlmcXorwowPower powers[128];
    static int ready, busy;
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
        if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) continue;
        for (int bit = 0; bit < 160; bit++) {
            unsigned* column = powers[0].column[bit];
            column[bit / 32] = 1u << bit % 32;
            llmc_xorwow_step(column);
        }
        for (int i = 1; i < 128; i++) {
            powers[i] = powers[i - 1];
            for (int bit = 0; bit < 160; bit++) llmc_xorwow_apply(&powers[i - 1], powers[i].column[bit]);
        }
        __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    }
    return powers;
}
LLMC_QUIET void llmc_xorwow_skip(unsigned* v, unsigned long long n, int power) {  // n * 2^power steps
    const LlmcXorwowPower* powers = llmc_xorwow_powers();
    for (; n && power < 128; n >>= 1, power++)
        if (n & 1) llmc_xorwow_apply(powers + power, v);
}

LLMC_INLINE void skipahead(unsigned long long n, curandStateXORWOW* state) {
    unsigned v[5] = {state->v[0], state->v[1], state->v[2], state->v[3], state->v[4]};
    if (n) llmc_xorwow_skip(v, n, 0);
    for (int k = 0; k < 5; k++) state->v[k] = v[k];
    state->d += 362437 * (unsigned)n;
}
LLMC_INLINE void skipahead_sequence(unsigned long long n, curandStateXORWOW* state) {
    unsigned v[5] = {state->v[0], state->v[1], state->v[2], state->v[3], state->v[4]};
    if (n) llmc_xorwow_skip(v, n, 67);
    for (int k = 0; k < 5; k++) state->v[k] = v[k];
}
LLMC_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                             curandStateXORWOW* state) {
    unsigned a = ((unsigned)seed ^ 0xaad26b49) * 1099087573, b = ((unsigned)(seed >> 32) ^ 0xf7dcefdd) * 2591861531u;
    *state = {6615241 + a + b, {123456789 + a, 362436069 ^ a, 521288629 + b, 88675123 ^ b, 5783321 + a}, 0, 0, 0, 0};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}
LLMC_INLINE unsigned curand(curandStateXORWOW* state) {
    llmc_xorwow_step(state->v);
    state->d += 362437;
    return state->v[4] + state->d;
}
