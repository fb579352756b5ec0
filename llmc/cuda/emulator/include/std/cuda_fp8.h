// __nv_fp8_e4m3 (4 bits of exponent, 3 of mantissa, up to 448, no infinity) and __nv_fp8_e5m2 (5 and 2, up to 57344):
// one byte each, only for storage and conversion. A number too large becomes the largest one (__NV_SATFINITE, also what
// the classes do), or with __NV_NOSAT a NaN (e4m3) or an infinity (e5m2).
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

// ------------------------------------------------------------------------------------------------------ conversions

// Rounded once, from the exact value, to the nearest (ties to even). Every NaN becomes 0x7f (of a double a GPU keeps the sign, too).
LLMC_QUIET __nv_fp8_storage_t llmc_to_fp8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, lowest = kind == __NV_E4M3 ? -6 : -14;  // of a normal number
    const double largest = kind == __NV_E4M3 ? 448.0 : 57344.0;
    const unsigned sign = signbit(x) ? 0x80 : 0, highest = kind == __NV_E4M3 ? 0x7e : 0x7b;
    if (isnan(x)) return 0x7f;
    double magnitude = fabs(x);
    int exponent = magnitude ? (int)(llmc_magnitude(x) >> 52) - 1023 : lowest;
    if (exponent < lowest) exponent = lowest;
    // in units of the last place a whole number; subnormal numbers have the unit of the smallest normal one
    double units = isinf(x) ? INFINITY : rint(ldexp(magnitude, mantissa_bits - exponent));
    if (isinf(units) || ldexp(units, exponent - mantissa_bits) > largest)
        return sign | (saturation == __NV_SATFINITE ? highest : kind == __NV_E4M3 ? 0x7f : 0x7c);
    return sign | ((exponent - lowest) * (1 << mantissa_bits) + (unsigned)units);  // an overflow of units carries over
}
LLMC_QUIET float llmc_from_fp8(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E5M2) return llmc_half_value((unsigned short)(bits << 8));  // the upper byte of a half
    if ((bits & 0x7f) == 0x7f) return NAN;
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float magnitude = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return bits & 0x80 ? -magnitude : magnitude;
}

#define LLMC_TO_FP8(name, T, value)                                                                            \
    LLMC_INLINE __nv_fp8_storage_t __nv_cvt_##name##_to_fp8(T x, __nv_saturation_t saturation,                 \
                                                            __nv_fp8_interpretation_t kind) {                  \
        return llmc_to_fp8(value, saturation, kind);                                                           \
    }
#define LLMC_TO_FP8X2(name, T)                                                                                 \
    LLMC_INLINE __nv_fp8x2_storage_t __nv_cvt_##name##2_to_fp8x2(T x, __nv_saturation_t saturation,            \
                                                                 __nv_fp8_interpretation_t kind) {             \
        return llmc_to_fp8((double)x.x, saturation, kind) | llmc_to_fp8((double)x.y, saturation, kind) << 8;   \
    }
LLMC_TO_FP8(float, float, x)
LLMC_TO_FP8(double, double, x)
LLMC_TO_FP8(halfraw, __half_raw, (float)__half(x))
LLMC_TO_FP8(bfloat16raw, __nv_bfloat16_raw, (float)__nv_bfloat16(x))
LLMC_TO_FP8X2(float, float2)
LLMC_TO_FP8X2(double, double2)
LLMC_INLINE __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2 x, __nv_saturation_t saturation,
                                                            __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2({x.x, x.y}, saturation, kind);
}
LLMC_INLINE __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162 x, __nv_saturation_t saturation,
                                                                __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2({x.x, x.y}, saturation, kind);
}
LLMC_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(llmc_from_fp8(x, kind));  // exact
}
LLMC_INLINE __half2 __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {llmc_from_fp8(x & 0xff, kind), llmc_from_fp8(x >> 8, kind)};
}

// --------------------------------------------------------------------------------------------------------- the types

