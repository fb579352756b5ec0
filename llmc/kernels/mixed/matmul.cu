/* The three products of the linear layer, with sums in float: where there is no cuBLAS, or none that takes these arrays.

v1  a tile of 64 x 64 results per block, 4 x 4 per thread; both factors come to shared memory 32 numbers of k at a time

Versions 2 and 6, on tensor cores, are in matmul_wmma.cu and matmul_stages.cu; 9, on Hopper's, is in
matmul_persistent.cu; the steps between them are in ladder/mixed.

Each product is result (M, N) = A (M, K) B (K, N), as in llmc/kernels/matmul.cu. Three macros say which: A_RUNS and
B_RUNS, whether k is the index that runs through memory in a and in b, and ADD, whether the result is added to. A result
is rounded once, when everything has been added, the bias too. With A_TYPE, factors have 8 bits, a those of A_TYPE and b e4m3,
and sums are multiplied by `scale`.
*/

#include "number.cuh"
#include "number_8.cuh"

#ifndef A_RUNS
#define A_RUNS true
#define B_RUNS true
#define ADD false
#endif

#ifdef A_TYPE
typedef Number8<A_TYPE> A;
typedef Number8<e4m3> B;
#else
typedef floatX A, B;
#endif

const int TILE = 64, DEPTH = 32;

// tile[k][i] = element (first + i, start + k) of a matrix (n, K), zero outside: eight numbers for each of 256 threads.
template <bool RUNS, typename T>
__device__ void fetch(float (&tile)[DEPTH][TILE], const T* a, int first, int start, int n, int K)
{
    Eight v;
    if (RUNS) {
        int i = threadIdx.x / (DEPTH / 8), k = threadIdx.x % (DEPTH / 8) * 8;
        load(v, a + (size_t)(first + i) * K + start + k, first + i < n ? K - start - k : 0);
        #pragma unroll
        for (int e = 0; e < 8; e++) tile[k + e][i] = v[e];
    } else {
        int k = threadIdx.x / (TILE / 8), i = threadIdx.x % (TILE / 8) * 8;
        load(v, a + (size_t)(start + k) * n + first + i, start + k < K ? n - first - i : 0);
        #pragma unroll
        for (int e = 0; e < 8; e++) tile[k][i + e] = v[e];
    }
}

// bias (N,), or 0 where there is none. Blocks are numbered along one axis, which may have 2^31 of them.
extern "C" __global__ void __launch_bounds__(256)
    matmul_v1(floatX* result, const A* a, const B* b, const floatX* bias, int M, int N, int K, float scale)
{
    __shared__ float as[DEPTH][TILE], bs[DEPTH][TILE];  // [k][row], [k][column]
    int across = (N + TILE - 1) / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float totals[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch<A_RUNS>(as, a, m0, k0, M, K);
        fetch<B_RUNS>(bs, b, n0, k0, N, K);
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
