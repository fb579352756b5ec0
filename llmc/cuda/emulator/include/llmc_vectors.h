// The vector types char1 ... double4, with the size and alignment they have on a GPU, and their make_ functions. These
// are always inlined, so that the compiler reports the store into the kernel's memory.
#pragma once

// A float4 stays one access of 16 bytes, however it is copied; a vector of 32 bytes is two of 16, as on a GPU.
template <int bytes> struct LlmcWhole;
template <> struct LlmcWhole<2> { typedef short type __attribute__((may_alias)); };
template <> struct LlmcWhole<4> { typedef int type __attribute__((may_alias)); };
template <> struct LlmcWhole<8> { typedef long long type __attribute__((may_alias)); };
template <> struct LlmcWhole<16> { typedef float type __attribute__((vector_size(16), may_alias)); };
template <class V>
LLMC_INLINE void llmc_copy_whole(V* to, const V* from) {
    constexpr int step = sizeof(V) < 16 ? sizeof(V) : 16;
    using Whole = typename LlmcWhole<step>::type;
    for (unsigned k = 0; k < sizeof(V) / step; k++) ((Whole*)to)[k] = ((const Whole*)from)[k];
}
#ifdef __clang__  // copies a structure member by member, so every copy is spelled out
#define LLMC_COPIES(vector)                                                                       \
    vector() = default;                                                                           \
    __attribute__((always_inline)) vector(const vector& other) { llmc_copy_whole(this, &other); } \
    __attribute__((always_inline)) vector& operator=(const vector& other) {                       \
        llmc_copy_whole(this, &other);                                                            \
        return *this;                                                                             \
    }
#define LLMC_COPIES_2(T, vector) \
    LLMC_COPIES(vector) __attribute__((always_inline)) constexpr vector(T x, T y = {}) : x(x), y(y) {}
#define LLMC_COPIES_4(T, vector) \
    LLMC_COPIES(vector)          \
    __attribute__((always_inline)) constexpr vector(T x, T y = {}, T z = {}, T w = {}) : x(x), y(y), z(z), w(w) {}
#else  // GCC copies it whole, but stores `*p = {x, y}` and `*p = float2{x, y}` member by member
// A template is no copy assignment, so the vector stays trivially copyable and an aggregate, as it is in CUDA.
#define LLMC_COPIES(vector)                                              \
    vector& operator=(const vector&) = default;                          \
    template <int = 0>                                                   \
    __attribute__((always_inline)) vector& operator=(vector&& made) {    \
        llmc_copy_whole(this, &made);                                    \
        return *this;                                                    \
    }
#define LLMC_COPIES_2(T, vector) LLMC_COPIES(vector)
#define LLMC_COPIES_4(T, vector) LLMC_COPIES(vector)
#endif

#define LLMC_VECTOR_1(T, name, align1)                           \
    struct __attribute__((aligned(align1))) name##1 { T x; };    \
    LLMC_INLINE name##1 make_##name##1(T x) { return {x}; }      \
    LLMC_VECTOR_ELEMENT(T, name##1, 1)
#define LLMC_VECTOR_2(T, name, align2)                           \
    struct __attribute__((aligned(align2))) name##2 { T x, y; LLMC_COPIES_2(T, name##2) }; \
    LLMC_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; } \
    LLMC_VECTOR_ELEMENT(T, name##2, 2)
#define LLMC_VECTOR_3(T, name, align1)                           \
    struct __attribute__((aligned(align1))) name##3 { T x, y, z; }; \
    LLMC_MAKE_3(T, name)                                         \
    LLMC_VECTOR_ELEMENT(T, name##3, 3)
#define LLMC_MAKE_3(T, name) \
    LLMC_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }
#define LLMC_VECTOR_4(T, name, align4)                              \
    struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; LLMC_COPIES_4(T, name##4) }; \
    LLMC_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; } \
    LLMC_VECTOR_ELEMENT(T, name##4, 4)

// What a kernel's signature says about a pointer to such a type: see llmc_core.h.
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
