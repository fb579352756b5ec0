// Numbers of 8 bits: e4m3 has 4 bits of exponent and 3 of mantissa, e5m2 has 5 and 2. They are only stored; number.cuh,
// which comes before, has what is computed with.

enum Format { E4M3, E5M2 };

// Both are a part of a float16: e5m2 is its upper half, and e4m3 lacks the first bit of the exponent, which is zero for
// all numbers if they are divided by 2^8.
template <Format FORMAT>
__device__ float widen(unsigned char x)
{
    unsigned short half = FORMAT == E5M2 ? x << 8 : (x & 0x80) << 8 | (x & 0x7f) << 7;
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(half));
    if (FORMAT == E5M2) return v;
    return (x & 0x7f) == 0x7f ? __uint_as_float(0x7fffffff) : 256.0f * v;  // NaN; e4m3 has no infinity
}

// Four numbers rounded to the nearest, the first one lowest; what is too large becomes the largest there is.
template <Format FORMAT>
__device__ unsigned narrow(float a, float b, float c, float d)
{
    unsigned short low, high;
    if (FORMAT == E4M3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    }
    return low | (unsigned)high << 16;
}
