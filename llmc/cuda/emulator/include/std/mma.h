// nvcuda::wmma: the lanes of a warp share three small matrices and multiply them as a tensor core does.
// Each lane holds the elements that it holds on a GPU since Turing: in tiles of 8 x 8, two neighbours in a row. (CUDA does
// not say where those of tf32 lie.) Products are added up in float, along k; a GPU's order is its own.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

// How the elements of a fragment are stored, what a product sees of one, and the type in which products are added up.
template <class T, class Sum = float>
struct LlmcStored {
    using type = T;
    using sum = Sum;
    LLMC_METHOD static Sum value(T x) { return x; }
};
template <> struct LlmcStored<precision::tf32> {
    using type = float;
    using sum = float;
    LLMC_METHOD static float value(float x) { return llmc_bits<float>(llmc_bits<unsigned>(x) & ~0x1fffu); }
};
template <> struct LlmcStored<signed char, float> : LlmcStored<signed char, int> {};
template <> struct LlmcStored<unsigned char, float> : LlmcStored<unsigned char, int> {};
template <> struct LlmcStored<int, float> : LlmcStored<int, int> {};

template <class Use, int m, int n, int k> struct LlmcShape;
template <int m, int n, int k> struct LlmcShape<matrix_a, m, n, k> { static constexpr int rows = m, columns = k; };
template <int m, int n, int k> struct LlmcShape<matrix_b, m, n, k> { static constexpr int rows = k, columns = n; };
template <int m, int n, int k> struct LlmcShape<accumulator, m, n, k> { static constexpr int rows = m, columns = n; };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
    static_assert(m * n == 256 && m >= 8 && n >= 8 && (k == 16 || k == 8),
                  "wmma has the shapes 16x16x16, 32x8x16 and 8x32x16 (and 16x16x8 for tf32)");
    using element_type = T;
    using storage_element_type = typename LlmcStored<T>::type;
    static constexpr int rows = LlmcShape<Use, m, n, k>::rows, columns = LlmcShape<Use, m, n, k>::columns;
    static constexpr bool is_sum = std::is_same_v<Use, accumulator>, is_b = std::is_same_v<Use, matrix_b>;
    static constexpr int different = rows * columns / 32;  // of a __half fragment's 16, some may repeat others
    static constexpr int num_elements = std::is_same_v<T, __half> && !is_sum ? 16 : different;
    static constexpr int num_storage_elements = num_elements;
    storage_element_type x[num_elements];

    // Where element e of a lane is: matrix_b runs down its columns, the others along their rows.
    LLMC_METHOD static int row(int lane, int e) {
        int tile = e / 2, down = is_b ? lane % 4 * 2 + e % 2 : lane / 4;
        return down + 8 * (tile % (rows / 8));
    }
    LLMC_METHOD static int column(int lane, int e) {
        int tile = e / 2, along = is_b ? lane / 4 : lane % 4 * 2 + e % 2;
        return along + 8 * (tile / (rows / 8));
    }
    LLMC_METHOD static int offset(int lane, int e, int stride, bool by_rows) {
        return by_rows ? row(lane, e) * stride + column(lane, e) : column(lane, e) * stride + row(lane, e);
    }
};

// ------------------------------------------------------------------------------------------------ loads and stores
template <class F, class T>
LLMC_QUIET void llmc_load_fragment(F* f, const T* from, int stride, bool by_rows) {
    int lane = llmc_lane();
    for (int e = 0; e < F::num_elements; e++) f->x[e] = from[F::offset(lane, e % F::different, stride, by_rows)];
}
template <class F, class T>
LLMC_QUIET void llmc_store_fragment(const F* f, T* to, int stride, bool by_rows) {
    int lane = llmc_lane();
    for (int e = 0; e < F::different; e++) to[F::offset(lane, e, stride, by_rows)] = f->x[e];
}
// Reports the accesses to the runtime, two elements at once where they are neighbours in memory.
template <class F, class T>
LLMC_INLINE void llmc_announce(T* base, int stride, bool by_rows, bool write) {
    int lane = llmc_lane(), step = by_rows != F::is_b ? 2 : 1;
    for (int e = 0; llmc_checked && e < F::different; e += step) {
        T* address = base + F::offset(lane, e, stride, by_rows);
        if (write) llmc_write((void*)address, step * sizeof(T));
        else llmc_read(address, step * sizeof(T));
    }
}
template <class T>
LLMC_INLINE void llmc_require_alignment(const T* address, unsigned stride, int line) {
    if (llmc_checked && ((size_t)address % 16 || stride * sizeof(T) % 16))
        llmc_stop(LLMC_ASSERT, line, "wmma needs a pointer aligned to 32 bytes and a stride that is a multiple of 16 bytes");
}
LLMC_INLINE void llmc_together(int line) { llmc_collective(~0u, LLMC_MMA, line, nullptr, nullptr); }

