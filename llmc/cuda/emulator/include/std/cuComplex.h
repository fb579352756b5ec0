// CUDA's complex numbers for C: a float2 or double2, and functions.
#pragma once

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
#define LLMC_COMPLEX(Z, F, f)                                                                                         \
    LLMC_INLINE Z make_##Z(F x, F y) { return {x, y}; }                                                               \
    LLMC_INLINE F cuCreal##f(Z z) { return z.x; }                                                                     \
    LLMC_INLINE F cuCimag##f(Z z) { return z.y; }                                                                     \
    LLMC_INLINE F cuCabs##f(Z z) { return hypot(z.x, z.y); }                                                          \
    LLMC_INLINE Z cuConj##f(Z z) { return {z.x, -z.y}; }                                                              \
    LLMC_INLINE Z cuCadd##f(Z a, Z b) { return {a.x + b.x, a.y + b.y}; }                                              \
    LLMC_INLINE Z cuCsub##f(Z a, Z b) { return {a.x - b.x, a.y - b.y}; }                                              \
    LLMC_INLINE Z cuCmul##f(Z a, Z b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }                      \
    LLMC_INLINE Z cuCdiv##f(Z a, Z b) { /* scaled by |b.x| + |b.y|, against overflow */                              \
        F s = 1 / (fabs(b.x) + fabs(b.y)), ax = a.x * s, ay = a.y * s, bx = b.x * s, by = b.y * s;                    \
        F r = 1 / (bx * bx + by * by);                                                                                \
        return {(ax * bx + ay * by) * r, (ay * bx - ax * by) * r};                                                    \
    }                                                                                                                 \
    LLMC_INLINE Z cuCfma##f(Z a, Z b, Z c) { return cuCadd##f(cuCmul##f(a, b), c); }
LLMC_COMPLEX(cuFloatComplex, float, f)
LLMC_COMPLEX(cuDoubleComplex, double, )
#undef LLMC_COMPLEX
LLMC_INLINE cuComplex make_cuComplex(float x, float y) { return {x, y}; }
LLMC_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {z.x, z.y}; }
LLMC_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return {(float)z.x, (float)z.y}; }
