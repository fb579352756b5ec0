// The intrinsics for float and double arithmetic. The fast approximations (__expf) are the library's functions here; a
// GPU's differ in the last bits. Those with a rounding mode (_rn, _rd, _ru, _rz) round exactly that way.
#pragma once

LLMC_INLINE float __expf(float x) { return expf(x); }
LLMC_INLINE float __exp10f(float x) { return exp10f(x); }
LLMC_INLINE float __logf(float x) { return logf(x); }
LLMC_INLINE float __log2f(float x) { return log2f(x); }
LLMC_INLINE float __log10f(float x) { return log10f(x); }
LLMC_INLINE float __powf(float x, float y) { return exp2f(y * log2f(x)); }
LLMC_INLINE float __sinf(float x) { return sinf(x); }
LLMC_INLINE float __cosf(float x) { return cosf(x); }
LLMC_INLINE float __tanf(float x) { return tanf(x); }
LLMC_INLINE float __tanhf(float x) { return tanhf(x); }
LLMC_INLINE void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }
LLMC_INLINE float __fdividef(float x, float y) {  // of a divisor from 2^126 on, the reciprocal is flushed to zero
    return fabsf(y) > 0x1p126f && isfinite(y) ? x * copysignf(0, y) : x / y;
}
LLMC_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }  // a NaN becomes 0
LLMC_INLINE float __frsqrt_rn(float x) { return (float)(1 / sqrt((double)x)); }

// A result is given by `near`, the nearest double, and by the sign of what remains beyond it: of one that is too large
// for a double, all that infinity is too much. `direction`: -1 down, 1 up, 0 to nearest, 2 towards zero.
template <class F>
LLMC_INLINE F llmc_round(double near, double rest, int direction) {
    F rounded = (F)near;
    double error = near - (double)rounded;
    if (error == 0 || isinf(near)) error = rest;
    if (direction == 2) direction = signbit(near) ? 1 : -1;
    if (direction > 0 && error > 0) return nextafter(rounded, (F)INFINITY);
    if (direction < 0 && error < 0) return nextafter(rounded, (F)-INFINITY);
    return rounded;
}
LLMC_INLINE double llmc_rest_of_sum(double a, double b, double sum) {
    double part = sum - a;
    return isfinite(sum) ? (a - (sum - part)) + (b - part) : isfinite(a) && isfinite(b) ? -sum : 0;
}
template <class F>
LLMC_INLINE F llmc_add(double a, double b, int direction) {
    if (direction < 0 && a + b == 0) return signbit(a) || signbit(b) ? (F)-0.0 : (F)0;
    return llmc_round<F>(a + b, llmc_rest_of_sum(a, b, a + b), direction);
}
template <class F>
LLMC_INLINE F llmc_mul(double a, double b, int direction) {
    double beyond = isfinite(a) && isfinite(b) ? -(a * b) : 0;
    return llmc_round<F>(a * b, isfinite(a * b) ? fma(a, b, -(a * b)) : beyond, direction);
}
template <class F>
LLMC_INLINE F llmc_div(double a, double b, int direction) {
    double q = a / b, rest = isfinite(q) && isfinite(b) ? fma(-q, b, a) : 0;
    if (isinf(q) && isfinite(a) && b != 0) return llmc_round<F>(q, -q, direction);
    return llmc_round<F>(q, b < 0 ? -rest : rest, direction);
}
template <class F>
LLMC_INLINE F llmc_sqrt(double a, int direction) {
    double root = sqrt(a);
    return llmc_round<F>(root, isfinite(root) ? fma(-root, root, a) : 0, direction);
}
template <class F>
LLMC_INLINE F llmc_fma(double a, double b, double c, int direction) {  // a * b + c as near + rest
    double p = a * b, near = sizeof(F) == 4 ? p + c : fma(a, b, c);
    if (isinf(near) && isfinite(a) && isfinite(b) && isfinite(c)) return llmc_round<F>(near, -near, direction);
    if (!isfinite(p) || !isfinite(near)) return (F)near;
    double rest = (llmc_rest_of_sum(p, c, p + c) + ((p + c) - near)) + fma(a, b, -p);
    if (direction < 0 && near == 0 && rest == 0) return signbit(p) || signbit(c) ? (F)-0.0 : (F)0;
    return llmc_round<F>(near, rest, direction);
}

#define LLMC_ROUNDINGS(mode, direction)                                                                           \
    LLMC_INLINE float __fadd_##mode(float a, float b) { return llmc_add<float>(a, b, direction); }                \
    LLMC_INLINE float __fsub_##mode(float a, float b) { return llmc_add<float>(a, -b, direction); }               \
    LLMC_INLINE float __fmul_##mode(float a, float b) { return llmc_mul<float>(a, b, direction); }                \
    LLMC_INLINE float __fdiv_##mode(float a, float b) { return llmc_div<float>(a, b, direction); }                \
    LLMC_INLINE float __frcp_##mode(float a) { return llmc_div<float>(1, a, direction); }                         \
    LLMC_INLINE float __fsqrt_##mode(float a) { return llmc_sqrt<float>(a, direction); }                          \
    LLMC_INLINE float __fmaf_##mode(float a, float b, float c) { return llmc_fma<float>(a, b, c, direction); }    \
    LLMC_INLINE float __fmaf_ieee_##mode(float a, float b, float c) { return __fmaf_##mode(a, b, c); }            \
    LLMC_INLINE double __dadd_##mode(double a, double b) { return llmc_add<double>(a, b, direction); }            \
    LLMC_INLINE double __dsub_##mode(double a, double b) { return llmc_add<double>(a, -b, direction); }           \
    LLMC_INLINE double __dmul_##mode(double a, double b) { return llmc_mul<double>(a, b, direction); }            \
    LLMC_INLINE double __ddiv_##mode(double a, double b) { return llmc_div<double>(a, b, direction); }            \
    LLMC_INLINE double __drcp_##mode(double a) { return llmc_div<double>(1, a, direction); }                      \
    LLMC_INLINE double __dsqrt_##mode(double a) { return llmc_sqrt<double>(a, direction); }                       \
    LLMC_INLINE double __fma_##mode(double a, double b, double c) { return llmc_fma<double>(a, b, c, direction); }
LLMC_ROUNDINGS(rd, -1)
LLMC_ROUNDINGS(ru, 1)
LLMC_ROUNDINGS(rz, 2)

// The machine rounds to nearest by itself.
LLMC_INLINE float __fadd_rn(float a, float b) { return a + b; }
LLMC_INLINE float __fsub_rn(float a, float b) { return a - b; }
LLMC_INLINE float __fmul_rn(float a, float b) { return a * b; }
LLMC_INLINE float __fdiv_rn(float a, float b) { return a / b; }
LLMC_INLINE float __frcp_rn(float a) { return 1.0f / a; }
LLMC_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
LLMC_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
LLMC_INLINE float __fmaf_ieee_rn(float a, float b, float c) { return fmaf(a, b, c); }
LLMC_INLINE double __dadd_rn(double a, double b) { return a + b; }
LLMC_INLINE double __dsub_rn(double a, double b) { return a - b; }
LLMC_INLINE double __dmul_rn(double a, double b) { return a * b; }
LLMC_INLINE double __ddiv_rn(double a, double b) { return a / b; }
LLMC_INLINE double __drcp_rn(double a) { return 1.0 / a; }
LLMC_INLINE double __dsqrt_rn(double a) { return sqrt(a); }
LLMC_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
