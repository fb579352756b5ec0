// What a warp does together for its tensor cores: ldmatrix, stmatrix, movmatrix, mma.sync, wmma.
//
// How the 32 lanes share a matrix is the same for all element types. A register holds 32 bits of a row: one tf32, two
// f16 or bf16, four s8 or fp8. With g = lane / 4 and t = lane % 4, and `per` elements in a register:
//     A (16 x k)   register i: row g + 8 * (i % 2), columns per * (t + 4 * (i / 2)) and the per - 1 after it
//     B (k x 8)    register i: column g,            rows    per * (t + 4 * i)       and the per - 1 after it
//     C, D (16 x 8)            row g + 8 * (i / 2), column 2 * t + i % 2; of f16, two of them in a register
#pragma once

namespace llmc_ptx {
constexpr bool trans = true;

// ------------------------------------------------------------------------------------------------- 8 x 8 in and out
struct Tiles {  // what a lane posts: up to four registers, and the row of 16 bytes whose address it gave
    u32 reg[4], row[4];
};
// Numbers of the lane that posted `slots[lane]`; 0 for one that was ended because of a problem.
LLMC_QUIET u32 word_of_row(void** slots, int lane, int t) { return slots[lane] ? ((Tiles*)slots[lane])->row[t] : 0; }
LLMC_QUIET u32 register_of(void** slots, int lane, int i) { return slots[lane] ? ((Tiles*)slots[lane])->reg[i] : 0; }
LLMC_INLINE u32 half_of(u32 word, int which) { return word >> 16 * (which % 2) & 0xffff; }

// Word t of row g of a matrix belongs to lane 4 * g + t, and lane 8 * i + g has row g of matrix i. Transposed, a lane gets
// element g of the rows 2 * t and 2 * t + 1.
template <int n, bool trans>
LLMC_QUIET void load_tiles(void** slots, unsigned) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0, g = lane / 4, t = lane % 4; slots[lane] && i < n; i++) {
            u32 low = half_of(word_of_row(slots, 8 * i + 2 * t, g / 2), g);
            u32 high = half_of(word_of_row(slots, 8 * i + 2 * t + 1, g / 2), g);
            ((Tiles*)slots[lane])->reg[i] = trans ? low | high << 16 : word_of_row(slots, 8 * i + g, t);
        }
}
template <int n, bool trans>
LLMC_QUIET void store_tiles(void** slots, unsigned) {
    for (int lane = 0; lane < 8 * n; lane++)
        for (int t = 0, i = lane / 8, g = lane % 8; slots[lane] && t < 4; t++) {  // word t of row g of matrix i
            u32 low = half_of(register_of(slots, 8 * t + g / 2, i), g);
            u32 high = half_of(register_of(slots, 8 * t + 4 + g / 2, i), g);
            ((Tiles*)slots[lane])->row[t] = trans ? low | high << 16 : register_of(slots, 4 * g + t, i);
        }
}
LLMC_QUIET void exchange(Tiles* mine, void (*last)(void**, unsigned), int line) {
    llmc_collective(~0u, LLMC_MMA, line, mine, last, __builtin_return_address(0));
}

template <int n, bool trans>
LLMC_INLINE Vector<b32, n> ldmatrix(const char* row, LLMC_HERE) {
    Tiles mine = {};
    if ((int)llmc_lane() < 8 * n) {  // the addresses of the other lanes do not count
        llmc_access(row, 16, false, false);
        llmc_move_bytes(mine.row, row, 16);
    }
    exchange(&mine, load_tiles<n, trans>, line);
    Vector<b32, n> result;
    llmc_move_bytes(&result, mine.reg, sizeof result);
    return result;
}
template <int n, bool trans>
LLMC_INLINE void stmatrix(char* row, Vector<b32, n> registers, LLMC_HERE) {
    Tiles mine = {};
    llmc_move_bytes(mine.reg, &registers, sizeof registers);
    exchange(&mine, store_tiles<n, trans>, line);
    if ((int)llmc_lane() < 8 * n) {
        llmc_access(row, 16, true, false);
        llmc_move_bytes(row, mine.row, 16);
    }
}
LLMC_QUIET void move_tile(void** slots, unsigned mask) {
    for (int lane = 0; lane < 8; lane++)  // the registers of four lanes are a row
        for (int t = 0; slots[lane] && t < 4; t++) ((Tiles*)slots[lane])->row[t] = register_of(slots, 4 * lane + t, 0);
    load_tiles<1, true>(slots, mask);
}
LLMC_INLINE b32 movmatrix(b32 reg, LLMC_HERE) {  // the transposed matrix
    Tiles mine = {{reg}, {}};
    exchange(&mine, move_tile, line);
    return mine.reg[0];
}

