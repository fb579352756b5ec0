/* Factors of 8 bits for the products of the linear layer; see backends/fp8.py. matmul.cu and matmul_persistent.cu multiply.

copies v1  x (N, C) times scale, rounded to 8 bits: as it lies, and transposed, since tensor cores multiply 8 bits only
           along k, and the k of dw is the rows of both its factors. One reading; a tile of 128 x 128 per block

Macros: FORMAT, of what is written; INPUT, the type of what is read, GELU, whether GELU of that is taken, WORDS, whether
rows and columns consist of 128-bit words, and PAIRS, whether each 16 rows of the transposed copy come as 0, 8, 1, 9, …, 7, 15,
as a warp of matmul_persistent.cu has them: in which order a product sums is free, if it is the same in both its factors.
*/

#include "number.cuh"
#include "number_8.cuh"
#include "gelu_16.cuh"

#ifndef FORMAT
#define FORMAT e4m3
#define INPUT floatX
#define GELU 0
#define WORDS false
#endif
#ifndef PAIRS
#define PAIRS false
#endif

const int SIDE = 128;

// Byte i of word j becomes byte j of word i.
__device__ void transpose(unsigned (&words)[4])
{
    unsigned a = __byte_perm(words[0], words[1], 0x5140), b = __byte_perm(words[2], words[3], 0x5140);
    unsigned c = __byte_perm(words[0], words[1], 0x7362), d = __byte_perm(words[2], words[3], 0x7362);
    words[0] = __byte_perm(a, b, 0x5410), words[1] = __byte_perm(a, b, 0x7632);
    words[2] = __byte_perm(c, d, 0x5410), words[3] = __byte_perm(c, d, 0x7632);
}

// Eight numbers as they lie in memory: 16 bits, or 8 bits of each.
template <typename Eights, typename T>
__device__ Eights fetch(const T* p, int left)
{
    Eights eight = {};
    if (WORDS) {
        if (left > 0) eight = *reinterpret_cast<const Eights*>(p);
    } else {
        for (int e = 0; e < 8; e++) {
            if (e < left) reinterpret_cast<T*>(&eight)[e] = p[e];
        }
    }
    return eight;
}

__device__ uint4 fetch(const floatX* p, int left) { return fetch<uint4>(p, left); }

template <Format KIND>
__device__ uint2 fetch(const Number8<KIND>* p, int left) { return fetch<uint2>(p, left); }

// The same times scale, or GELU of it, in 8 bits; what has them already is not touched.
__device__ uint2 converted(uint4 eight, float scale)
{
    Eight v;
    widen(v, eight);
    #pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= GELU ? gate(v[e]) : scale;
    return make_uint2(narrow<FORMAT>(v[0], v[1], v[2], v[3]), narrow<FORMAT>(v[4], v[5], v[6], v[7]));
}

__device__ uint2 converted(uint2 eight, float) { return eight; }

// p[0 ... n - 1] = words, but for those bytes from `left` on.
template <typename Words>
__device__ void put(unsigned char* p, const Words& words, int left)
{
    if (WORDS) {
        if (left > 0) *reinterpret_cast<Words*>(p) = words;
    } else {
        for (int i = 0; i < (int)sizeof(Words); i++) {
            if (i < left) p[i] = reinterpret_cast<const unsigned char*>(&words)[i];
        }
    }
}

// rows (N, C), or 0 · columns (C, N), or 0. Blocks are numbered along one axis, which may have 2^31 of them.
extern "C" __global__ void __launch_bounds__(256)
    copies_v1(unsigned char* rows, unsigned char* columns, const INPUT* x, float scale, int N, int C)
{
    // [column][four rows of it]; a column's groups of four words are swizzled, so that fewer threads meet at a bank
    __shared__ __align__(16) unsigned tile[SIDE][SIDE / 4];
    int across = (C + SIDE - 1) / SIDE, n0 = blockIdx.x / across * SIDE, c0 = blockIdx.x % across * SIDE;
    int c = threadIdx.x % 16 * 8;
    decltype(fetch(x, 0)) eights[2][4];  // eight columns of four rows, and of four more: all are under way at once
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        int n = n0 + 4 * (threadIdx.x / 16) + 64 * (i / 4) + i % 4;
        eights[i / 4][i % 4] = fetch(x + (size_t)n * C + c0 + c, n < N ? C - c0 - c : 0);
    }
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        int four = threadIdx.x / 16 + 16 * half;
        unsigned words[2][4];  // four columns of four rows, and the four columns after them
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            uint2 row = converted(eights[half][i], scale);
            words[0][i] = row.x, words[1][i] = row.y;
            int n = n0 + 4 * four + i;
            if (rows) put(rows + (size_t)n * C + c0 + c, row, n < N ? C - c0 - c : 0);
        }
        #pragma unroll
        for (int k = 0; k < 2; k++) {
            transpose(words[k]);
            #pragma unroll
            for (int e = 0; e < 4; e++) tile[c + 4 * k + e][four ^ c / 8 % 8 * 4] = words[k][e];
        }
    }
    if (!columns) return;
    __syncthreads();
    #pragma unroll
    for (int task = threadIdx.x; task < SIDE * 8; task += 256) {  // sixteen rows of a column
        int column = task / 8, group = task % 8, n = n0 + 16 * group;
        uint4 words = reinterpret_cast<const uint4*>(tile[column])[group ^ column / 8 % 8], w = words;
        if (PAIRS) {
            words.x = __byte_perm(w.x, w.z, 0x5140), words.y = __byte_perm(w.x, w.z, 0x7362);
            words.z = __byte_perm(w.y, w.w, 0x5140), words.w = __byte_perm(w.y, w.w, 0x7362);
        }
        if (c0 + column < C) put(columns + (size_t)(c0 + column) * N + n, words, N - n);
    }
}
