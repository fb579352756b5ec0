// floatX: a number of 16 bits in memory, which every kernel widens to float to compute with. FLOAT16 says which: 1 for
// float16, 0 for bfloat16.
//
// Stream: a number of the residual stream or of its gradient, a float, or with STREAM16 one of 16 bits.
//
// `load` and `store` move eight of them, 128 bits, in one access where the address allows it, and one by one where it
// does not. They do the same for eight floats, in two accesses, so that one loop can take both kinds of arrays.

#ifndef FLOAT16
#define FLOAT16 0
#endif

struct floatX {
    unsigned short bits;
};

#if defined(STREAM16) && STREAM16
typedef floatX Stream;
#else
typedef float Stream;
#endif

typedef float Eight[8];

__device__ float widen(floatX x)
{
#if FLOAT16
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x.bits));
    return v;
#else
    return __uint_as_float((unsigned)x.bits << 16);  // a bfloat16 is the upper half of a float
#endif
}

// The nearest number of 16 bits; of two that are equally near, the one whose last bit is 0.
__device__ floatX nearest(float v)
{
#if FLOAT16
    floatX x;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(v));
    return x;
#else
    unsigned bits = __float_as_uint(v), odd = bits >> 16 & 1;
    return {isnan(v) ? (unsigned short)0x7fff : (unsigned short)((bits + 0x7fff + odd) >> 16)};
#endif
}

__device__ bool aligned(const void* p) { return (size_t)p % 16 == 0; }

// Eight numbers as they lie in memory, 128 bits.
__device__ void widen(Eight& v, uint4 four)
{
    unsigned words[4] = {four.x, four.y, four.z, four.w};
    #pragma unroll
    for (int i = 0; i < 8; i++) v[i] = widen({(unsigned short)(words[i / 2] >> i % 2 * 16)});
}

// v = p[0 ... 7]; of these, those from `left` on lie outside of the array and become zero.
__device__ void load(Eight& v, const floatX* p, int left)
{
    if (left >= 8 && aligned(p)) {
        widen(v, *reinterpret_cast<const uint4*>(p));
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) v[i] = i < left ? widen(p[i]) : 0.0f;
    }
}

__device__ void load(Eight& v, const float* p, int left)
{
    if (left >= 8 && aligned(p)) {
        float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) v[i] = i < left ? p[i] : 0.0f;
    }
}

__device__ unsigned pair(floatX low, floatX high) { return low.bits | (unsigned)high.bits << 16; }

// Two numbers rounded to the nearest, on GPUs since Ampere by one instruction; `low` is the first in memory.
__device__ unsigned rounded_pair(float low, float high)
{
#if __CUDA_ARCH__ >= 800 && FLOAT16
    unsigned two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
#elif __CUDA_ARCH__ >= 800
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
#else
    return pair(nearest(low), nearest(high));
#endif
}

__device__ uint4 narrow(const Eight& v)
{
    return make_uint4(rounded_pair(v[0], v[1]), rounded_pair(v[2], v[3]), rounded_pair(v[4], v[5]),
                      rounded_pair(v[6], v[7]));
}

// p[0 ... 7] = x, but for those from `left` on.
__device__ void store(floatX* p, const floatX (&x)[8], int left)
{
    if (left >= 8 && aligned(p)) {
        *reinterpret_cast<uint4*>(p) = make_uint4(pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7]));
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < left) p[i] = x[i];
        }
    }
}

__device__ void store(floatX* p, const Eight& v, int left)
{
    if (left >= 8 && aligned(p)) {
        *reinterpret_cast<uint4*>(p) = narrow(v);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < left) p[i] = nearest(v[i]);
        }
    }
}

__device__ void store(float* p, const Eight& v, int left)
{
    if (left >= 8 && aligned(p)) {
        reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
        reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < left) p[i] = v[i];
        }
    }
}
