// One 16-bit number type and its pair. Included twice: for __half by std/cuda_fp16.h, for __nv_bfloat16 by
// std/cuda_bf16.h, which define
//   LLMC_T, LLMC_T2       the names of the type and of its pair
//   LLMC_TO(x)            the bits of the number nearest to a float; LLMC_FROM(bits) is the float
//   LLMC_ROUND(x, way)    the bits of a double rounded in a direction (see llmc_narrow)
//   LLMC_RAW, LLMC_LETTER the plain structure that CUDA has for it, and its letter in a kernel's signature
// Arithmetic is done in a wider type and then rounded, which for + - * / and sqrt is the same as rounding once.

struct LLMC_RAW { unsigned short x; };

struct __attribute__((aligned(2))) LLMC_T {
    unsigned short bits;

    LLMC_T() = default;
    LLMC_METHOD LLMC_T(float x) : bits(LLMC_TO(x)) {}
    LLMC_METHOD LLMC_T(double x) : bits(LLMC_ROUND(x, 0)) {}
    LLMC_METHOD LLMC_T(LLMC_RAW raw) : bits(raw.x) {}
    LLMC_METHOD operator LLMC_RAW() const { return {bits}; }
    LLMC_METHOD operator float() const { return LLMC_FROM(bits); }
    LLMC_METHOD operator bool() const { return bits & 0x7fff; }
#define LLMC_INTEGER_CONVERSIONS(I)                                          \
    LLMC_METHOD LLMC_T(I x) : bits(LLMC_ROUND(llmc_odd_double(x), 0)) {}      \
    LLMC_METHOD operator I() const { return llmc_to_integer<I>(truncf(LLMC_FROM(bits))); }
    LLMC_INTEGER_CONVERSIONS(short)
    LLMC_INTEGER_CONVERSIONS(unsigned short)
    LLMC_INTEGER_CONVERSIONS(int)
    LLMC_INTEGER_CONVERSIONS(unsigned)
    LLMC_INTEGER_CONVERSIONS(long)
    LLMC_INTEGER_CONVERSIONS(unsigned long)
    LLMC_INTEGER_CONVERSIONS(long long)
    LLMC_INTEGER_CONVERSIONS(unsigned long long)
#undef LLMC_INTEGER_CONVERSIONS
};

struct __attribute__((aligned(4))) LLMC_T2 {
    LLMC_T x, y;
    LLMC_T2() = default;
    LLMC_METHOD LLMC_T2(LLMC_T x, LLMC_T y) : x(x), y(y) {}
};
LLMC_ELEMENT(LLMC_T, LLMC_LETTER, 2, 1)
LLMC_ELEMENT(LLMC_T2, LLMC_LETTER, 2, 2)

// ----------------------------------------------------------------------------------- arithmetic: one number and a pair
// LLMC_BINARY(__hadd, __hadd2, x + y): the expression is in float.
#define LLMC_BINARY(one, two, expression)                              \
    LLMC_INLINE LLMC_T one(LLMC_T a, LLMC_T b) {                       \
        float x = a, y = b;                                            \
        return expression;                                             \
    }                                                                  \
    LLMC_INLINE LLMC_T2 two(LLMC_T2 a, LLMC_T2 b) { return {one(a.x, b.x), one(a.y, b.y)}; }
#define LLMC_UNARY(one, two, expression)                               \
    LLMC_INLINE LLMC_T one(LLMC_T a) {                                 \
        float x = a;                                                   \
        return expression;                                             \
    }                                                                  \
    LLMC_INLINE LLMC_T2 two(LLMC_T2 a) { return {one(a.x), one(a.y)}; }
#define LLMC_TERNARY(one, two, expression)                             \
    LLMC_INLINE LLMC_T one(LLMC_T a, LLMC_T b, LLMC_T c) {             \
        double sum = llmc_fma_to_odd((float)a, (float)b, (float)c);    \
        return expression;                                             \
    }                                                                  \
    LLMC_INLINE LLMC_T2 two(LLMC_T2 a, LLMC_T2 b, LLMC_T2 c) { return {one(a.x, b.x, c.x), one(a.y, b.y, c.y)}; }

