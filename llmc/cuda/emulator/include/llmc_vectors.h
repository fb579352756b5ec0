// The vector types char1 ... double4, as large and as aligned as on a GPU, and their make_ functions.
// make_ functions are always inlined, so that the compiler reports the store into the kernel's memory.
#pragma once

#define LLMC_VECTOR_1(T, name, align1)                           \
    struct __attribute__((aligned(align1))) name##1 { T x; };    \
    LLMC_INLINE name##1 make_##name##1(T x) { return {x}; }      \
    LLMC_VECTOR_ELEMENT(T, name##1, 1)
#define LLMC_VECTOR_2(T, name, align2)                           \
    struct __attribute__((aligned(align2))) name##2 { T x, y; }; \
    LLMC_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; } \
    LLMC_VECTOR_ELEMENT(T, name##2, 2)
#define LLMC_VECTOR_3(T, name, align1)                           \
    struct __attribute__((aligned(align1))) name##3 { T x, y, z; }; \
    LLMC_MAKE_3(T, name)                                         \
    LLMC_VECTOR_ELEMENT(T, name##3, 3)
#define LLMC_MAKE_3(T, name) \
    LLMC_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }
#define LLMC_VECTOR_4(T, name, align4)                              \
    struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; }; \
    LLMC_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; } \
    LLMC_VECTOR_ELEMENT(T, name##4, 4)

// What the signature of a kernel says of a pointer to such a type: see llmc_core.h.
#define LLMC_VECTOR_ELEMENT(T, vector, n) LLMC_ELEMENT(vector, LlmcElement<T>::letter, sizeof(T), n)

#define LLMC_VECTORS(T, name, align1, align2, align4) \
    LLMC_VECTOR_1(T, name, align1)                    \
    LLMC_VECTOR_2(T, name, align2)                    \
    LLMC_VECTOR_3(T, name, align1)                    \
    LLMC_VECTOR_4(T, name, align4)

LLMC_VECTORS(signed char, char, 1, 2, 4)
LLMC_VECTORS(unsigned char, uchar, 1, 2, 4)
LLMC_VECTORS(short, short, 2, 4, 8)
LLMC_VECTORS(unsigned short, ushort, 2, 4, 8)
LLMC_VECTORS(int, int, 4, 8, 16)
LLMC_VECTOR_1(unsigned, uint, 4)
LLMC_VECTOR_2(unsigned, uint, 8)
LLMC_MAKE_3(unsigned, uint)
LLMC_VECTOR_ELEMENT(unsigned, uint3, 3)
LLMC_VECTOR_4(unsigned, uint, 16)
LLMC_VECTORS(long, long, 8, 16, 16)
LLMC_VECTORS(unsigned long, ulong, 8, 16, 16)
LLMC_VECTORS(long long, longlong, 8, 16, 16)
LLMC_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
LLMC_VECTORS(float, float, 4, 8, 16)
LLMC_VECTORS(double, double, 8, 16, 16)
