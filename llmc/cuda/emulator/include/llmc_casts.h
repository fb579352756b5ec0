// Conversions between numbers with a rounding mode, and between a number and its bits.
// As on a GPU, a number that is too large becomes the largest integer; a NaN becomes 0, or in 64 bits the highest bit.
#pragma once

#include "llmc_traits.h"

LLMC_INLINE int __float_as_int(float x) { return llmc_bits<int>(x); }
LLMC_INLINE unsigned __float_as_uint(float x) { return llmc_bits<unsigned>(x); }
LLMC_INLINE float __int_as_float(int x) { return llmc_bits<float>(x); }
LLMC_INLINE float __uint_as_float(unsigned x) { return llmc_bits<float>(x); }
LLMC_INLINE long long __double_as_longlong(double x) { return llmc_bits<long long>(x); }
LLMC_INLINE double __longlong_as_double(long long x) { return llmc_bits<double>(x); }
LLMC_INLINE int __double2hiint(double x) { return __double_as_longlong(x) >> 32; }
LLMC_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
LLMC_INLINE double __hiloint2double(int high, int low) {
    return llmc_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

// The bits of the tf32 nearest to a float, ties away from zero: 8 bits of exponent, 10 of mantissa, then zeros.
LLMC_INLINE unsigned llmc_tf32(float x) {
    unsigned bits = llmc_bits<unsigned>(x);
    return (isnan(x) ? bits : bits + 0x1000) & ~0x1fffu;
}

// x is a whole number. The bounds are exact in double, except the upper ones of 64-bit types, which are one too large.
template <class I, class F>
LLMC_INLINE I llmc_to_integer(F of_any_size) {
    double x = of_any_size;
    constexpr bool is_signed = (I)-1 < (I)0;
    constexpr I highest = is_signed ? (I)(~0ull >> (65 - 8 * sizeof(I))) : (I)~(I)0;
    constexpr I lowest = is_signed ? -highest - 1 : 0;
    if (isnan(x)) return sizeof(I) == 8 || sizeof(F) == 8 ? (I)(1ull << (8 * sizeof(I) - 1)) : 0;
    return x >= (double)highest ? highest : x <= (double)lowest ? lowest : (I)x;
}

// `(int)x` in the kernel's text is llmc_to<int>(x). A GPU converts to 32 bits, or to 64, what then loses bits.
extern "C" void llmc_saturated(int line, double x, const char* type);
template <class I, class X>
LLMC_INLINE constexpr I llmc_to(X x, LLMC_HERE) {
    if constexpr (std::is_same_v<X, float> || std::is_same_v<X, double>) {
        constexpr bool is_signed = (I)-1 < (I)0, is_long = sizeof(I) == 8;
        using Signed = std::conditional_t<is_long, long long, int>;
        using Wide = std::conditional_t<is_signed, Signed, std::make_unsigned_t<Signed>>;
        constexpr double end = (is_signed ? 1 : 2) * (is_long ? 9223372036854775808.0 : 2147483648.0);
        constexpr double start = is_signed ? -end : 0;
        if ((double)x < end && ((double)x >= start || (!is_long && (double)x > start - 1) || (is_long && x > (X)-1)))
            return (I)(Wide)x;
#ifdef LLMC_CHECKED
        llmc_saturated(line, x, is_long ? is_signed ? "long long" : "unsigned long long" : is_signed ? "int" : "unsigned");
#endif
        return (I)llmc_to_integer<Wide>(x);
    } else {
        return (I)x;
    }
}

#define LLMC_TO_INTEGER(F, I, name)                                                         \
    LLMC_INLINE I __##F##2##name##_rn(F x) { return llmc_to_integer<I>(rint(x)); }   \
    LLMC_INLINE I __##F##2##name##_rd(F x) { return llmc_to_integer<I>(floor(x)); }  \
    LLMC_INLINE I __##F##2##name##_ru(F x) { return llmc_to_integer<I>(ceil(x)); }   \
    LLMC_INLINE I __##F##2##name##_rz(F x) { return llmc_to_integer<I>(trunc(x)); }
LLMC_TO_INTEGER(float, int, int)
LLMC_TO_INTEGER(float, unsigned, uint)
LLMC_TO_INTEGER(float, long long, ll)
LLMC_TO_INTEGER(float, unsigned long long, ull)
LLMC_TO_INTEGER(double, int, int)
LLMC_TO_INTEGER(double, unsigned, uint)
LLMC_TO_INTEGER(double, long long, ll)
LLMC_TO_INTEGER(double, unsigned long long, ull)

template <class F, class I>
LLMC_INLINE F llmc_from_integer(I x, int direction) {  // the exact error of the nearest one decides whether to step
    F nearest = (F)x;
    double error = (double)((__int128)x - (__int128)nearest);
    if (direction == 2) direction = nearest < 0 ? 1 : -1;
    if (direction > 0 && error > 0) return nextafter(nearest, (F)INFINITY);
    if (direction < 0 && error < 0) return nextafter(nearest, (F)-INFINITY);
    return nearest;
}
#define LLMC_FROM_INTEGER(I, name, F)                                                                    \
    LLMC_INLINE F __##name##2##F##_rn(I x) { return (F)x; }                                              \
    LLMC_INLINE F __##name##2##F##_rd(I x) { return llmc_from_integer<F>(x, -1); }                       \
    LLMC_INLINE F __##name##2##F##_ru(I x) { return llmc_from_integer<F>(x, 1); }                        \
    LLMC_INLINE F __##name##2##F##_rz(I x) { return llmc_from_integer<F>(x, 2); }
LLMC_FROM_INTEGER(int, int, float)
LLMC_FROM_INTEGER(unsigned, uint, float)
LLMC_FROM_INTEGER(long long, ll, float)
LLMC_FROM_INTEGER(unsigned long long, ull, float)
LLMC_FROM_INTEGER(int, int, double)
LLMC_FROM_INTEGER(unsigned, uint, double)
LLMC_FROM_INTEGER(long long, ll, double)
LLMC_FROM_INTEGER(unsigned long long, ull, double)

LLMC_INLINE float __double2float_rn(double x) { return (float)x; }
LLMC_INLINE float __double2float_rd(double x) { return llmc_round<float>(x, 0, -1); }
LLMC_INLINE float __double2float_ru(double x) { return llmc_round<float>(x, 0, 1); }
LLMC_INLINE float __double2float_rz(double x) { return llmc_round<float>(x, 0, 2); }
