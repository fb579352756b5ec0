// PTX's types under their own names, and registers. A register holds bits; an instruction says what they mean:
//     add.f32 %0, %1, %2;     becomes     put(add<f32>(as<f32>(r1), as<f32>(r2)), r0);
#pragma once

#include "std/cuda_bf16.h"
#include "std/cuda_fp16.h"
#include "std/cuda_fp8.h"

namespace llmc_ptx {
typedef bool pred;
typedef unsigned char b8, u8;
typedef unsigned short b16, u16;
typedef unsigned b32, u32;
typedef unsigned long long b64, u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef float f32;
typedef double f64;
typedef __half f16;
typedef __half2 f16x2;
typedef __nv_bfloat16 bf16;
typedef __nv_bfloat162 bf16x2;
struct tf32 {};  // in a b32 register: a float whose last 13 bits do not count
struct e4m3 { static constexpr auto kind = __NV_E4M3; };
struct e5m2 { static constexpr auto kind = __NV_E5M2; };

template <class T, int n>
struct Vector {  // {a, b, c, d}
    T x[n];
};
struct Sink {};  // _, for a result that nobody wants

// ------------------------------------------------------------------------------------- registers and the C++ around
// A register has 16, 32 or 64 bits: unsigned short, unsigned, unsigned long long; or float, double; or bool for .pred.
constexpr bool is_number_register(float) { return true; }
constexpr bool is_number_register(double) { return true; }
template <class T> constexpr bool is_number_register(T) { return false; }

template <class R, class T>
LLMC_INLINE R in(T value) {  // an operand of the asm statement, put into its register
    static_assert(sizeof(T) == sizeof(R), "an asm operand has the size of its register: \"h\" 2 bytes, \"r\" 4, \"l\" 8");
    static_assert(is_number_register(R()) || (!std::is_same_v<T, float> && !std::is_same_v<T, double>),
                  "a float goes into a register \"f\", a double into \"d\"; for its bits use __float_as_uint");
    static_assert(!is_number_register(R()) || std::is_same_v<T, R>, "only a float goes into \"f\", only a double into \"d\"");
    return llmc_bits<R>(value);
}
template <class T, class R>
LLMC_INLINE void out(T& place, R reg) {  // and taken out of it when the statement is over
    static_assert(sizeof(T) == sizeof(R), "an asm operand has the size of its register: \"h\" 2 bytes, \"r\" 4, \"l\" 8");
    place = llmc_bits<std::remove_cv_t<T>>(reg);
}
template <class R>
LLMC_INLINE R nothing() {  // a register that nothing has been written to
    R reg;
    __builtin_memset(&reg, 0xff, sizeof reg);
    return reg;
}
template <> LLMC_METHOD bool nothing<bool>() { return true; }

// ------------------------------------------------------------------------------------- registers and instructions
template <class R>
LLMC_INLINE u64 widen(R reg) {
    u64 bits = 0;
    __builtin_memcpy(&bits, &reg, sizeof reg);
    return bits;
}
template <class T, class R>
LLMC_INLINE T as(R reg) {  // what an instruction of type T sees of a register: the low bits
    static_assert(sizeof(T) <= sizeof(R), "the register is too small for the instruction");
    u64 bits = widen(reg);
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> LLMC_INLINE T constant(u64 value) { return as<T>(value); }

template <class T, class R>
LLMC_INLINE void put_one(T value, R& reg) {  // a wider register is filled up with zeros, or with the sign
    static_assert(sizeof(T) <= sizeof(R), "the register is too small for the result");
    u64 bits = widen(value);
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) bits = (u64)(s64)value;
    __builtin_memcpy(&reg, &bits, sizeof reg);
}
template <class T> LLMC_INLINE void put_one(T, Sink&) {}
template <class T, class R> LLMC_INLINE void put(T value, R& reg) { put_one(value, reg); }
template <class T, class R> LLMC_INLINE void put(const Vector<T, 1>& value, R& reg) { put_one(value.x[0], reg); }
template <class T, int n, class... R>
LLMC_INLINE void put(const Vector<T, n>& values, R&... registers) {
    int k = 0;
    (put_one(values.x[k++], registers), ...);
}
template <class T>
struct WithPredicate {  // d|p
    T value;
    bool predicate;
};
template <class T, class R, class P>
LLMC_INLINE void put(WithPredicate<T> both, R& reg, P& predicate) {
    put_one(both.value, reg);
    put_one(both.predicate, predicate);
}
template <class T, class R>
LLMC_INLINE void put(WithPredicate<T> both, R& reg) { put_one(both.value, reg); }
}  // namespace llmc_ptx
