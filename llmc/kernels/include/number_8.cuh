// Numbers of 8 bits: e4m3 has 4 bits of exponent and 3 of mantissa, e5m2 has 5 and 2. They are only stored; number.cuh,
// which comes before, has what is computed with. `load` and `store` move eight of them, like those there.

enum Format { e4m3, e5m2 };

template <Format KIND>
struct Number8 {
    unsigned char bits;
};

// What only matmuls read has 8 bits in fp8.
#ifndef FACTORS_8
#define FACTORS_8 0
#endif
#if FACTORS_8
typedef Number8<e4m3> Factor;
typedef Number8<e5m2> Gradient;
#else
typedef floatX Factor;
typedef floatX Gradient;
#endif

// Both are a part of a float16: e5m2 is its upper half, and e4m3 lacks the first bit of the exponent, which is zero for
// all numbers if they are divided by 2^8.
template <Format KIND>
__device__ float widen(Number8<KIND> x)
{
    unsigned short half = KIND == e5m2 ? x.bits << 8 : (x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7;
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(half));
    if (KIND == e5m2) return v;
    return (x.bits & 0x7f) == 0x7f ? __uint_as_float(0x7fffffff) : 256.0f * v;  // NaN; e4m3 has no infinity
}

// Two numbers rounded to the nearest, `low` the first in memory; what is too large becomes the largest there is.
template <Format KIND>
__device__ unsigned short narrow(float low, float high)
{
    unsigned short two;
    if (KIND == e4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
    }
    return two;
}

template <Format KIND>
__device__ unsigned narrow(float a, float b, float c, float d)
{
    return narrow<KIND>(a, b) | (unsigned)narrow<KIND>(c, d) << 16;
}

template <Format KIND>
__device__ void load(Eight& v, const Number8<KIND>* p, int left)
{
    if (left >= 8 && (size_t)p % 8 == 0) {
        uint2 two = *reinterpret_cast<const uint2*>(p);
        unsigned words[2] = {two.x, two.y};
        #pragma unroll
        for (int i = 0; i < 8; i++) v[i] = widen(Number8<KIND>{(unsigned char)(words[i / 4] >> i % 4 * 8)});
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) v[i] = i < left ? widen(p[i]) : 0.0f;
    }
}

// Eight numbers with their own memory, which begins at a multiple of their size.
template <Format KIND>
__device__ void store8(Number8<KIND>* p, const Eight& v)
{
    *reinterpret_cast<uint2*>(p) = make_uint2(narrow<KIND>(v[0], v[1], v[2], v[3]), narrow<KIND>(v[4], v[5], v[6], v[7]));
}

__device__ void store8(floatX* p, const Eight& v) { *reinterpret_cast<uint4*>(p) = narrow(v); }

template <Format KIND>
__device__ void store(Number8<KIND>* p, const Eight& v, int left)
{
    if (left >= 8 && (size_t)p % 8 == 0) {
        store8(p, v);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < left) p[i].bits = (unsigned char)narrow<KIND>(v[i], 0.0f);
        }
    }
}
