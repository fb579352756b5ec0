// Conversions of a 16-bit number type, its shuffles and its atomic addition. Included twice, after llmc_16bit_type.h
// with the same macros; LLMC_NAME is half or bfloat16, LLMC_NAMED(a, b, c) joins three words: __float2, half, _rn.

#define LLMC_ROUNDED(mode, way)                                                                                \
    LLMC_INLINE LLMC_T LLMC_NAMED(__float2, LLMC_NAME, _##mode)(float x) {                                     \
        return LLMC_RAW{LLMC_ROUND((double)x, way)};                                                           \
    }                                                                                                          \
    LLMC_ROUNDED_INTEGER(int, int, mode, way)                                                                  \
    LLMC_ROUNDED_INTEGER(unsigned, uint, mode, way)                                                            \
    LLMC_ROUNDED_INTEGER(short, short, mode, way)                                                              \
    LLMC_ROUNDED_INTEGER(unsigned short, ushort, mode, way)                                                    \
    LLMC_ROUNDED_INTEGER(long long, ll, mode, way)                                                             \
    LLMC_ROUNDED_INTEGER(unsigned long long, ull, mode, way)
#define LLMC_ROUNDED_INTEGER(I, integer, mode, way)                                                            \
    LLMC_INLINE LLMC_T LLMC_NAMED(__##integer##2, LLMC_NAME, _##mode)(I x) {                                   \
        return LLMC_RAW{LLMC_ROUND(llmc_odd_double(x), way)};                                                  \
    }                                                                                                          \
    LLMC_INLINE I LLMC_NAMED(__, LLMC_NAME, 2##integer##_##mode)(LLMC_T x) {                                   \
        float whole = way == 0 ? rintf(x) : way == 1 ? ceilf(x) : way < 0 ? floorf(x) : truncf(x);             \
        return llmc_to_integer<I>(whole);                                                                      \
    }
LLMC_ROUNDED(rn, 0)
LLMC_ROUNDED(rd, -1)
LLMC_ROUNDED(ru, 1)
LLMC_ROUNDED(rz, 2)
#undef LLMC_ROUNDED
#undef LLMC_ROUNDED_INTEGER
LLMC_INLINE LLMC_T LLMC_NAMED(__float2, LLMC_NAME, )(float x) { return x; }
LLMC_INLINE LLMC_T LLMC_NAMED(__double2, LLMC_NAME, )(double x) { return x; }
LLMC_INLINE float LLMC_NAMED(__, LLMC_NAME, 2float)(LLMC_T x) { return x; }
LLMC_INLINE short LLMC_NAMED(__, LLMC_NAME, _as_short)(LLMC_T x) { return x.bits; }
LLMC_INLINE unsigned short LLMC_NAMED(__, LLMC_NAME, _as_ushort)(LLMC_T x) { return x.bits; }
LLMC_INLINE LLMC_T LLMC_NAMED(__short_as_, LLMC_NAME, )(short x) { return LLMC_RAW{(unsigned short)x}; }
LLMC_INLINE LLMC_T LLMC_NAMED(__ushort_as_, LLMC_NAME, )(unsigned short x) { return LLMC_RAW{x}; }

LLMC_INLINE LLMC_T2 LLMC_NAMED(make_, LLMC_NAME, 2)(LLMC_T x, LLMC_T y) { return {x, y}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__halves2, LLMC_NAME, 2)(LLMC_T x, LLMC_T y) { return {x, y}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__float2, LLMC_NAME, 2_rn)(float x) { return {LLMC_T(x), LLMC_T(x)}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__floats2, LLMC_NAME, 2_rn)(float x, float y) { return {LLMC_T(x), LLMC_T(y)}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__float22, LLMC_NAME, 2_rn)(float2 x) { return {LLMC_T(x.x), LLMC_T(x.y)}; }
LLMC_INLINE float2 LLMC_NAMED(__, LLMC_NAME, 22float2)(LLMC_T2 a) { return {a.x, a.y}; }
LLMC_INLINE LLMC_T LLMC_NAMED(__low2, LLMC_NAME, )(LLMC_T2 a) { return a.x; }
LLMC_INLINE LLMC_T LLMC_NAMED(__high2, LLMC_NAME, )(LLMC_T2 a) { return a.y; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(LLMC_NAMED(__, LLMC_NAME, 2), LLMC_NAME, 2)(LLMC_T a) { return {a, a}; }
LLMC_INLINE float __low2float(LLMC_T2 a) { return a.x; }
LLMC_INLINE float __high2float(LLMC_T2 a) { return a.y; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__low2, LLMC_NAME, 2)(LLMC_T2 a) { return {a.x, a.x}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__high2, LLMC_NAME, 2)(LLMC_T2 a) { return {a.y, a.y}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__lows2, LLMC_NAME, 2)(LLMC_T2 a, LLMC_T2 b) { return {a.x, b.x}; }
LLMC_INLINE LLMC_T2 LLMC_NAMED(__highs2, LLMC_NAME, 2)(LLMC_T2 a, LLMC_T2 b) { return {a.y, b.y}; }
LLMC_INLINE LLMC_T2 __lowhigh2highlow(LLMC_T2 a) { return {a.y, a.x}; }

LLMC_SHUFFLES(LLMC_T)
LLMC_SHUFFLES(LLMC_T2)
LLMC_ATOMIC_UPDATE(LLMC_T, unsigned short, atomicAdd, __hadd(old, value))
LLMC_ATOMIC_UPDATE(LLMC_T2, unsigned, atomicAdd, __hadd2(old, value))
