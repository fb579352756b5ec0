// Integer intrinsics: counting and moving bits, products and averages wider than an int.
// All arithmetic is unsigned, since it may overflow on purpose.
#pragma once

template <class To, class From>
LLMC_INLINE To llmc_bits(From value) {  // the same bits as another type
    static_assert(sizeof(To) == sizeof(From), "only types of the same size share their bits");
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}

LLMC_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
LLMC_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
LLMC_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
LLMC_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
LLMC_INLINE int __ffs(int x) { return __builtin_ffs(x); }
LLMC_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }

// Position of the offset-th set bit of `mask` counted from bit `base` upwards (or downwards, if offset is negative);
// ~0 if there are not so many. An offset of 0 asks whether bit `base` itself is set.
LLMC_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
    int step = offset < 0 ? -1 : 1, left = offset ? offset * step : 1;
    for (int bit = (int)base; bit >= 0 && bit < 32; bit += step) {
        if (mask >> bit & 1 && --left == 0) return (unsigned)bit;
        if (!offset) break;
    }
    return ~0u;
}

LLMC_INLINE unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
LLMC_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

// PTX's prmt: each of the four low nibbles of `selector` picks a byte of y:x; its top bit spreads the byte's sign.
LLMC_INLINE unsigned llmc_prmt(unsigned x, unsigned y, unsigned selector) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int k = 0; k < 4; k++) {
        unsigned pick = selector >> (4 * k), byte = both >> (8 * (pick & 7)) & 0xff;
        if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * k);
    }
    return result;
}
LLMC_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) { return llmc_prmt(x, y, selector & 0x7777); }

LLMC_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) << (shift & 31) >> 32;
}
LLMC_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
LLMC_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
LLMC_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

LLMC_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
LLMC_INLINE int __mulhi(int a, int b) { return (long long)a * b >> 32; }
LLMC_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
LLMC_INLINE long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
LLMC_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
LLMC_INLINE int __mul24(int a, int b) {
    return (unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8);
}

LLMC_INLINE unsigned __usad(unsigned a, unsigned b, unsigned sum) { return (a > b ? a - b : b - a) + sum; }
LLMC_INLINE unsigned __sad(int a, int b, unsigned sum) {
    return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + sum;
}
LLMC_INLINE int __hadd(int a, int b) { return ((long long)a + b) >> 1; }
LLMC_INLINE int __rhadd(int a, int b) { return ((long long)a + b + 1) >> 1; }
LLMC_INLINE unsigned __uhadd(unsigned a, unsigned b) { return ((unsigned long long)a + b) >> 1; }
LLMC_INLINE unsigned __urhadd(unsigned a, unsigned b) { return ((unsigned long long)a + b + 1) >> 1; }

// Dot products of four bytes, and of two halves with two bytes, added to a sum.
template <class Byte>
LLMC_INLINE unsigned llmc_dot4(unsigned a, unsigned b, unsigned sum) {
    for (int shift = 0; shift < 32; shift += 8) sum += (unsigned)((Byte)(a >> shift) * (Byte)(b >> shift));
    return sum;
}
LLMC_INLINE int __dp4a(int a, int b, int sum) { return llmc_dot4<signed char>(a, b, sum); }
LLMC_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned sum) { return llmc_dot4<unsigned char>(a, b, sum); }
LLMC_INLINE int __dp4a(char4 a, char4 b, int sum) { return __dp4a(llmc_bits<int>(a), llmc_bits<int>(b), sum); }
LLMC_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned sum) {
    return __dp4a(llmc_bits<unsigned>(a), llmc_bits<unsigned>(b), sum);
}
template <class Short, class Byte>
LLMC_INLINE unsigned llmc_dot2(unsigned a, unsigned b, unsigned sum) {
    return sum + (unsigned)((Short)a * (Byte)b) + (unsigned)((Short)(a >> 16) * (Byte)(b >> 8));
}
LLMC_INLINE int __dp2a_lo(int a, int b, int sum) { return llmc_dot2<short, signed char>(a, b, sum); }
LLMC_INLINE int __dp2a_hi(int a, int b, int sum) { return llmc_dot2<short, signed char>(a, (unsigned)b >> 16, sum); }
LLMC_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned sum) {
    return llmc_dot2<unsigned short, unsigned char>(a, b, sum);
}
LLMC_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned sum) {
    return llmc_dot2<unsigned short, unsigned char>(a, b >> 16, sum);
}
