/* Factors of 8 bits for the products of the linear layer; see backends/fp8.py.

copies v1  x (N, C) times scale, rounded to 8 bits: as it lies, and transposed, since tensor cores multiply 8 bits only
           along k, and the k of dw is the rows of both its factors. One reading; a tile of 128 x 128 per block
matmul v1  the product of two factors, k running along the rows of both; without tensor cores, and without cuBLAS

Macros: FORMAT, of the numbers that `copies` writes and of the first factor of `matmul`; INPUT, the type that `copies`
reads; ADD, whether `matmul` adds to its result.
*/

#include "number.cuh"
#include "number_8.cuh"

#ifndef FORMAT
#define FORMAT E4M3
#define INPUT floatX
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

// rows (N, C), or 0 · columns (C, N), or 0. Blocks are numbered along one axis, which may have 2^31 of them.
extern "C" __global__ void __launch_bounds__(256)
    copies_v1(unsigned char* rows, unsigned char* columns, const INPUT* x, float scale, int N, int C)
{
    // [column][four rows of it]; a column's groups of four words are swizzled, so that fewer threads meet at a bank
    __shared__ __align__(16) unsigned tile[SIDE][SIDE / 4];
    int across = (C + SIDE - 1) / SIDE, n0 = blockIdx.x / across * SIDE, c0 = blockIdx.x % across * SIDE;
    #pragma unroll
    for (int half = 0; half < 2; half++) {  // eight columns of four rows, twice
        int c = threadIdx.x % 16 * 8, four = threadIdx.x / 16 + 16 * half, n = n0 + 4 * four;
        Eight v[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) load(v[i], x + (size_t)(n + i) * C + c0 + c, n + i < N ? C - c0 - c : 0);
        unsigned words[2][4];  // four columns of four rows, and four more
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int e = 0; e < 8; e++) v[i][e] *= scale;
            words[0][i] = narrow<FORMAT>(v[i][0], v[i][1], v[i][2], v[i][3]);
            words[1][i] = narrow<FORMAT>(v[i][4], v[i][5], v[i][6], v[i][7]);
            unsigned row[2] = {words[0][i], words[1][i]};
            if (rows) store_bytes(rows + (size_t)(n + i) * C + c0 + c, row, n + i < N ? C - c0 - c : 0);
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
        int c = task / 8, group = task % 8, n = n0 + 16 * group;
        const unsigned* from = tile[c] + 4 * (group ^ c / 8 % 8);
        unsigned words[4] = {from[0], from[1], from[2], from[3]};
        if (c0 + c < C) store_bytes(columns + (size_t)(c0 + c) * N + n, words, N - n);
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
