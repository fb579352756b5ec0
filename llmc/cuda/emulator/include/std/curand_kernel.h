// cuRAND's device functions: random numbers of each thread's own. Philox4_32_10 and XORWOW give the same bits as a GPU;
// normal numbers agree up to the rounding of logarithm and sine, for which cuRAND takes the fast functions.
#pragma once

#include "../llmc_philox.h"
#include "../llmc_xorwow.h"

// ------------------------------------------------------------------------------------------------- uniform and normal

LLMC_INLINE float llmc_uniform(unsigned bits) { return bits * 0x1p-32f + 0x1p-33f; }  // in (0, 1]
LLMC_INLINE float2 llmc_box_muller(unsigned x, unsigned y) {
    float length = sqrtf(-2.0f * logf(llmc_uniform(x))), turn = y * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
    return {sinf(turn) * length, cosf(turn) * length};
}
LLMC_INLINE double llmc_uniform_double(unsigned low, unsigned high) {  // 53 bits
    return ((unsigned long long)low ^ (unsigned long long)high << 21) * 0x1p-53 + 0x1p-54;
}
template <class State> LLMC_INLINE float curand_uniform(State* state) { return llmc_uniform(curand(state)); }
LLMC_INLINE double curand_uniform_double(curandStateXORWOW_t* state) {
    unsigned low = curand(state), high = curand(state);
    return llmc_uniform_double(low, high);
}
LLMC_INLINE double curand_uniform_double(curandStatePhilox4_32_10_t* state) {
    return curand(state) * 0x1p-32 + 0x1p-32;  // in (0, 1], as measured
}
template <class State>
LLMC_INLINE float2 curand_normal2(State* state) {
    unsigned x = curand(state), y = curand(state);
    return llmc_box_muller(x, y);
}
template <class State>
LLMC_INLINE float curand_normal(State* state) {  // two at a time: the second one is kept
    if (!state->has_extra) {
        float2 both = curand_normal2(state);
        state->extra = both.y;
        state->has_extra = 1;
        return both.x;
    }
    state->has_extra = 0;
    return state->extra;
}
template <class State> LLMC_INLINE float curand_log_normal(State* state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
LLMC_INLINE double2 llmc_box_muller_double(uint4 v) {
    double length = sqrt(-2.0 * log(llmc_uniform_double(v.x, v.y))), turn = 2.0 * llmc_uniform_double(v.z, v.w);
    return {sinpi(turn) * length, cospi(turn) * length};
}
template <class State>
LLMC_INLINE double2 curand_normal2_double(State* state) {
    unsigned x = curand(state), y = curand(state), z = curand(state), w = curand(state);
    return llmc_box_muller_double({x, y, z, w});
}
template <class State>
LLMC_INLINE double curand_normal_double(State* state) {
    if (!state->has_extra_double) {
        double2 both = curand_normal2_double(state);
        state->extra_double = both.y;
        state->has_extra_double = 1;
        return both.x;
    }
    state->has_extra_double = 0;
    return state->extra_double;
}

// --------------------------------------------------------------------------------------------------- four at a time

LLMC_INLINE float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
    uint4 v = curand4(state);
    return {llmc_uniform(v.x), llmc_uniform(v.y), llmc_uniform(v.z), llmc_uniform(v.w)};
}
LLMC_INLINE float4 curand_normal4(curandStatePhilox4_32_10_t* state) {
    uint4 v = curand4(state);
    float2 a = llmc_box_muller(v.x, v.y), b = llmc_box_muller(v.z, v.w);
    return {a.x, a.y, b.x, b.y};
}
LLMC_INLINE double2 curand_uniform2_double(curandStatePhilox4_32_10_t* state) {
    uint4 v = curand4(state);
    return {llmc_uniform_double(v.x, v.y), llmc_uniform_double(v.z, v.w)};
}