// ------------------------------------------------------------------------------------------------------------- mma
// What one element is worth: `bits` of a register, and the type in which products are added up.
template <class T> struct Element {  // e4m3, e5m2
    static constexpr int bits = 8;
    using Sum = f32;
    LLMC_METHOD static f32 value(u32 x) { return llmc_from_fp8(x, T::kind); }
};
template <> struct Element<f16> {
    static constexpr int bits = 16;
    using Sum = f32;
    LLMC_METHOD static f32 value(u32 x) { return llmc_half_value((u16)x); }
};
template <> struct Element<bf16> {
    static constexpr int bits = 16;
    using Sum = f32;
    LLMC_METHOD static f32 value(u32 x) { return llmc_bfloat16_value((u16)x); }
};
template <> struct Element<tf32> {
    static constexpr int bits = 32;
    using Sum = f32;
    LLMC_METHOD static f32 value(u32 x) { return llmc_bits<f32>(x & ~0x1fffu); }  // the last 13 bits do not count
};
template <> struct Element<s8> {
    static constexpr int bits = 8;
    using Sum = s32;
    LLMC_METHOD static s32 value(u32 x) { return (s8)x; }
};
template <> struct Element<u8> {
    static constexpr int bits = 8;
    using Sum = s32;
    LLMC_METHOD static s32 value(u32 x) { return (u8)x; }
};

struct Product {  // what a lane posts
    const u32 *a, *b;
    const void* c;
    void* d;
};
// c and d in registers: f32 and s32 have one of their own each, two f16 share one.
LLMC_QUIET f32 element_of(const f32* c, int i) { return c[i]; }
LLMC_QUIET s32 element_of(const s32* c, int i) { return c[i]; }
LLMC_QUIET f32 element_of(const f16x2* c, int i) { return i % 2 ? c[i / 2].y : c[i / 2].x; }
LLMC_QUIET void set_element(f32* d, int i, f32 value) { d[i] = value; }
LLMC_QUIET void set_element(s32* d, int i, s32 value) { d[i] = value; }
LLMC_QUIET void set_element(f16x2* d, int i, f32 value) { (i % 2 ? d[i / 2].y : d[i / 2].x) = value; }

// The product of a warp. It is added up in f32 along k, then to c; a tensor core adds in an order of its own, and an
// f16 is rounded once, at the end. Hopper's keep about 14 bits when they add products of fp8: that is not imitated.
template <int k, class TA, class TB, class D>
LLMC_QUIET void multiply(void** slots, unsigned) {
    using Sum = typename Element<TA>::Sum;
    constexpr int per = 32 / Element<TA>::bits, chunk = 4 * per;
    Sum a[16][k] = {}, b[8][k] = {};
    for (int lane = 0; lane < 32; lane++) {
        const Product* posted = (const Product*)slots[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; posted && i < k / chunk; i++)
            for (int e = 0; e < per; e++) {
                int at = per * (t + 4 * i) + e, shift = 32 / per * e;
                a[g][at] = Element<TA>::value(posted->a[2 * i] >> shift);
                a[g + 8][at] = Element<TA>::value(posted->a[2 * i + 1] >> shift);
                b[g][at] = Element<TB>::value(posted->b[i] >> shift);
            }
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; slots[lane] && i < 4; i++) {
            const Product* posted = (const Product*)slots[lane];
            const Sum *row = a[lane / 4 + i / 2 * 8], *column = b[lane % 4 * 2 + i % 2];
            Sum sum = 0;
            for (int l = 0; l < k; l++) sum += row[l] * column[l];
            set_element((D*)posted->d, i, sum + element_of((const D*)posted->c, i));
        }
}
LLMC_QUIET void together(const Product* mine, void (*last)(void**, unsigned), int line) {
    llmc_collective(~0u, LLMC_MMA, line, (void*)mine, last, __builtin_return_address(0));
}
// mma.sync.m16n8k<k>: d = a * b + c. TA, TB: f16, bf16, tf32, s8, u8, e4m3, e5m2. D: f32, s32, or f16x2 for f16 sums.
template <int k, class TA, class TB, class D, int na, int nb, int nd>
LLMC_INLINE Vector<D, nd> mma(Vector<b32, na> a, Vector<b32, nb> b, Vector<D, nd> c, LLMC_HERE) {
    static_assert(na == k * Element<TA>::bits / 64 && na == 2 * nb, "16 x k and k x 8 elements on 32 lanes");
    Vector<D, nd> d = c;
    Product mine = {a.x, b.x, c.x, d.x};
    together(&mine, multiply<k, TA, TB, D>, line);
    return d;
}