LLMC_BINARY(__hadd, __hadd2, x + y)
LLMC_BINARY(__hsub, __hsub2, x - y)
LLMC_BINARY(__hmul, __hmul2, (double)x * (double)y)
LLMC_BINARY(__hdiv, __h2div, (double)x / (double)y)
LLMC_BINARY(__hadd_rn, __hadd2_rn, x + y)
LLMC_BINARY(__hsub_rn, __hsub2_rn, x - y)
LLMC_BINARY(__hmul_rn, __hmul2_rn, (double)x * (double)y)
LLMC_BINARY(__hadd_sat, __hadd2_sat, __saturatef((LLMC_T)(x + y)))
LLMC_BINARY(__hsub_sat, __hsub2_sat, __saturatef((LLMC_T)(x - y)))
LLMC_BINARY(__hmul_sat, __hmul2_sat, __saturatef((LLMC_T)((double)x * (double)y)))
LLMC_BINARY(__hmax, __hmax2, fmaxf(x, y))
LLMC_BINARY(__hmin, __hmin2, fminf(x, y))
LLMC_BINARY(__hmax_nan, __hmax2_nan, isnan(x) || isnan(y) ? NAN : fmaxf(x, y))
LLMC_BINARY(__hmin_nan, __hmin2_nan, isnan(x) || isnan(y) ? NAN : fminf(x, y))
LLMC_TERNARY(__hfma, __hfma2, sum)
LLMC_TERNARY(__hfma_sat, __hfma2_sat, __saturatef((LLMC_T)sum))
LLMC_TERNARY(__hfma_relu, __hfma2_relu, sum < 0 ? 0.0 : sum)
LLMC_UNARY(__hneg, __hneg2, -x)
LLMC_UNARY(__habs, __habs2, fabsf(x))
LLMC_UNARY(hceil, h2ceil, ceilf(x))
LLMC_UNARY(hcos, h2cos, cosf(x))
LLMC_UNARY(hexp, h2exp, expf(x))
LLMC_UNARY(hexp10, h2exp10, exp10f(x))
LLMC_UNARY(hexp2, h2exp2, exp2f(x))
LLMC_UNARY(hfloor, h2floor, floorf(x))
LLMC_UNARY(hlog, h2log, logf(x))
LLMC_UNARY(hlog10, h2log10, log10f(x))
LLMC_UNARY(hlog2, h2log2, log2f(x))
LLMC_UNARY(hrcp, h2rcp, 1.0f / x)
LLMC_UNARY(hrint, h2rint, rintf(x))
LLMC_UNARY(hrsqrt, h2rsqrt, 1.0 / sqrt((double)x))
LLMC_UNARY(hsin, h2sin, sinf(x))
LLMC_UNARY(hsqrt, h2sqrt, sqrtf(x))
LLMC_UNARY(htanh, h2tanh, tanhf(x))
LLMC_UNARY(htanh_approx, h2tanh_approx, tanhf(x))
LLMC_UNARY(htrunc, h2trunc, truncf(x))
LLMC_INLINE LLMC_T2 __hcmadd(LLMC_T2 a, LLMC_T2 b, LLMC_T2 c) {  // complex a * b + c
    return {__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}
#undef LLMC_BINARY
#undef LLMC_UNARY
#undef LLMC_TERNARY

#define LLMC_OPERATORS(T, add, subtract, multiply, divide, negate)             \
    LLMC_INLINE T operator+(const T& a, const T& b) { return add(a, b); }      \
    LLMC_INLINE T operator-(const T& a, const T& b) { return subtract(a, b); } \
    LLMC_INLINE T operator*(const T& a, const T& b) { return multiply(a, b); } \
    LLMC_INLINE T operator/(const T& a, const T& b) { return divide(a, b); }   \
    LLMC_INLINE T operator-(const T& a) { return negate(a); }                  \
    LLMC_INLINE T operator+(const T& a) { return a; }                          \
    LLMC_INLINE T& operator+=(T& a, const T& b) { return a = a + b; }          \
    LLMC_INLINE T& operator-=(T& a, const T& b) { return a = a - b; }          \
    LLMC_INLINE T& operator*=(T& a, const T& b) { return a = a * b; }          \
    LLMC_INLINE T& operator/=(T& a, const T& b) { return a = a / b; }
LLMC_OPERATORS(LLMC_T, __hadd, __hsub, __hmul, __hdiv, __hneg)
LLMC_OPERATORS(LLMC_T2, __hadd2, __hsub2, __hmul2, __h2div, __hneg2)
#undef LLMC_OPERATORS
LLMC_INLINE LLMC_T& operator++(LLMC_T& a) { return a += LLMC_T(1.0f); }
LLMC_INLINE LLMC_T& operator--(LLMC_T& a) { return a -= LLMC_T(1.0f); }
LLMC_INLINE LLMC_T operator++(LLMC_T& a, int) { LLMC_T old = a; ++a; return old; }
LLMC_INLINE LLMC_T operator--(LLMC_T& a, int) { LLMC_T old = a; --a; return old; }

// ------------------------------------------------------------------------------------------------------- comparison
// __heq compares one number; u: also true if a number is a NaN; 2: 1.0 or 0.0 for each of a pair; b2: for both;
// mask: all bits or none.
#define LLMC_COMPARISON(name, operation)                                                                     \
    LLMC_COMPARISON_OF(__h##name, __h##name##2, __hb##name##2, __h##name##2_mask, operation,                 \
                       !isnan(x) && !isnan(y) &&)                                                            \
    LLMC_COMPARISON_OF(__h##name##u, __h##name##u2, __hb##name##u2, __h##name##u2_mask, operation,           \
                       isnan(x) || isnan(y) ||)
#define LLMC_COMPARISON_OF(one, two, both, mask, operation, on_nan)                                          \
    LLMC_INLINE bool one(LLMC_T a, LLMC_T b) {                                                               \
        float x = a, y = b;                                                                                  \
        return on_nan(x operation y);                                                                        \
    }                                                                                                        \
    LLMC_INLINE LLMC_T2 two(LLMC_T2 a, LLMC_T2 b) {                                                          \
        return {LLMC_T(one(a.x, b.x) ? 1.0f : 0.0f), LLMC_T(one(a.y, b.y) ? 1.0f : 0.0f)};                   \
    }                                                                                                        \
    LLMC_INLINE bool both(LLMC_T2 a, LLMC_T2 b) { return one(a.x, b.x) && one(a.y, b.y); }                   \
    LLMC_INLINE unsigned mask(LLMC_T2 a, LLMC_T2 b) {                                                        \
        return (one(a.x, b.x) ? 0xffffu : 0) | (one(a.y, b.y) ? 0xffff0000u : 0);                            \
    }
LLMC_COMPARISON(eq, ==)
LLMC_COMPARISON(ne, !=)
LLMC_COMPARISON(le, <=)
LLMC_COMPARISON(ge, >=)
LLMC_COMPARISON(lt, <)
LLMC_COMPARISON(gt, >)
#undef LLMC_COMPARISON
#undef LLMC_COMPARISON_OF
#define LLMC_COMPARE(T, prefix, suffix)                                                               \
    LLMC_INLINE bool operator==(const T& a, const T& b) { return prefix##eq##suffix(a, b); }          \
    LLMC_INLINE bool operator<(const T& a, const T& b) { return prefix##lt##suffix(a, b); }           \
    LLMC_INLINE bool operator>(const T& a, const T& b) { return prefix##gt##suffix(a, b); }           \
    LLMC_INLINE bool operator<=(const T& a, const T& b) { return prefix##le##suffix(a, b); }          \
    LLMC_INLINE bool operator>=(const T& a, const T& b) { return prefix##ge##suffix(a, b); }
LLMC_COMPARE(LLMC_T, __h, )
LLMC_COMPARE(LLMC_T2, __hb, 2)
#undef LLMC_COMPARE
LLMC_INLINE bool operator!=(const LLMC_T& a, const LLMC_T& b) { return __hneu(a, b); }
LLMC_INLINE bool operator!=(const LLMC_T2& a, const LLMC_T2& b) { return __hbneu2(a, b); }
LLMC_INLINE bool __hisnan(LLMC_T a) { return isnan((float)a); }
LLMC_INLINE int __hisinf(LLMC_T a) { return isinf((float)a) ? (signbit((float)a) ? -1 : 1) : 0; }
LLMC_INLINE LLMC_T2 __hisnan2(LLMC_T2 a) { return __hneu2(a, a); }
