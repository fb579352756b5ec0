// Two halfwords or four bytes in a word: __vadd4, __vmaxs2, __vcmpeq4 and the others of their kind.
#pragma once

// f of each pair of numbers of type E. What does not fit wraps around, or ends at E's limits with `saturates`.
template <class E, bool saturates, class F>
LLMC_INLINE unsigned llmc_each(unsigned a, unsigned b, F f) {
    constexpr int bits = 8 * sizeof(E), low = E(-1) < 0 ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;
    unsigned result = 0;
    for (int shift = 0; shift < 32; shift += bits) {
        int value = f((int)(E)(a >> shift), (int)(E)(b >> shift));
        if (saturates) value = value < low ? low : value > high ? high : value;
        result |= ((unsigned)value & ((1u << bits) - 1)) << shift;
    }
    return result;
}
#define LLMC_PAIRS(name, half, byte, saturates, expression)                                                    \
    LLMC_INLINE unsigned name##2(unsigned a, unsigned b) {                                                     \
        return llmc_each<half, saturates>(a, b, [](int a, int b) { return expression; });                      \
    }                                                                                                          \
    LLMC_INLINE unsigned name##4(unsigned a, unsigned b) {                                                     \
        return llmc_each<byte, saturates>(a, b, [](int a, int b) { return expression; });                      \
    }
#define LLMC_SIGNED(name, saturates, expression) LLMC_PAIRS(name, short, signed char, saturates, expression)
#define LLMC_UNSIGNED(name, saturates, expression) LLMC_PAIRS(name, unsigned short, unsigned char, saturates, expression)
#define LLMC_BOTH(name, expression) LLMC_SIGNED(name##s, false, expression) LLMC_UNSIGNED(name##u, false, expression)
#define LLMC_COMPARED(how, expression) LLMC_BOTH(__vcmp##how, -(expression)) LLMC_BOTH(__vset##how, expression)

LLMC_UNSIGNED(__vadd, false, a + b)
LLMC_UNSIGNED(__vsub, false, a - b)
LLMC_SIGNED(__vaddss, true, a + b)
LLMC_SIGNED(__vsubss, true, a - b)
LLMC_UNSIGNED(__vaddus, true, a + b)
LLMC_UNSIGNED(__vsubus, true, a - b)
LLMC_BOTH(__vmax, a < b ? b : a)
LLMC_BOTH(__vmin, b < a ? b : a)
LLMC_BOTH(__vabsdiff, a < b ? b - a : a - b)
LLMC_BOTH(__vavg, (a + b + (a + b >= 0)) >> 1)
LLMC_UNSIGNED(__vhaddu, false, (a + b) >> 1)
LLMC_COMPARED(ge, a >= b)
LLMC_COMPARED(gt, a > b)
LLMC_COMPARED(le, a <= b)
LLMC_COMPARED(lt, a < b)
LLMC_UNSIGNED(__vcmpeq, false, -(a == b))
LLMC_UNSIGNED(__vcmpne, false, -(a != b))
LLMC_UNSIGNED(__vseteq, false, a == b)
LLMC_UNSIGNED(__vsetne, false, a != b)

#define LLMC_OF_ONE(name, of_two)                                      \
    LLMC_INLINE unsigned name##2(unsigned a) { return of_two##2(0, a); } \
    LLMC_INLINE unsigned name##4(unsigned a) { return of_two##4(0, a); }
LLMC_SIGNED(llmc_distance_ss, true, b < a ? a - b : b - a)
LLMC_OF_ONE(__vneg, __vsub)
LLMC_OF_ONE(__vnegss, __vsubss)
LLMC_OF_ONE(__vabs, __vabsdiffs)
LLMC_OF_ONE(__vabsss, llmc_distance_ss)

// Sums of the absolute differences.
LLMC_INLINE unsigned llmc_sum2(unsigned a) { return (a & 0xffff) + (a >> 16); }
LLMC_INLINE unsigned llmc_sum4(unsigned a) { return __dp4a(a, 0x01010101u, 0u); }
LLMC_INLINE unsigned __vsads2(unsigned a, unsigned b) { return llmc_sum2(__vabsdiffs2(a, b)); }
LLMC_INLINE unsigned __vsadu2(unsigned a, unsigned b) { return llmc_sum2(__vabsdiffu2(a, b)); }
LLMC_INLINE unsigned __vsads4(unsigned a, unsigned b) { return llmc_sum4(__vabsdiffs4(a, b)); }
LLMC_INLINE unsigned __vsadu4(unsigned a, unsigned b) { return llmc_sum4(__vabsdiffu4(a, b)); }
