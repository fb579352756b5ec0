/* Sums of columns, in a fixed order and in two stages: within chunks of rows, in parallel, and then over the chunks.

bias_backward  partial (chunks, C) = sums of dout (N, C) within chunks of rows
add_chunks     sums (C,) += the columns of partial (chunks, C); rounded once, when all has been added
*/

#include "number.cuh"

const int ROWS = 8;  // warps of a block, a row each

// Grid and block as for the columns of layernorm.cu.
extern "C" __global__ void __launch_bounds__(256) bias_backward_v1(float* partial, const floatX* dout, int N, int C)
{
    __shared__ Eight sums[ROWS][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = (blockIdx.x * 32 + lane) * 8;
    Eight total = {}, row;
    for (int n = blockIdx.y * ROWS + warp; n < N && c < C; n += gridDim.y * ROWS) {
        load(row, dout + (size_t)n * C + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += row[e];
    }
    store(sums[warp][lane], total, 8);
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int k = 1; k < ROWS; k++) {
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += sums[k][lane][e];
    }
    store(partial + (size_t)blockIdx.y * C + c, total, C - c);
}

// One thread per column.
extern "C" __global__ void add_chunks_v1(floatX* sums, const float* partial, int chunks, int C)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float total = widen(sums[c]);
    for (int k = 0; k < chunks; k++) total += partial[(size_t)k * C + c];
    sums[c] = nearest(total);
}
