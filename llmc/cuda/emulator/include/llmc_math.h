// CUDA's mathematical functions: the C library's as declarations, the others in a line or two, and C++'s overloads.
#pragma once

template <class T> struct LlmcInteger {};  // what sqrt(int) returns, as in C++
#define LLMC_INTEGER(T) template <> struct LlmcInteger<T> { using as_double = double; };
LLMC_INTEGER(int)
LLMC_INTEGER(unsigned)
LLMC_INTEGER(long)
LLMC_INTEGER(unsigned long)
LLMC_INTEGER(long long)
LLMC_INTEGER(unsigned long long)
LLMC_INTEGER(short)
LLMC_INTEGER(unsigned short)
LLMC_INTEGER(signed char)
LLMC_INTEGER(unsigned char)

// ------------------------------------------------------------------ the C library's: double f(double), float ff(float)
#define LLMC_LIBRARY_1(name)                                 \
    extern "C" double name(double) noexcept;                 \
    extern "C" float name##f(float) noexcept;                \
    LLMC_INLINE float name(float x) { return name##f(x); }   \
    template <class T>                                       \
    LLMC_INLINE typename LlmcInteger<T>::as_double name(T x) { return name((double)x); }
#define LLMC_LIBRARY_2(name)                                                      \
    extern "C" double name(double, double) noexcept;                              \
    extern "C" float name##f(float, float) noexcept;                              \
    LLMC_MIXED_2(name)
#define LLMC_MIXED_2(name)                                                        \
    LLMC_INLINE float name(float x, float y) { return name##f(x, y); }            \
    LLMC_INLINE double name(double x, float y) { return name(x, (double)y); }     \
    LLMC_INLINE double name(float x, double y) { return name((double)x, y); }

LLMC_LIBRARY_1(acos)
LLMC_LIBRARY_1(acosh)
LLMC_LIBRARY_1(asin)
LLMC_LIBRARY_1(asinh)
LLMC_LIBRARY_1(atan)
LLMC_LIBRARY_1(atanh)
LLMC_LIBRARY_1(cbrt)
LLMC_LIBRARY_1(ceil)
LLMC_LIBRARY_1(cos)
LLMC_LIBRARY_1(cosh)
LLMC_LIBRARY_1(erf)
LLMC_LIBRARY_1(erfc)
LLMC_LIBRARY_1(exp)
LLMC_LIBRARY_1(exp2)
LLMC_LIBRARY_1(expm1)
LLMC_LIBRARY_1(floor)
LLMC_LIBRARY_1(lgamma)
LLMC_LIBRARY_1(log)
LLMC_LIBRARY_1(log10)
LLMC_LIBRARY_1(log1p)
LLMC_LIBRARY_1(log2)
LLMC_LIBRARY_1(logb)
LLMC_LIBRARY_1(nearbyint)
LLMC_LIBRARY_1(rint)
LLMC_LIBRARY_1(round)
LLMC_LIBRARY_1(sin)
LLMC_LIBRARY_1(sinh)
LLMC_LIBRARY_1(sqrt)
LLMC_LIBRARY_1(tan)
LLMC_LIBRARY_1(tanh)
LLMC_LIBRARY_1(tgamma)
LLMC_LIBRARY_1(trunc)
LLMC_LIBRARY_2(atan2)
LLMC_LIBRARY_2(copysign)
LLMC_LIBRARY_2(fdim)
LLMC_LIBRARY_2(fmod)
LLMC_LIBRARY_2(hypot)
LLMC_LIBRARY_2(nextafter)
LLMC_LIBRARY_2(pow)
LLMC_LIBRARY_2(remainder)

template <class I, class F> LLMC_INLINE I llmc_to_integer(F x);  // of llmc_casts.h

// Functions with an integer, a pointer or a different result. F is float or double, f the suffix of the float version.
#define LLMC_LIBRARY_OTHERS(F, f)                                  \
    extern "C" F fma##f(F, F, F) noexcept;                         \
    extern "C" F frexp##f(F, int*) noexcept;                       \
    extern "C" F ldexp##f(F, int) noexcept;                        \
    extern "C" F scalbn##f(F, int) noexcept;                       \
    extern "C" F scalbln##f(F, long) noexcept;                     \
    extern "C" F modf##f(F, F*) noexcept;                          \
    extern "C" F remquo##f(F, F, int*) noexcept;                   \
    extern "C" F nan##f(const char*) noexcept;                     \
    extern "C" int ilogb##f(F) noexcept;                           \
    LLMC_INLINE long lrint##f(F x) { return llmc_to_integer<long>(rint##f(x)); }               \
    LLMC_INLINE long lround##f(F x) { return llmc_to_integer<long>(round##f(x)); }             \
    LLMC_INLINE long long llrint##f(F x) { return llmc_to_integer<long long>(rint##f(x)); }    \
    LLMC_INLINE long long llround##f(F x) { return llmc_to_integer<long long>(round##f(x)); }
LLMC_LIBRARY_OTHERS(float, f)
LLMC_LIBRARY_OTHERS(double, )
LLMC_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
LLMC_INLINE float frexp(float x, int* e) { return frexpf(x, e); }
LLMC_INLINE float ldexp(float x, int e) { return ldexpf(x, e); }
LLMC_INLINE float scalbn(float x, int e) { return scalbnf(x, e); }
LLMC_INLINE float scalbln(float x, long e) { return scalblnf(x, e); }
LLMC_INLINE float modf(float x, float* whole) { return modff(x, whole); }
LLMC_INLINE float remquo(float x, float y, int* q) { return remquof(x, y, q); }
LLMC_INLINE int ilogb(float x) { return ilogbf(x); }
LLMC_INLINE long lrint(float x) { return lrintf(x); }
LLMC_INLINE long lround(float x) { return lroundf(x); }
LLMC_INLINE long long llrint(float x) { return llrintf(x); }
LLMC_INLINE long long llround(float x) { return llroundf(x); }
LLMC_INLINE float pow(float x, int n) { return powf(x, (float)n); }
LLMC_INLINE double pow(double x, int n) { return pow(x, (double)n); }
LLMC_INLINE double pow(int x, int n) { return pow((double)x, (double)n); }

// ------------------------------------------------------------------------------------ signs, bounds, kinds of number
LLMC_INLINE float fabsf(float x) { return __builtin_fabsf(x); }
LLMC_INLINE double fabs(double x) { return __builtin_fabs(x); }
LLMC_INLINE float fabs(float x) { return __builtin_fabsf(x); }
LLMC_INLINE float abs(float x) { return __builtin_fabsf(x); }
LLMC_INLINE double abs(double x) { return __builtin_fabs(x); }
LLMC_INLINE int abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
LLMC_INLINE long abs(long x) { return x < 0 ? (long)(0ul - (unsigned long)x) : x; }
LLMC_INLINE long long abs(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }
LLMC_INLINE long labs(long x) { return abs(x); }
LLMC_INLINE long long llabs(long long x) { return abs(x); }

// A NaN loses against a number. Its bits tell what a NaN is, since -ffast-math would say that there are none.
LLMC_INLINE unsigned llmc_magnitude(float x) { return llmc_bits<unsigned>(x) & 0x7fffffff; }
LLMC_INLINE unsigned long long llmc_magnitude(double x) { return llmc_bits<unsigned long long>(x) & (~0ull >> 1); }
LLMC_INLINE bool isnan(float x) { return llmc_magnitude(x) > 0x7f800000; }
LLMC_INLINE bool isinf(float x) { return llmc_magnitude(x) == 0x7f800000; }
LLMC_INLINE bool isfinite(float x) { return llmc_magnitude(x) < 0x7f800000; }
LLMC_INLINE bool signbit(float x) { return llmc_bits<unsigned>(x) >> 31; }
LLMC_INLINE bool isnan(double x) { return llmc_magnitude(x) > 0x7ffull << 52; }
LLMC_INLINE bool isinf(double x) { return llmc_magnitude(x) == 0x7ffull << 52; }
LLMC_INLINE bool isfinite(double x) { return llmc_magnitude(x) < 0x7ffull << 52; }
LLMC_INLINE bool signbit(double x) { return llmc_bits<unsigned long long>(x) >> 63; }

// -0 is below 0.
LLMC_INLINE float fmaxf(float a, float b) { return a > b || isnan(b) || (a == b && signbit(b)) ? a : b; }
LLMC_INLINE float fminf(float a, float b) { return a < b || isnan(b) || (a == b && signbit(a)) ? a : b; }
LLMC_INLINE double fmax(double a, double b) { return a > b || isnan(b) || (a == b && signbit(b)) ? a : b; }
LLMC_INLINE double fmin(double a, double b) { return a < b || isnan(b) || (a == b && signbit(a)) ? a : b; }
LLMC_MIXED_2(fmax)
LLMC_MIXED_2(fmin)

// The overloads that CUDA has and no more: what is ambiguous to nvcc, such as max(0, 1.0f), is ambiguous here too.
#define LLMC_BOUNDS(R, A, B)                                                      \
    LLMC_INLINE R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }             \
    LLMC_INLINE R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
#define LLMC_INTEGER_BOUNDS(T)                     \
    LLMC_BOUNDS(T, T, T)                           \
    LLMC_BOUNDS(unsigned T, unsigned T, unsigned T) \
    LLMC_BOUNDS(unsigned T, T, unsigned T)         \
    LLMC_BOUNDS(unsigned T, unsigned T, T)
#define LLMC_FLOAT_BOUNDS(R, A, B, f)                           \
    LLMC_INLINE R min(A a, B b) { return fmin##f(a, b); }       \
    LLMC_INLINE R max(A a, B b) { return fmax##f(a, b); }
LLMC_INTEGER_BOUNDS(int)
LLMC_INTEGER_BOUNDS(long)
LLMC_INTEGER_BOUNDS(long long)
LLMC_FLOAT_BOUNDS(float, float, float, f)
LLMC_FLOAT_BOUNDS(double, double, double, )
LLMC_FLOAT_BOUNDS(double, float, double, )
LLMC_FLOAT_BOUNDS(double, double, float, )
LLMC_INLINE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
LLMC_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
LLMC_INLINE long long llmin(long long a, long long b) { return min(a, b); }
LLMC_INLINE long long llmax(long long a, long long b) { return max(a, b); }
LLMC_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
LLMC_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
