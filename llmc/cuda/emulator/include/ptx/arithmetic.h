// Arithmetic, logic and comparisons. Integers wrap around; .ftz and .approx have no effect, so that ex2.approx, say, is
// more exact here than on a GPU, which keeps about 22 bits.
#pragma once

namespace llmc_ptx {
template <class T> struct Unsigned { using type = T; };
template <> struct Unsigned<s16> { using type = u16; };
template <> struct Unsigned<s32> { using type = u32; };
template <> struct Unsigned<s64> { using type = u64; };
template <class T> using unsigned_of = typename Unsigned<T>::type;
template <class T> struct Wide { using type = u64; };  // of a product
template <> struct Wide<u16> { using type = u32; };
template <> struct Wide<s16> { using type = s32; };
template <> struct Wide<s32> { using type = s64; };
template <> struct Wide<u64> { using type = unsigned __int128; };
template <> struct Wide<s64> { using type = __int128; };
template <class T> using wide = typename Wide<T>::type;

#define LLMC_PTX_1(name, expression) \
    template <class T>               \
    LLMC_INLINE T name(T a) { return expression; }
#define LLMC_PTX_2(name, expression) \
    template <class T>               \
    LLMC_INLINE T name(T a, T b) { return expression; }
#define LLMC_PTX_3(name, expression) \
    template <class T>               \
    LLMC_INLINE T name(T a, T b, T c) { return expression; }

LLMC_PTX_1(mov, a)
LLMC_PTX_2(add, (T)((unsigned_of<T>)a + (unsigned_of<T>)b))
LLMC_PTX_2(sub, (T)((unsigned_of<T>)a - (unsigned_of<T>)b))
LLMC_PTX_2(mul, a * b)  // of floats
LLMC_PTX_2(mul_lo, (T)((wide<T>)a * b))
LLMC_PTX_2(mul_hi, (T)((wide<T>)a * b >> 8 * sizeof(T)))
LLMC_PTX_3(mad_lo, (T)(unsigned_of<T>)((wide<T>)a * b + c))
LLMC_PTX_3(mad_hi, (T)(((wide<T>)a * b >> 8 * sizeof(T)) + c))
template <class T> LLMC_INLINE wide<T> mul_wide(T a, T b) { return (wide<T>)a * b; }
template <class T> LLMC_INLINE wide<T> mad_wide(T a, T b, wide<T> c) { return add<wide<T>>((wide<T>)a * b, c); }
LLMC_PTX_2(div, a / b)
LLMC_PTX_2(rem, a % b)
LLMC_PTX_1(neg, (T)(0 - (unsigned_of<T>)a))
LLMC_PTX_1(abs, a < (T)0 ? neg(a) : a)
LLMC_PTX_2(min, b < a ? b : a)
LLMC_PTX_2(max, b > a ? b : a)
LLMC_PTX_2(bit_and, (T)(a & b))
LLMC_PTX_2(bit_or, (T)(a | b))
LLMC_PTX_2(bit_xor, (T)(a ^ b))
LLMC_PTX_1(bit_not, (T)~a)
template <> LLMC_METHOD pred bit_not<pred>(pred a) { return !a; }
template <> LLMC_METHOD f32 neg<f32>(f32 a) { return -a; }
template <> LLMC_METHOD f64 neg<f64>(f64 a) { return -a; }
template <> LLMC_METHOD f32 abs<f32>(f32 a) { return fabsf(a); }
template <> LLMC_METHOD f64 abs<f64>(f64 a) { return fabs(a); }
template <> LLMC_METHOD f32 min<f32>(f32 a, f32 b) { return fminf(a, b); }
template <> LLMC_METHOD f32 max<f32>(f32 a, f32 b) { return fmaxf(a, b); }
template <> LLMC_METHOD f64 min<f64>(f64 a, f64 b) { return fmin(a, b); }
template <> LLMC_METHOD f64 max<f64>(f64 a, f64 b) { return fmax(a, b); }
#define LLMC_PTX_16_BITS(T, suffix)                                               \
    template <> LLMC_METHOD T add<T>(T a, T b) { return __hadd##suffix(a, b); }   \
    template <> LLMC_METHOD T sub<T>(T a, T b) { return __hsub##suffix(a, b); }   \
    template <> LLMC_METHOD T mul<T>(T a, T b) { return __hmul##suffix(a, b); }   \
    template <> LLMC_METHOD T min<T>(T a, T b) { return __hmin##suffix(a, b); }   \
    template <> LLMC_METHOD T max<T>(T a, T b) { return __hmax##suffix(a, b); }   \
    template <> LLMC_METHOD T neg<T>(T a) { return __hneg##suffix(a); }           \
    template <> LLMC_METHOD T abs<T>(T a) { return __habs##suffix(a); }           \
    LLMC_INLINE T fused(T a, T b, T c) { return __hfma##suffix(a, b, c); }        \
    LLMC_INLINE T exp2_of(T a) { return LLMC_PTX_EXP2_##suffix(a); }              \
    LLMC_INLINE T tanh_of(T a) { return LLMC_PTX_TANH_##suffix(a); }
#define LLMC_PTX_EXP2_ hexp2
#define LLMC_PTX_EXP2_2 h2exp2
#define LLMC_PTX_TANH_ htanh
#define LLMC_PTX_TANH_2 h2tanh
LLMC_PTX_16_BITS(f16, )
LLMC_PTX_16_BITS(f16x2, 2)
LLMC_PTX_16_BITS(bf16, )
LLMC_PTX_16_BITS(bf16x2, 2)
LLMC_INLINE f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
LLMC_INLINE f64 fused(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }
LLMC_INLINE f32 exp2_of(f32 a) { return exp2f(a); }
LLMC_INLINE f32 tanh_of(f32 a) { return tanhf(a); }
LLMC_PTX_3(fma, fused(a, b, c))
LLMC_PTX_1(ex2, exp2_of(a))
LLMC_PTX_1(tanh, tanh_of(a))
LLMC_INLINE f32 lg2(f32 a) { return log2f(a); }
LLMC_INLINE f32 sine(f32 a) { return sinf(a); }
LLMC_INLINE f32 cosine(f32 a) { return cosf(a); }
template <class T> LLMC_INLINE T rcp(T a) { return 1 / a; }
template <class T> LLMC_INLINE T root(T a) { return ::sqrt(a); }
template <class T> LLMC_INLINE T rsqrt(T a) { return (T)(1 / ::sqrt((f64)a)); }
template <class T> LLMC_INLINE T copysign_of(T a, T b) { return (T)::copysign((f64)b, (f64)a); }  // a's sign, b's size

// ------------------------------------------------------------------------------------------------------------- bits
template <class T> LLMC_INLINE T shl(T a, u32 n) { return n < 8 * sizeof(T) ? (T)(a << n) : 0; }
template <class T> LLMC_INLINE T shr(T a, u32 n) {  // of a signed number the sign moves in
    return n < 8 * sizeof(T) ? (T)(a >> n) : (T)(a < 0 ? -1 : 0);
}
LLMC_INLINE u32 shf_l_wrap(u32 a, u32 b, u32 n) { return __funnelshift_l(a, b, n); }
LLMC_INLINE u32 shf_l_clamp(u32 a, u32 b, u32 n) { return __funnelshift_lc(a, b, n); }
LLMC_INLINE u32 shf_r_wrap(u32 a, u32 b, u32 n) { return __funnelshift_r(a, b, n); }
LLMC_INLINE u32 shf_r_clamp(u32 a, u32 b, u32 n) { return __funnelshift_rc(a, b, n); }
LLMC_INLINE u32 prmt(u32 a, u32 b, u32 selector) { return llmc_prmt(a, b, selector); }
// Each bit of the result is looked up in `table`: its index is made of the bits of a (4), b (2) and c (1).
LLMC_INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (u32 k = 0; k < 8; k++)
        if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return result;
}
template <class T> LLMC_INLINE T bfe(T a, u32 from, u32 length) {  // `length` bits from bit `from` on, and their sign
    constexpr u32 width = 8 * sizeof(T);
    u64 bits = widen(a), result = 0;
    from &= 255, length &= 255;
    u32 last = from + length > width ? width - 1 : from + length - 1;
    bool sign = (T)-1 < (T)0 && length && (bits >> last & 1);
    for (u32 i = 0; i < width; i++)
        result |= (i < length && from + i < width ? bits >> (from + i) & 1 : (u64)sign) << i;
    return (T)result;
}
template <class T> LLMC_INLINE T bfi(T a, T b, u32 to, u32 length) {  // b with the low bits of a from bit `to` on
    u64 mask = (length & 255) < 64 ? (1ull << (length & 255)) - 1 : ~0ull;
    if ((to & 255) >= 8 * sizeof(T)) return b;
    return (T)((b & ~(mask << (to & 255))) | (((u64)a & mask) << (to & 255)));
}
LLMC_INLINE u32 popc(u64 a) { return (u32)__popcll(a); }
template <class T> LLMC_INLINE u32 clz(T a) { return (u32)__clzll((s64)a) - (64 - 8 * (u32)sizeof(T)); }
template <class T> LLMC_INLINE T brev(T a) { return (T)(__brevll(a) >> (64 - 8 * sizeof(T))); }
LLMC_INLINE s32 dp4a(s32 a, s32 b, s32 c) { return __dp4a(a, b, c); }
LLMC_INLINE u32 dp4a(u32 a, u32 b, u32 c) { return __dp4a(a, b, c); }
LLMC_INLINE u32 sad(u32 a, u32 b, u32 c) { return __usad(a, b, c); }

// `mov.b64 %0, {%1, %2};` and back: the first of the vector has the lowest bits.
template <class T, class Part, int n>
LLMC_INLINE T pack(Vector<Part, n> parts) {
    static_assert(sizeof parts == sizeof(T), "the parts fill the whole");
    return llmc_bits<T>(parts);
}
template <class Part, int n, class T>
LLMC_INLINE Vector<Part, n> unpack(T whole) {
    static_assert(n * sizeof(Part) == sizeof(T), "the parts fill the whole");
    return llmc_bits<Vector<Part, n>>(whole);
}

// ------------------------------------------------------------------------------------------------------ comparisons
#define LLMC_PTX_COMPARISON(name, operation)                                                   \
    template <class T> LLMC_INLINE pred name(T a, T b) { return a operation b; }               \
    template <class T> LLMC_INLINE pred name##u(T a, T b) {  /* true for a NaN as well */      \
        return isnan(a) || isnan(b) || a operation b;                                          \
    }
LLMC_PTX_COMPARISON(eq, ==)
LLMC_PTX_COMPARISON(ne, !=)
LLMC_PTX_COMPARISON(lt, <)
LLMC_PTX_COMPARISON(le, <=)
LLMC_PTX_COMPARISON(gt, >)
LLMC_PTX_COMPARISON(ge, >=)
#undef LLMC_PTX_COMPARISON
template <> LLMC_METHOD pred ne<f32>(f32 a, f32 b) { return a < b || a > b; }
template <> LLMC_METHOD pred ne<f64>(f64 a, f64 b) { return a < b || a > b; }
template <class T> LLMC_INLINE T selp(T a, T b, pred which) { return which ? a : b; }
}  // namespace llmc_ptx
