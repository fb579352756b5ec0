/* out (M, N) = x (M, K) w (N, K)^T + b (N,) for a few rows, M up to 8: the linear layer when one token is sampled.

v1  one or several warps per column of out, 128-bit loads; GELU of the result, too, if GELU

Each weight is used only M times, so the pace is set by reading w, and that by how many loads are under way: a lane
starts AHEAD * COLUMNS of them before it needs the first. x is small and comes from the cache. Sums have a fixed order.
*/

#include "number.cuh"
#include "gelu.cuh"
#include "warp.cuh"

#ifndef M
#define M 1        // rows of x
#define WARPS 4    // of a block
#define COLUMNS 1  // of out that a warp has at once
#define SHARE 1    // warps that have the same columns, each another part of K
#define GELU 0
#endif

const int AHEAD = 4, BLOCK_COLUMNS = WARPS / SHARE * COLUMNS;  // loads of a column; columns of a block
static_assert(WARPS % SHARE == 0 && BLOCK_COLUMNS * M <= 32 * WARPS, "a thread writes one result at most");

// Four words of a row of n, from `start` on with the steps of all warps that share it; beyond its end zeros.
__device__ void fetch(uint4 (&words)[AHEAD], const uint4* row, int start, int n)
{
    #pragma unroll
    for (int a = 0; a < AHEAD; a++) {
        int k = start + 32 * SHARE * a;
        words[a] = k < n ? row[k] : make_uint4(0, 0, 0, 0);
    }
}

// K is a multiple of 8, and x and w begin at multiples of 16 bytes. b: 0 where there is none. gelu_out: GELU of out.
// The bound's 1 tells the compiler to spend registers: it would otherwise start some of the loads later, to save them.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) matvec_v1(floatX* out, floatX* gelu_out, const floatX* x,
                                                                     const floatX* w, const floatX* b, int N, int K)
{
    __shared__ float partial[WARPS][M][COLUMNS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, words = K / 8;
    int first = blockIdx.x * BLOCK_COLUMNS + warp / SHARE * COLUMNS;
    int m = threadIdx.x / BLOCK_COLUMNS, c = threadIdx.x % BLOCK_COLUMNS, n = blockIdx.x * BLOCK_COLUMNS + c;
    bool writes = m < M && n < N;  // out[m][n], with a column that another warp may have summed
    float bias = writes && b ? widen(b[n]) : 0.0f;  // it is on its way early
    const uint4 *rows[COLUMNS], *inputs = reinterpret_cast<const uint4*>(x);  // (words,) each; (M, words)
    float totals[M][COLUMNS] = {};

    #pragma unroll
    for (int i = 0; i < COLUMNS; i++) {  // beyond the last column: that again
        rows[i] = reinterpret_cast<const uint4*>(w) + (size_t)min(first + i, N - 1) * words;
    }
    for (int start = warp % SHARE * 32; start < words; start += 32 * SHARE * AHEAD) {
        uint4 weights[COLUMNS][AHEAD], numbers[AHEAD];
        #pragma unroll
        for (int i = 0; i < COLUMNS; i++) fetch(weights[i], rows[i], start + lane, words);
        #pragma unroll
        for (int row = 0; row < M; row++) {
            fetch(numbers, inputs + (size_t)row * words, start + lane, words);
            #pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                Eight number, weight;
                widen(number, numbers[a]);
                #pragma unroll
                for (int i = 0; i < COLUMNS; i++) {
                    widen(weight, weights[i][a]);
                    #pragma unroll
                    for (int e = 0; e < 8; e++) totals[row][i] += number[e] * weight[e];
                }
            }
        }
    }
    #pragma unroll
    for (int row = 0; row < M; row++) {
        #pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            float total = warp_sum(totals[row][i]);
            if (lane == 0) partial[warp][row][i] = total;
        }
    }
    __syncthreads();
    if (!writes) return;
    float sum = bias;
    #pragma unroll
    for (int part = 0; part < SHARE; part++) sum += partial[c / COLUMNS * SHARE + part][m][c % COLUMNS];
    floatX result = nearest(sum);
    out[(size_t)m * N + n] = result;
#if GELU
    sum = widen(result);
    gelu_out[(size_t)m * N + n] = nearest(sum * gate(sum));
#endif
}
