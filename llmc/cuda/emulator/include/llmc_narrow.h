// Rounding a number to 16 bits exactly, in integers: for __half (5 bits of exponent, 10 of mantissa) and __nv_bfloat16
// (8 and 7). A double holds every float, every integer of 32 bits and every sum or product of two such numbers.
#pragma once

// direction: -1 down, 1 up, 0 to nearest (ties to even), 2 towards zero. Every NaN becomes 0x7fff, as on a GPU.
template <int exponent_bits, int mantissa_bits>
LLMC_QUIET unsigned short llmc_narrow(double x, int direction) {
    unsigned long long magnitude = llmc_magnitude(x), infinite = 0x7ffull << 52;
    unsigned sign = signbit(x) ? 0x8000 : 0, largest = (((1u << exponent_bits) - 1) << mantissa_bits) - 1;
    if (magnitude > infinite) return 0x7fff;
    if (magnitude == 0) return sign;

    int exponent = (int)(magnitude >> 52) - 1023 + (1 << (exponent_bits - 1)) - 1;  // of the result
    int shift = 52 - mantissa_bits + (exponent > 0 ? 0 : 1 - exponent);             // how many bits are lost
    if (shift > 63) shift = 63;
    unsigned long long mantissa = (magnitude & ((1ull << 52) - 1)) | 1ull << 52;
    unsigned long long kept = mantissa >> shift, lost = mantissa << (64 - shift), half = 1ull << 63;
    bool away = direction == (sign ? -1 : 1) && lost;
    if (direction == 0) away = lost > half || (lost == half && (kept & 1));
    unsigned result = (unsigned)kept + away + (exponent > 0 ? (unsigned)(exponent - 1) << mantissa_bits : 0);
    if (result <= largest) return sign | result;
    bool overflows = direction == 0 || direction == (sign ? -1 : 1) || magnitude == infinite;
    return sign | (overflows ? largest + 1 : largest);
}

// An integer as a double. A 64-bit one may not fit: then its last bit is made odd, so that it is not taken for a tie.
template <class I>
LLMC_INLINE double llmc_odd_double(I x) {
    double nearest = (double)x;
    __int128 rest = sizeof(I) == 8 ? (__int128)x - (__int128)nearest : 0;
    unsigned long long bits = llmc_bits<unsigned long long>(nearest);
    if (rest && !(bits & 1)) bits += (rest > 0) == (nearest > 0) ? 1 : -1;
    return llmc_bits<double>(bits);
}

// a * b + c rounded once. The product of two 16-bit numbers is exact in double; if the sum is not, its last bit is made
// odd as well.
LLMC_INLINE double llmc_fma_to_odd(double a, double b, double c) {
    double product = a * b, sum = product + c, rest = llmc_rest_of_sum(product, c, sum);
    unsigned long long bits = llmc_bits<unsigned long long>(sum);
    if (rest != 0 && !(bits & 1) && isfinite(sum)) bits += (rest > 0) == (sum > 0) ? 1 : -1;
    return llmc_bits<double>(bits);
}

// The nearest __nv_bfloat16 to a float, needed often enough for a shortcut.
LLMC_INLINE unsigned short llmc_bfloat16_bits(float x) {
    unsigned bits = llmc_bits<unsigned>(x);
    return isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
LLMC_INLINE float llmc_bfloat16_value(unsigned short bits) { return llmc_bits<float>((unsigned)bits << 16); }

LLMC_INLINE unsigned short llmc_half_bits(float x) {  // the nearest __half
    unsigned bits = llmc_bits<unsigned>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude < 113u << 23 || magnitude >= 143u << 23) return llmc_narrow<5, 10>((double)x, 0);  // not a normal half
    return sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
}
LLMC_INLINE float llmc_half_value(unsigned short bits) {
    unsigned sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fff;
    unsigned wide = (magnitude << 13) + (112u << 23);
    if (magnitude >= 0x7c00) wide |= 0x7f800000;                                             // infinite or NaN
    if (magnitude < 0x0400) wide = llmc_bits<unsigned>((float)(int)magnitude * 0x1p-24f);  // subnormal
    return llmc_bits<float>(sign | wide);
}