template <class F, class T>
LLMC_INLINE void llmc_load(F& f, const T* from, unsigned stride, bool by_rows, int line) {
    llmc_together(line);
    llmc_require_alignment(from, stride, line);
    llmc_announce<F>(from, stride, by_rows, false);
    llmc_load_fragment(&f, from, stride, by_rows);
}
template <class Use, int m, int n, int k, class T, class Layout, class S>
LLMC_INLINE void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f, const S* from, unsigned stride, LLMC_HERE) {
    llmc_load(f, from, stride, std::is_same_v<Layout, row_major>, line);
}
template <int m, int n, int k, class T>
LLMC_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* from, unsigned stride, layout_t layout,
                                  LLMC_HERE) {
    llmc_load(f, from, stride, layout == mem_row_major, line);
}
template <int m, int n, int k, class T>
LLMC_INLINE void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& f, unsigned stride, layout_t layout,
                                   LLMC_HERE) {
    llmc_together(line);
    llmc_require_alignment(to, stride, line);
    llmc_announce<fragment<accumulator, m, n, k, T>>(to, stride, layout == mem_row_major, true);
    llmc_store_fragment(&f, to, stride, layout == mem_row_major);
}
template <class Use, int m, int n, int k, class T, class Layout, class V>
LLMC_INLINE void fill_fragment(fragment<Use, m, n, k, T, Layout>& f, const V& value) {
    for (auto& element : f.x) element = value;
}
LLMC_INLINE float __float_to_tf32(float x) { return llmc_bits<float>(llmc_tf32(x)); }

// ------------------------------------------------------------------------------------------------------ the product
template <class F, class Number>
LLMC_QUIET void llmc_gather(void** slots, int which, Number* matrix) {  // the fragments of all lanes as one matrix
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; slots[lane] && e < F::different; e++)
            matrix[F::row(lane, e) * F::columns + F::column(lane, e)] = LlmcStored<typename F::element_type>::value(
                ((const F*)((void**)slots[lane])[which])->x[e]);
}
template <class D, class A, class B, class C>
LLMC_QUIET void llmc_multiply(void** slots, unsigned) {
    using Sum = typename LlmcStored<typename A::element_type>::sum;
    constexpr int m = A::rows, n = B::columns, k = A::columns;
    Sum a[m * k] = {}, b[k * n] = {}, d[m * n] = {};
    llmc_gather<A>(slots, 1, a);
    llmc_gather<B>(slots, 2, b);
    llmc_gather<C>(slots, 3, d);
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++) d[i * n + j] += a[i * k + l] * b[l * n + j];
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; slots[lane] && e < D::different; e++)
            ((D*)((void**)slots[lane])[0])->x[e] = d[D::row(lane, e) * n + D::column(lane, e)];
}
LLMC_QUIET void llmc_product(int line, void* d, const void* a, const void* b, const void* c,
                             void (*multiply)(void**, unsigned)) {
    const void* mine[] = {d, a, b, c};
    llmc_collective(~0u, LLMC_MMA, line, mine, multiply);
}
template <int m, int n, int k, class T, class TD, class TC, class LA, class LB>
LLMC_INLINE void mma_sync(fragment<accumulator, m, n, k, TD>& d, const fragment<matrix_a, m, n, k, T, LA>& a,
                          const fragment<matrix_b, m, n, k, T, LB>& b, const fragment<accumulator, m, n, k, TC>& c,
                          LLMC_HERE) {
    using D = fragment<accumulator, m, n, k, TD>;
    using C = fragment<accumulator, m, n, k, TC>;
    llmc_product(line, &d, &a, &b, &c,
                 llmc_multiply<D, fragment<matrix_a, m, n, k, T, LA>, fragment<matrix_b, m, n, k, T, LB>, C>);
}
}  // namespace wmma
}  // namespace nvcuda
