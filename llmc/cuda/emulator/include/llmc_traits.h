// The type traits of std:: that kernels use. The host's own headers would take longer to compile than the kernel.
#pragma once

namespace std {
using ::size_t;
using ::ptrdiff_t;
using nullptr_t = decltype(nullptr);

template <class T, T v>
struct integral_constant {
    static constexpr T value = v;
    using value_type = T;
    using type = integral_constant;
    constexpr operator T() const { return v; }
    constexpr T operator()() const { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
template <bool, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <class...> using void_t = void;

// LLMC_CHANGE(remove_const, const T, T): remove_const<const T>::type is T, and any other type stays as it is.
#define LLMC_CHANGE(name, from, to)                             \
    template <class T> struct name { using type = T; };         \
    template <class T> struct name<from> { using type = to; };  \
    template <class T> using name##_t = typename name<T>::type;
LLMC_CHANGE(remove_const, const T, T)
LLMC_CHANGE(remove_volatile, volatile T, T)
LLMC_CHANGE(remove_pointer, T*, T)
LLMC_CHANGE(remove_extent, T[], T)
template <class T, size_t n> struct remove_extent<T[n]> { using type = T; };
LLMC_CHANGE(remove_reference, T&, T)
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> using remove_cv_t = remove_const_t<remove_volatile_t<T>>;
template <class T> struct remove_cv { using type = remove_cv_t<T>; };
template <class T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T> struct remove_cvref { using type = remove_cvref_t<T>; };
template <class T> struct add_const { using type = const T; };
template <class T> struct add_pointer { using type = remove_reference_t<T>*; };
template <class T> using add_const_t = const T;
template <class T> using add_pointer_t = remove_reference_t<T>*;
template <class T> struct type_identity { using type = T; };
template <class T> using type_identity_t = T;
template <class T> struct decay { using type = remove_cvref_t<T>; };
template <class T, size_t n> struct decay<T[n]> { using type = T*; };
template <class T> using decay_t = typename decay<T>::type;
template <class T> T&& declval() noexcept;
template <class A, class B> struct common_type { using type = decay_t<decltype(true ? declval<A>() : declval<B>())>; };
template <class A, class B> using common_type_t = typename common_type<A, B>::type;

// LLMC_IS(is_const, false) and then specialisations of is_const that say true.
#define LLMC_IS(name, otherwise)                                          \
    template <class T> struct name : bool_constant<otherwise> {};         \
    template <class T> constexpr bool name##_v = name<T>::value;
#define LLMC_IS_TOO(name, T) template <> struct name<T> : true_type {};
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
LLMC_IS(is_const, false)
template <class T> struct is_const<const T> : true_type {};
LLMC_IS(is_pointer, false)
template <class T> struct is_pointer<T*> : true_type {};
LLMC_IS(is_reference, false)
template <class T> struct is_reference<T&> : true_type {};
template <class T> struct is_reference<T&&> : true_type {};
LLMC_IS(is_array, false)
template <class T, size_t n> struct is_array<T[n]> : true_type {};
LLMC_IS(is_void, (is_same_v<remove_cv_t<T>, void>))
LLMC_IS(is_floating_exactly, false)
LLMC_IS_TOO(is_floating_exactly, float)
LLMC_IS_TOO(is_floating_exactly, double)
LLMC_IS_TOO(is_floating_exactly, long double)
LLMC_IS(is_floating_point, is_floating_exactly_v<remove_cv_t<T>>)
LLMC_IS(is_integral_exactly, false)
LLMC_IS_TOO(is_integral_exactly, bool)
LLMC_IS_TOO(is_integral_exactly, char)
LLMC_IS_TOO(is_integral_exactly, signed char)
LLMC_IS_TOO(is_integral_exactly, unsigned char)
LLMC_IS_TOO(is_integral_exactly, short)
LLMC_IS_TOO(is_integral_exactly, unsigned short)
LLMC_IS_TOO(is_integral_exactly, int)
LLMC_IS_TOO(is_integral_exactly, unsigned)
LLMC_IS_TOO(is_integral_exactly, long)
LLMC_IS_TOO(is_integral_exactly, unsigned long)
LLMC_IS_TOO(is_integral_exactly, long long)
LLMC_IS_TOO(is_integral_exactly, unsigned long long)
LLMC_IS(is_integral, is_integral_exactly_v<remove_cv_t<T>>)
LLMC_IS(is_arithmetic, (is_integral_v<T> || is_floating_point_v<T>))
LLMC_IS(is_enum, __is_enum(T))
LLMC_IS(is_class, __is_class(T))
LLMC_IS(is_trivially_copyable, __is_trivially_copyable(T))
template <class T, bool = is_arithmetic_v<T>> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
LLMC_IS(is_unsigned, (is_integral_v<T> && !is_signed_v<T>))
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B> constexpr bool is_base_of_v = is_base_of<A, B>::value;

template <int bytes> struct LlmcOfSize;
template <> struct LlmcOfSize<1> { using with = signed char; using without = unsigned char; };
template <> struct LlmcOfSize<2> { using with = short; using without = unsigned short; };
template <> struct LlmcOfSize<4> { using with = int; using without = unsigned; };
template <> struct LlmcOfSize<8> { using with = long long; using without = unsigned long long; };
template <class T> struct make_signed { using type = typename LlmcOfSize<sizeof(T)>::with; };
template <class T> struct make_unsigned { using type = typename LlmcOfSize<sizeof(T)>::without; };
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;

template <size_t bytes, size_t alignment = alignof(long double)> struct aligned_storage {
    struct type { alignas(alignment) unsigned char data[bytes]; };
};
template <size_t bytes, size_t alignment = alignof(long double)>
using aligned_storage_t = typename aligned_storage<bytes, alignment>::type;

template <class T, T... i> struct integer_sequence { static constexpr size_t size() { return sizeof...(i); } };
template <size_t... i> using index_sequence = integer_sequence<size_t, i...>;
#ifdef __clang__
template <class T, T n> using make_integer_sequence = __make_integer_seq<integer_sequence, T, n>;
#else
template <class T, T n> using make_integer_sequence = integer_sequence<T, __integer_pack(n)...>;
#endif
template <size_t n> using make_index_sequence = make_integer_sequence<size_t, n>;
}  // namespace std
