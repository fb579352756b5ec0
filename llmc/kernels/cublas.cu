/* What products need besides the library: a transposed factor and, for a single row, a kernel in its place.

transpose: out (C, N) = x (N, C)ᵀ. Tensor cores want both factors of a product to run along the dimension that is summed
over.
v1  a tile of 32 x 32 numbers through shared memory, one number at a time
v2  a tile of 64 x 64, with 128-bit loads and stores

A thread that read along a row and wrote along a column would touch a new cache line with every number. So a block
reads a tile along its rows and writes it along its columns. The rows of the tile in shared memory are one number longer
than need be: numbers of one column then lie in different banks.

matmul_row: out (N,) = w (N, K) x (K,) + b (N,), the linear layer for a single token, as in sampling.
v1  a warp per output, 128-bit loads

Each weight is used once, so the pace is set by reading w: 4 bytes for 2 operations. A library's matrix product, made for
many rows, splits the work into tiles that are nearly empty here. A warp reads a row of w from beginning to end; x is
small and comes from the cache. The 32 partial sums are added in a fixed order. With biased == 0, b is not read.
*/

#include "warp.cuh"

const int SIDE = 32;  // of a tile in v1; the block has 32 x 8 threads

extern "C" __global__ void transpose_v1(float* out, const float* x, int N, int C)
{
    __shared__ float tile[SIDE][SIDE + 1];
    int n0 = blockIdx.y * SIDE, c0 = blockIdx.x * SIDE;
    for (int i = threadIdx.y; i < SIDE; i += 8) {
        int n = n0 + i, c = c0 + threadIdx.x;
        if (n < N && c < C) tile[i][threadIdx.x] = x[(size_t)n * C + c];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += 8) {
        int n = n0 + threadIdx.x, c = c0 + i;
        if (n < N && c < C) out[(size_t)c * N + n] = tile[threadIdx.x][i];
    }
}

const int BIG = 64;  // of a tile in v2; the block has 16 x 16 threads, each with four words of four numbers

// N and C are multiples of 4, and both arrays begin at multiples of 16 bytes.
extern "C" __global__ void transpose_v2(float* out, const float* x, int N, int C)
{
    __shared__ float tile[BIG][BIG + 1];
    int n0 = blockIdx.y * BIG, c0 = blockIdx.x * BIG, across = 4 * threadIdx.x;
    #pragma unroll
    for (int i = threadIdx.y; i < BIG; i += 16) {
        if (n0 + i < N && c0 + across < C) {
            float4 v = *reinterpret_cast<const float4*>(x + (size_t)(n0 + i) * C + c0 + across);
            tile[i][across] = v.x, tile[i][across + 1] = v.y, tile[i][across + 2] = v.z, tile[i][across + 3] = v.w;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int i = threadIdx.y; i < BIG; i += 16) {
        if (n0 + across < N && c0 + i < C) {
            float4 v = make_float4(tile[across][i], tile[across + 1][i], tile[across + 2][i], tile[across + 3][i]);
            *reinterpret_cast<float4*>(out + (size_t)(c0 + i) * N + n0 + across) = v;
        }
    }
}

// K is a multiple of 4, and x and w begin at multiples of 16 bytes. Grid: 8 outputs to a block of 8 warps.
extern "C" __global__ void __launch_bounds__(256) matmul_row_v1(float* out, const float* x, const float* w,
                                                                 const float* b, int N, int K, int biased)
{
    int n = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (n >= N) return;
    const float4* weights = reinterpret_cast<const float4*>(w + (size_t)n * K);  // (K / 4,)
    const float4* inputs = reinterpret_cast<const float4*>(x);                   // (K / 4,)
    float total = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < K / 4; k += 32) {
        float4 y = weights[k], z = inputs[k];
        total += y.x * z.x + y.y * z.y + y.z * z.z + y.w * z.w;
    }
    total = warp_sum(total);
    if (lane == 0) out[n] = biased ? total + b[n] : total;
}
