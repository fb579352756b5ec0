// The little of std:: that kernels use besides traits: limits, swap and move, min and max, array, mathematics.
// cuda::std is the same namespace.
#pragma once

#include "llmc_traits.h"

namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
template <class T>
struct LlmcIntegerLimits {
    static constexpr bool is_specialized = true, is_integer = true, is_signed = T(-1) < T(0), has_infinity = false;
    static constexpr int digits = 8 * sizeof(T) - is_signed;
    static constexpr T max() { return T(~0ull >> (64 - digits)); }
    static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
    static constexpr T lowest() { return min(); }
};
template <class T>
struct LlmcFloatLimits {
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true;
    static constexpr bool is_double = sizeof(T) == 8;
    static constexpr int digits = is_double ? DBL_MANT_DIG : FLT_MANT_DIG;
    static constexpr T max() { return is_double ? (T)DBL_MAX : (T)FLT_MAX; }
    static constexpr T min() { return is_double ? (T)DBL_MIN : (T)FLT_MIN; }
    static constexpr T lowest() { return -max(); }
    static constexpr T epsilon() { return is_double ? (T)DBL_EPSILON : (T)FLT_EPSILON; }
    static constexpr T infinity() { return (T)INFINITY; }
    static constexpr T quiet_NaN() { return (T)NAN; }
};
#define LLMC_LIMITS(T, Kind) template <> struct numeric_limits<T> : Kind<T> {};
LLMC_LIMITS(char, LlmcIntegerLimits)
LLMC_LIMITS(signed char, LlmcIntegerLimits)
LLMC_LIMITS(unsigned char, LlmcIntegerLimits)
LLMC_LIMITS(short, LlmcIntegerLimits)
LLMC_LIMITS(unsigned short, LlmcIntegerLimits)
LLMC_LIMITS(int, LlmcIntegerLimits)
LLMC_LIMITS(unsigned, LlmcIntegerLimits)
LLMC_LIMITS(long, LlmcIntegerLimits)
LLMC_LIMITS(unsigned long, LlmcIntegerLimits)
LLMC_LIMITS(long long, LlmcIntegerLimits)
LLMC_LIMITS(unsigned long long, LlmcIntegerLimits)
LLMC_LIMITS(float, LlmcFloatLimits)
LLMC_LIMITS(double, LlmcFloatLimits)

template <class T>
LLMC_INLINE constexpr remove_reference_t<T>&& move(T&& x) { return static_cast<remove_reference_t<T>&&>(x); }
template <class T> LLMC_INLINE constexpr T&& forward(remove_reference_t<T>& x) { return static_cast<T&&>(x); }
template <class T> LLMC_INLINE constexpr T&& forward(remove_reference_t<T>&& x) { return static_cast<T&&>(x); }
template <class T>
LLMC_INLINE constexpr void swap(T& a, T& b) {
    T kept = move(a);
    a = move(b);
    b = move(kept);
}
template <class T, class U = T>
LLMC_INLINE constexpr T exchange(T& x, U&& wanted) {
    T old = move(x);
    x = forward<U>(wanted);
    return old;
}
template <class T> LLMC_INLINE constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> LLMC_INLINE constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T>
LLMC_INLINE constexpr const T& clamp(const T& x, const T& low, const T& high) {
    return x < low ? low : high < x ? high : x;
}
template <class To, class From> LLMC_INLINE To bit_cast(const From& x) { return llmc_bits<To>(x); }

template <class A, class B>
struct pair {
    A first;
    B second;
};
template <class A, class B> LLMC_INLINE pair<A, B> make_pair(A a, B b) { return {a, b}; }

template <class T, size_t n>
struct array {
    T elements[n];
    constexpr T& operator[](size_t i) { return elements[i]; }
    constexpr const T& operator[](size_t i) const { return elements[i]; }
    constexpr size_t size() const { return n; }
    constexpr T* data() { return elements; }
    constexpr const T* data() const { return elements; }
    constexpr T* begin() { return elements; }
    constexpr T* end() { return elements + n; }
    constexpr const T* begin() const { return elements; }
    constexpr const T* end() const { return elements + n; }
    void fill(const T& x) { for (T& element : elements) element = x; }
};

// What the compiler turns a list in braces into: it prescribes this layout.
template <class T>
class initializer_list {
    const T* first;
    size_t count;

public:
    constexpr initializer_list() : first(nullptr), count(0) {}
    constexpr size_t size() const { return count; }
    constexpr const T* begin() const { return first; }
    constexpr const T* end() const { return first + count; }
};

#define LLMC_FUNCTION_OBJECT(name, expression)                                                 \
    template <class T = void> struct name { constexpr T operator()(T a, T b) const { return expression; } }; \
    template <> struct name<void> { template <class T> constexpr T operator()(T a, T b) const { return expression; } };
LLMC_FUNCTION_OBJECT(plus, a + b)
LLMC_FUNCTION_OBJECT(minus, a - b)
LLMC_FUNCTION_OBJECT(multiplies, a * b)

#define LLMC_USING(name) using ::name; using ::name##f;
LLMC_USING(acos) LLMC_USING(acosh) LLMC_USING(asin) LLMC_USING(asinh) LLMC_USING(atan) LLMC_USING(atan2)
LLMC_USING(atanh) LLMC_USING(cbrt) LLMC_USING(ceil) LLMC_USING(copysign) LLMC_USING(cos) LLMC_USING(cosh)
LLMC_USING(erf) LLMC_USING(erfc) LLMC_USING(exp) LLMC_USING(exp2) LLMC_USING(expm1) LLMC_USING(fabs)
LLMC_USING(floor) LLMC_USING(fma) LLMC_USING(fmax) LLMC_USING(fmin) LLMC_USING(fmod) LLMC_USING(hypot)
LLMC_USING(ldexp) LLMC_USING(lgamma) LLMC_USING(log) LLMC_USING(log10) LLMC_USING(log1p) LLMC_USING(log2)
LLMC_USING(lrint) LLMC_USING(lround) LLMC_USING(modf) LLMC_USING(nearbyint) LLMC_USING(pow) LLMC_USING(remainder)
LLMC_USING(rint) LLMC_USING(round) LLMC_USING(sin) LLMC_USING(sinh) LLMC_USING(sqrt) LLMC_USING(tan)
LLMC_USING(tanh) LLMC_USING(tgamma) LLMC_USING(trunc)
using ::abs; using ::isnan; using ::isinf; using ::isfinite; using ::signbit;
using ::llmc_printf; using ::memcpy; using ::memmove; using ::memset;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::intptr_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t;
}  // namespace std

namespace cuda {
namespace std = ::std;
}
