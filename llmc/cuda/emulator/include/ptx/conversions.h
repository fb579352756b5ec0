// cvt: numbers from one type to another, rounded to nearest (.rn), towards zero (.rz), down (.rm) or up (.rp); to whole
// numbers with an i (.rni), also where the result is a float.
#pragma once

namespace llmc_ptx {
template <class T> constexpr bool is_float = std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <int direction, bool whole>
struct Rounding {
    static constexpr int way = direction;
    static constexpr bool to_whole = whole;
};
using rn = Rounding<0, false>;
using rz = Rounding<2, false>;
using rm = Rounding<-1, false>;
using rp = Rounding<1, false>;
using rni = Rounding<0, true>;
using rzi = Rounding<2, true>;
using rmi = Rounding<-1, true>;
using rpi = Rounding<1, true>;

LLMC_INLINE f64 whole(f64 x, int way) {
    return way == 0 ? ::rint(x) : way == 1 ? ::ceil(x) : way < 0 ? ::floor(x) : ::trunc(x);
}
template <class To> LLMC_INLINE To narrow(f64 x, int way) { return llmc_round<To>(x, 0, way); }
template <> LLMC_METHOD f64 narrow<f64>(f64 x, int) { return x; }
template <> LLMC_METHOD f16 narrow<f16>(f64 x, int way) { return __half_raw{llmc_narrow<5, 10>(x, way)}; }
template <> LLMC_METHOD bf16 narrow<bf16>(f64 x, int way) { return __nv_bfloat16_raw{llmc_narrow<8, 7>(x, way)}; }

template <class To, class From, class Mode>
LLMC_INLINE To cvt(From x) {
    if constexpr (is_float<From>) {
        f64 value = (f64)(std::conditional_t<sizeof(From) == 2, f32, From>)x;
        if (Mode::to_whole) value = whole(value, Mode::way);
        if constexpr (is_float<To>) return narrow<To>(value, Mode::to_whole ? 0 : Mode::way);
        else return llmc_to_integer<To>((std::conditional_t<sizeof(From) == 8, f64, f32>)value);
    } else if constexpr (is_float<To>) {
        if constexpr (sizeof(To) == 2) return narrow<To>(llmc_odd_double(x), Mode::way);
        else return llmc_from_integer<To>(x, Mode::way);
    } else {
        return (To)x;
    }
}
template <class To, class From, class Mode>
LLMC_INLINE To cvt_sat(From x) {  // .sat: integers end at their limits, floats at 0 and 1
    if constexpr (is_float<To>) return narrow<To>(__saturatef(cvt<f32, From, rn>(x)), Mode::way);
    else if constexpr (is_float<From>) return cvt<To, From, Mode>(x);
    else return llmc_to_integer<To>((f64)x);
}
constexpr bool relu = true;
template <class Pair, class One, bool relu>
LLMC_INLINE Pair cvt_pair(f32 high, f32 low) {  // cvt.rn.bf16x2.f32 %0, high, low
    if (relu) high = high > 0 || isnan(high) ? high : 0, low = low > 0 || isnan(low) ? low : 0;
    return {One(low), One(high)};
}
template <class T, bool relu>
LLMC_INLINE b16 cvt_to_fp8(f32 high, f32 low) {  // cvt.rn.satfinite.e4m3x2.f32 %0, high, low
    return __nv_cvt_float2_to_fp8x2(cvt_pair<float2, f32, relu>(high, low), __NV_SATFINITE, T::kind);
}
template <class T, bool relu> LLMC_INLINE b16 cvt_to_fp8(f16x2 x) { return cvt_to_fp8<T, relu>(x.y, x.x); }
template <class T, bool relu>
LLMC_INLINE f16x2 cvt_from_fp8(b16 x) {
    return cvt_pair<f16x2, f16, relu>(llmc_from_fp8(x >> 8, T::kind), llmc_from_fp8(x & 0xff, T::kind));
}
// The tf32 nearest to a float, ties away from zero. A NaN stays one.
LLMC_INLINE b32 cvt_rna_tf32(f32 x) { return llmc_tf32(x); }
}  // namespace llmc_ptx