// ------------------------------------------------------------------------------------------------------------ wmma
// Which lane holds what of a square of 16 x 16 is the GPU's secret. Here it is as in two mma side by side: registers 0
// to 3 of a, 0 and 1 of the left b, 2 and 3 of the right one; d likewise. Of f16 all is there twice.
constexpr bool a = true, b = false, row = true, col = false;

// Where a lane's element e of register i is in the square: along k, and along the rows of a or the columns of b.
template <bool is_a>
LLMC_INLINE int wmma_place(int i, int e, bool along_k) {
    int group = llmc_lane() / 4, pair = 2 * (llmc_lane() % 4) + e;
    int right = is_a ? i / 2 % 2 : i % 2, down = is_a ? i % 2 : i / 2 % 2;
    return along_k ? pair + 8 * right : group + 8 * down;
}
// Elements of a square: `step` from line to line, and k along the lines or not.
template <bool is_a, bool by_rows, int n>
LLMC_INLINE Vector<b32, n> wmma_load(const char* from, u32 step) {
    constexpr bool k_runs = is_a == by_rows;
    Vector<b32, n> result = {};
    for (int i = 0; i < 4; i++)
        for (int e = 0; e < 2; e++) {
            int k = wmma_place<is_a>(i, e, true), other = wmma_place<is_a>(i, e, false);
            const char* place = from + 2 * (k_runs ? other * (long)step + k : k * (long)step + other);
            u16 element;
            llmc_access(place, 2, false, false);
            llmc_move_bytes(&element, place, 2);
            for (int copy = i; copy < n; copy += 4) result.x[copy] |= (u32)element << 16 * e;
        }
    return result;
}
template <class T, int n>
LLMC_INLINE Vector<f32, 8> wmma_mma(Vector<b32, n> a, Vector<b32, n> b, Vector<f32, 8> c, LLMC_HERE) {
    Vector<f32, 8> result;
    for (int half = 0; half < 2; half++) {
        const f32* sum = c.x + 4 * half;
        Vector<f32, 4> d = mma<16, T, T, f32>(Vector<b32, 4>{{a.x[0], a.x[1], a.x[2], a.x[3]}},
                                              Vector<b32, 2>{{b.x[2 * half], b.x[2 * half + 1]}},
                                              Vector<f32, 4>{{sum[0], sum[1], sum[2], sum[3]}}, line);
        for (int i = 0; i < 4; i++) result.x[4 * half + i] = d.x[i];
    }
    return result;
}
template <bool by_rows>
LLMC_INLINE void wmma_store(char* to, Vector<f32, 8> d, u32 step) {
    for (int i = 0; i < 8; i++) {
        int down = llmc_lane() / 4 + i / 2 % 2 * 8, right = llmc_lane() % 4 * 2 + i % 2 + i / 4 * 8;
        char* place = to + 4 * (by_rows ? down * (long)step + right : right * (long)step + down);
        llmc_access(place, 4, true, false);
        llmc_move_bytes(place, &d.x[i], 4);
    }
}
}  // namespace llmc_ptx
