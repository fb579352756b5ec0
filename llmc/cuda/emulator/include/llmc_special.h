// CUDA's functions that the C library lacks. F is float or double, f the suffix of the float version; everything is
// computed in double, so that the float versions are rounded once.
#pragma once

LLMC_INLINE double llmc_sinpi(double x) {  // exact at whole and half numbers, like CUDA's
    double part = x - 2 * rint(0.5 * x);   // in [-1, 1]
    return part == 1 || part == -1 || part == 0 ? copysign(0.0, x) : sin(M_PI * part);
}
LLMC_INLINE double llmc_cospi(double x) {
    double part = fabs(x - 2 * rint(0.5 * x));
    return part == 0.5 ? 0.0 : cos(M_PI * part);
}

// The inverse of erfc on (0, 2): Newton's steps (third order) from a rough start.
static inline double llmc_erfcinv(double y) {
    if (!(y >= 0 && y <= 2)) return NAN;
    if (y == 0 || y == 2) return y == 0 ? INFINITY : -INFINITY;
    double small = y < 1 ? y : 2 - y, t = sqrt(-2 * log(0.5 * small));
    double x = -0.70711 * ((2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)) - t);
    for (int step = 0; step < 4; step++) {
        double error = erfc(x) - small;
        x += error / (M_2_SQRTPI * exp(-x * x) - x * error);
    }
    return y < 1 ? x : -x;
}
static inline double llmc_erfinv(double x) {  // near 0 erfc(x) is almost 1, so erf itself is inverted
    if (fabs(x) > 0.5) return x > 0 ? llmc_erfcinv(1 - x) : -llmc_erfcinv(1 + x);
    double y = x / M_2_SQRTPI;
    for (int step = 0; step < 5; step++) {
        double error = erf(y) - x;
        y -= error / (M_2_SQRTPI * exp(-y * y) + y * error);
    }
    return y;
}
static inline double llmc_erfcx(double x) {  // exp(x^2) erfc(x); by its continued fraction where x is large
    if (x < 10) return exp(x * x) * erfc(x);
    double fraction = x;
    for (int k = 40; k > 0; k--) fraction = x + 0.5 * k / fraction;
    return 0.5 * M_2_SQRTPI / fraction;
}
static inline double llmc_bessel_i(int order, double x) {  // the power series: all its terms have one sign
    double quarter = 0.25 * x * x, term = order ? 0.5 * x : 1, sum = term;
    for (int k = 1; k < 1000 && fabs(term) > 1e-17 * fabs(sum); k++) sum += term *= quarter / (k * (double)(k + order));
    return sum;
}
template <class F>
LLMC_INLINE double llmc_norm(int n, const F* x) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

extern "C" double j0(double) noexcept;
extern "C" double j1(double) noexcept;
extern "C" double jn(int, double) noexcept;
extern "C" double y0(double) noexcept;
extern "C" double y1(double) noexcept;
extern "C" double yn(int, double) noexcept;
LLMC_INLINE float j0f(float x) { return (float)j0((double)x); }
LLMC_INLINE float j1f(float x) { return (float)j1((double)x); }
LLMC_INLINE float jnf(int n, float x) { return (float)jn(n, (double)x); }
LLMC_INLINE float y0f(float x) { return (float)y0((double)x); }
LLMC_INLINE float y1f(float x) { return (float)y1((double)x); }
LLMC_INLINE float ynf(int n, float x) { return (float)yn(n, (double)x); }

#define LLMC_SPECIAL_1(name, expression)                                     \
    LLMC_INLINE double name(double x) { return expression; }                 \
    LLMC_INLINE float name##f(float value) {                                 \
        double x = value;                                                    \
        return (float)(expression);                                          \
    }                                                                        \
    LLMC_INLINE float name(float x) { return name##f(x); }
LLMC_SPECIAL_1(rcbrt, 1 / cbrt(x))
LLMC_SPECIAL_1(exp10, pow(10.0, x))
LLMC_SPECIAL_1(sinpi, llmc_sinpi(x))
LLMC_SPECIAL_1(cospi, llmc_cospi(x))
LLMC_SPECIAL_1(tanpi, llmc_sinpi(x) / llmc_cospi(x))
LLMC_SPECIAL_1(normcdf, 0.5 * erfc(-M_SQRT1_2 * x))
LLMC_SPECIAL_1(normcdfinv, -M_SQRT2 * llmc_erfcinv(2 * x))
LLMC_SPECIAL_1(erfinv, llmc_erfinv(x))
LLMC_SPECIAL_1(erfcinv, llmc_erfcinv(x))
LLMC_SPECIAL_1(erfcx, llmc_erfcx(x))
LLMC_SPECIAL_1(cyl_bessel_i0, llmc_bessel_i(0, x))
LLMC_SPECIAL_1(cyl_bessel_i1, llmc_bessel_i(1, x))

LLMC_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
LLMC_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
LLMC_INLINE float rsqrt(float x) { return rsqrtf(x); }
LLMC_INLINE float fdividef(float x, float y) { return x / y; }

#define LLMC_SPECIAL_OTHERS(F, f)                                                                       \
    LLMC_INLINE void sincos##f(F x, F* s, F* c) { *s = sin##f(x), *c = cos##f(x); }                      \
    LLMC_INLINE void sincospi##f(F x, F* s, F* c) { *s = sinpi##f(x), *c = cospi##f(x); }                \
    LLMC_INLINE F rhypot##f(F x, F y) { return 1 / hypot##f(x, y); }                                     \
    LLMC_INLINE F norm3d##f(F x, F y, F z) { F v[] = {x, y, z}; return (F)llmc_norm(3, v); }             \
    LLMC_INLINE F norm4d##f(F x, F y, F z, F w) { F v[] = {x, y, z, w}; return (F)llmc_norm(4, v); }     \
    LLMC_INLINE F rnorm3d##f(F x, F y, F z) { return 1 / norm3d##f(x, y, z); }                           \
    LLMC_INLINE F rnorm4d##f(F x, F y, F z, F w) { return 1 / norm4d##f(x, y, z, w); }                   \
    LLMC_INLINE F norm##f(int n, const F* x) { return (F)llmc_norm(n, x); }                              \
    LLMC_INLINE F rnorm##f(int n, const F* x) { return 1 / norm##f(n, x); }
LLMC_SPECIAL_OTHERS(float, f)
LLMC_SPECIAL_OTHERS(double, )
LLMC_INLINE void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
