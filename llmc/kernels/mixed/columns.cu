/* Sums of columns, in a fixed order and in two stages: within chunks of rows, in parallel, and then over the chunks.

bias_backward v1        partial (chunks, C) = sums of dout (N, C) within chunks of rows
bias_backward v2        four rows are under way before the first is added; rows consist of 128-bit words
round_bias_backward v2  the same for dout in float, which is rounded first, and kept rounded: one reading, not two
add_chunks v2           up to three vectors += the columns of partial (chunks, columns); rounded once, at the very end
*/

#include "number.cuh"

const int ROWS = 8;  // warps of a block, a row each

// The block's chunk of partial, columns c … c + 7: the sum of what its warps have found, each its own `total`.
__device__ void add_warps(float* partial, Eight& total, int c, int C)
{
    __shared__ Eight sums[ROWS][32];
    int lane = threadIdx.x, warp = threadIdx.y;
    store(sums[warp][lane], total, 8);
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int k = 1; k < ROWS; k++) {
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += sums[k][lane][e];
    }
    store(partial + (size_t)blockIdx.y * C + c, total, C - c);
}

// Grid and block as for the columns of layernorm.cu.
extern "C" __global__ void __launch_bounds__(256) bias_backward_v1(float* partial, const floatX* dout, int N, int C)
{
    int warp = threadIdx.y, c = (blockIdx.x * 32 + threadIdx.x) * 8;
    Eight total = {}, row;
    for (int n = blockIdx.y * ROWS + warp; n < N && c < C; n += gridDim.y * ROWS) {
        load(row, dout + (size_t)n * C + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) total[e] += row[e];
    }
    add_warps(partial, total, c, C);
}

// ------------------------------------------------------------------------------------------ v2: four rows at a time

const int TOGETHER = 4;  // rows whose loads a thread starts before it needs the first

struct Row16 {
    uint4 four;
    __device__ void load(const floatX* p) { four = *reinterpret_cast<const uint4*>(p); }
    __device__ uint4 rounded() const { return four; }
};

struct Row32 {
    float4 low, high;
    __device__ void load(const float* p)
    {
        low = reinterpret_cast<const float4*>(p)[0], high = reinterpret_cast<const float4*>(p)[1];
    }
    __device__ uint4 rounded() const
    {
        Eight v = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        return narrow(v);
    }
};

// rounded: 0, or where the rows go once they have been rounded.
template <typename Row, typename X>
__device__ void sum_columns(float* partial, floatX* rounded, const X* dout, int N, int C)
{
    int warp = threadIdx.y, c = (blockIdx.x * 32 + threadIdx.x) * 8, step = gridDim.y * ROWS;
    Eight total = {}, v;
    for (int n = blockIdx.y * ROWS + warp; n < N && c < C; n += TOGETHER * step) {
        Row rows[TOGETHER];
        #pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (n + k * step < N) rows[k].load(dout + (size_t)(n + k * step) * C + c);
        }
        #pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (n + k * step >= N) break;
            uint4 four = rows[k].rounded();
            if (rounded) *reinterpret_cast<uint4*>(rounded + (size_t)(n + k * step) * C + c) = four;
            widen(v, four);
            #pragma unroll
            for (int e = 0; e < 8; e++) total[e] += v[e];
        }
    }
    add_warps(partial, total, c, C);
}

extern "C" __global__ void __launch_bounds__(256) bias_backward_v2(float* partial, const floatX* dout, int N, int C)
{
    sum_columns<Row16>(partial, (floatX*)0, dout, N, C);
}

extern "C" __global__ void __launch_bounds__(256)
    round_bias_backward_v2(float* partial, floatX* rounded, const float* dout, int N, int C)
{
    sum_columns<Row32>(partial, rounded, dout, N, C);
}

const int AT_ONCE = 8;  // chunks whose loads a thread starts before it adds the first

// Block (32, 32): a column for each lane. The warps share the chunks; warp 0 adds what they have found, in order.
// partial (chunks, columns): columns from C on are those of `second`, from 2C on of `third`. kept: how many of the three
// keep what is in them; the others are written.
extern "C" __global__ void __launch_bounds__(1024)
    add_chunks_v2(floatX* first, floatX* second, floatX* third, const float* partial, int chunks, int columns, int C,
                  int kept)
{
    __shared__ float sums[32][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.x * 32 + lane;
    float total = 0.0f;
    for (int start = warp; start < chunks && c < columns; start += 32 * AT_ONCE) {
        float found[AT_ONCE];
        #pragma unroll
        for (int e = 0; e < AT_ONCE; e++) {
            int k = start + 32 * e;
            found[e] = k < chunks ? partial[(size_t)k * columns + c] : 0.0f;
        }
        #pragma unroll
        for (int e = 0; e < AT_ONCE; e++) total += found[e];
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp > 0 || c >= columns) return;
    for (int k = 1; k < 32; k++) total += sums[k][lane];
    int which = c / C;
    floatX* place = (which == 0 ? first : which == 1 ? second : third) + c % C;
    *place = nearest(which < kept ? widen(*place) + total : total);
}
