/* Factors of 8 bits for the products of the linear layer; see backends/fp8.py.

copies v1  x (N, C) times scale, rounded to 8 bits: as it lies, and transposed, since tensor cores multiply 8 bits only
           along k, and the k of dw is the rows of both its factors. One reading; a tile of 128 x 128 per block
matmul v1  the product of two factors, k running along the rows of both; without tensor cores, and without cuBLAS

Macros: FORMAT, of the numbers that `copies` writes and of the first factor of `matmul`; INPUT, the type that `copies`
reads, GELU, whether it takes GELU of that, and WORDS, whether rows and columns consist of 128-bit words; ADD, whether
`matmul` adds to its result.
*/

#include "number.cuh"
#include "number_8.cuh"
#include "gelu_16.cuh"

#ifndef FORMAT
#define FORMAT E4M3
#define INPUT floatX
#define GELU 0
#define WORDS false
#define ADD false
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
        uint4 words = reinterpret_cast<const uint4*>(tile[column])[group ^ column / 8 % 8];
        if (c0 + column < C) put(columns + (size_t)(c0 + column) * N + n, words, N - n);
    }
}

const int TILE = 64, DEPTH = 32;

// tile[k][i] = element (first + i, start + k) of a matrix (n, K), zero outside: eight numbers for each of 256 threads.
template <Format KIND>
__device__ void fetch(float (&tile)[DEPTH][TILE], const Number8<KIND>* a, int first, int start, int n, int K)
{
    int i = threadIdx.x / (DEPTH / 8), k = threadIdx.x % (DEPTH / 8) * 8;
    Eight v;
    load(v, a + (size_t)(first + i) * K + start + k, first + i < n ? K - start - k : 0);
    #pragma unroll
    for (int e = 0; e < 8; e++) tile[k + e][i] = v[e];
}

// result (M, N) = or += scale * a (M, K) bᵀ (K, N), plus bias (N,), or 0 where there is none. b is e4m3.
extern "C" __global__ void __launch_bounds__(256)
    matmul_fp8_v1(floatX* result, const Number8<FORMAT>* a, const Number8<E4M3>* b, const floatX* bias, float scale,
                  int M, int N, int K)
{
    __shared__ float as[DEPTH][TILE], bs[DEPTH][TILE];  // [k][row], [k][column]
    int across = (N + TILE - 1) / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float totals[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch(as, a, m0, k0, M, K);
        fetch(bs, b, n0, k0, N, K);
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                #pragma unroll
                for (int j = 0; j < 4; j++) totals[i][j] += as[k][row + i] * bs[k][column + j];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 16; i++) {
        int m = m0 + row + i / 4, n = n0 + column + i % 4;
        if (m >= M || n >= N) continue;
        floatX* place = result + (size_t)m * N + n;
        float more = (ADD ? widen(*place) : 0.0f) + (bias ? widen(bias[n]) : 0.0f);
        *place = nearest(totals[i / 4][i % 4] * scale + more);
    }
}