#define LLMC_FP8(T, kind, letter)                                                                              \
    struct T {                                                                                                 \
        __nv_fp8_storage_t __x;                                                                                \
        T() = default;                                                                                         \
        LLMC_METHOD explicit T(float x) : __x(llmc_to_fp8(x, __NV_SATFINITE, kind)) {}                         \
        LLMC_METHOD explicit T(double x) : __x(llmc_to_fp8(x, __NV_SATFINITE, kind)) {}                        \
        LLMC_METHOD explicit T(__half x) : T((float)x) {}                                                      \
        LLMC_METHOD explicit T(__nv_bfloat16 x) : T((float)x) {}                                               \
        LLMC_METHOD explicit T(int x) : T((double)x) {}                                                        \
        LLMC_METHOD explicit T(unsigned x) : T((double)x) {}                                                   \
        LLMC_METHOD explicit T(long long x) : T((double)x) {}                                                  \
        LLMC_METHOD explicit operator float() const { return llmc_from_fp8(__x, kind); }                       \
        LLMC_METHOD explicit operator double() const { return llmc_from_fp8(__x, kind); }                      \
        LLMC_METHOD explicit operator __half() const { return llmc_from_fp8(__x, kind); }                      \
        LLMC_METHOD explicit operator __nv_bfloat16() const { return llmc_from_fp8(__x, kind); }               \
        LLMC_METHOD explicit operator int() const { return __float2int_rz(llmc_from_fp8(__x, kind)); }         \
        LLMC_METHOD explicit operator bool() const { return __x & 0x7f; }                                      \
    };                                                                                                         \
    LLMC_ELEMENT(T, letter, 1, 1)
LLMC_FP8(__nv_fp8_e4m3, __NV_E4M3, 'e')
LLMC_FP8(__nv_fp8_e5m2, __NV_E5M2, 'm')

// Two or four of them, the first one in the lowest byte.
#define LLMC_FP8_GROUP(T, One, Bits, n, Floats, first, all)                                                    \
    struct __attribute__((aligned(n))) T {                                                                     \
        Bits __x;                                                                                              \
        T() = default;                                                                                         \
        LLMC_METHOD explicit T(Floats v) {                                                                     \
            __x = 0;                                                                                           \
            const float values[] = all;                                                                        \
            for (int k = 0; k < n; k++) __x |= (Bits)((unsigned)One(values[k]).__x << 8 * k);                  \
        }                                                                                                      \
        LLMC_METHOD explicit operator Floats() const {                                                         \
            float values[n];                                                                                   \
            for (int k = 0; k < n; k++) { One one; one.__x = __x >> 8 * k & 0xff; values[k] = (float)one; }    \
            return first;                                                                                      \
        }                                                                                                      \
    };                                                                                                         \
    LLMC_ELEMENT(T, LlmcElement<One>::letter, 1, n)
#define LLMC_TWO {v.x, v.y}
#define LLMC_FOUR {v.x, v.y, v.z, v.w}
#define LLMC_FIRST_TWO (make_float2(values[0], values[1]))
#define LLMC_FIRST_FOUR (make_float4(values[0], values[1], values[2], values[3]))
LLMC_FP8_GROUP(__nv_fp8x2_e4m3, __nv_fp8_e4m3, __nv_fp8x2_storage_t, 2, float2, LLMC_FIRST_TWO, LLMC_TWO)
LLMC_FP8_GROUP(__nv_fp8x2_e5m2, __nv_fp8_e5m2, __nv_fp8x2_storage_t, 2, float2, LLMC_FIRST_TWO, LLMC_TWO)
LLMC_FP8_GROUP(__nv_fp8x4_e4m3, __nv_fp8_e4m3, __nv_fp8x4_storage_t, 4, float4, LLMC_FIRST_FOUR, LLMC_FOUR)
LLMC_FP8_GROUP(__nv_fp8x4_e5m2, __nv_fp8_e5m2, __nv_fp8x4_storage_t, 4, float4, LLMC_FIRST_FOUR, LLMC_FOUR)
