/* Softmax: each row of x becomes probabilities, out = exp(x - max) / sum of exp(x - max).

v1  one thread per row: neighbouring threads are C numbers apart
v2  one block per row: threads side by side; the maximum and the sum come together in a tree in shared memory
v3  the tree by warp shuffles: registers instead of shared memory, one barrier each
v4  one warp per row: no shared memory, no barrier
v5  online: maximum and sum in one pass; a sum is rescaled when the maximum grows (Milakov & Gimelshein 2018)
v6  one block per row, 128-bit loads, the row kept in shared memory: every number is read once
v7  one warp per row, the row kept in registers: all its loads are under way before the first of them is needed

Shapes: out, x (N, C). Lesson 13 climbs this ladder. Every number has to be read once and written once: 8 bytes.
A row may hold -inf (a masked score). A row that holds NaN becomes NaN, and so does a row of nothing but -inf.
*/

#include "warp.cuh"

extern "C" __global__ void softmax_forward_v1(float* out, const float* x, int N, int C)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)   size_t: N * C may exceed 2^31
    out += (size_t)row * C;
    float top = LOWEST, total = 0.0f;
    for (int c = 0; c < C; c++) top = fmaxf(top, x[c]);
    for (int c = 0; c < C; c++) total += expf(x[c] - top);
    for (int c = 0; c < C; c++) out[c] = expf(x[c] - top) / total;
}

// A block has a power of two of threads, at most 1024: each step of the tree halves those that still add.
extern "C" __global__ void __launch_bounds__(1024) softmax_forward_v2(float* out, const float* x, int N, int C)
{
    __shared__ float partial[1024];  // (blockDim.x,) of it: one number of each thread
    int t = threadIdx.x;
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;

    float top = LOWEST;
    for (int c = t; c < C; c += blockDim.x) top = fmaxf(top, x[c]);
    partial[t] = top;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] = fmaxf(partial[t], partial[t + half]);
        __syncthreads();
    }
    top = partial[0];
    __syncthreads();  // all threads have read partial[0] before it is overwritten

    float total = 0.0f;
    for (int c = t; c < C; c += blockDim.x) total += expf(x[c] - top);
    partial[t] = total;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    total = partial[0];

    for (int c = t; c < C; c += blockDim.x) out[c] = expf(x[c] - top) / total;
}

// The maximum, the sum over a block of whole warps; slots (32,) lies in shared memory, and each call needs its own.
__device__ float block_max(float v, float* slots)
{
    v = warp_max(v);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : LOWEST);
}

__device__ float block_sum(float v, float* slots)
{
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(1024) softmax_forward_v3(float* out, const float* x, int N, int C)
{
    __shared__ float tops[32], totals[32];  // one number of each warp
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float top = LOWEST, total = 0.0f;
    for (int c = threadIdx.x; c < C; c += blockDim.x) top = fmaxf(top, x[c]);
    top = block_max(top, tops);
    for (int c = threadIdx.x; c < C; c += blockDim.x) total += expf(x[c] - top);
    total = block_sum(total, totals);
    for (int c = threadIdx.x; c < C; c += blockDim.x) out[c] = expf(x[c] - top) / total;
}

extern "C" __global__ void softmax_forward_v4(float* out, const float* x, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;  // a whole warp leaves, and there is no barrier to miss
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    float top = LOWEST, total = 0.0f;
    for (int c = lane; c < C; c += 32) top = fmaxf(top, x[c]);
    top = warp_max(top);
    for (int c = lane; c < C; c += 32) total += expf(x[c] - top);
    total = warp_sum(total);
    for (int c = lane; c < C; c += 32) out[c] = expf(x[c] - top) / total;
}

extern "C" __global__ void softmax_forward_v5(float* out, const float* x, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    float top = LOWEST, total = 0.0f;  // of what this lane has seen so far; total is relative to top
    for (int c = lane; c < C; c += 32) {
        float higher = fmaxf(top, x[c]);
        total = total * expf(top - higher) + expf(x[c] - higher);
        top = higher;
    }
    float of_row = warp_max(top);
    total = warp_sum(total * expf(top - of_row));
    for (int c = lane; c < C; c += 32) out[c] = expf(x[c] - of_row) / total;
}

// v6 takes one number or four at a time, with one text for both: T is float or float4.
__device__ float highest(float v) { return v; }
__device__ float highest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
__device__ float sum(float v) { return v; }
__device__ float sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ float exps(float v, float top) { return expf(v - top); }
__device__ float4 exps(float4 v, float top)
{
    return make_float4(expf(v.x - top), expf(v.y - top), expf(v.z - top), expf(v.w - top));
}
__device__ float scaled(float v, float factor) { return v * factor; }
__device__ float4 scaled(float4 v, float factor)
{
    return make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
}

// A row of n numbers or quads. kept (n,) in shared memory holds them; where it is null the row is read again from x.
template <typename T>
__device__ void softmax_row(T* out, const T* x, T* kept, int n, float* tops, float* totals)
{
    float top = LOWEST, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        T v = x[i];
        if (kept) kept[i] = v;
        float higher = fmaxf(top, highest(v));
        total = total * expf(top - higher) + sum(exps(v, higher));
        top = higher;
    }
    float of_row = block_max(top, tops);
    float factor = 1.0f / block_sum(total * expf(top - of_row), totals);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {  // each thread reads back the numbers that it wrote itself
        out[i] = scaled(exps(kept ? kept[i] : x[i], of_row), factor);
    }
}

// keep: 1 if there is dynamic shared memory for C numbers, else 0. Quads need addresses that are multiples of 16.
extern "C" __global__ void __launch_bounds__(1024) softmax_forward_v6(float* out, const float* x, int N, int C,
                                                                     int keep)
{
    extern __shared__ float4 row[];  // (C / 4,), or (C,) floats, or nothing
    __shared__ float tops[32], totals[32];
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float4* kept = keep ? row : nullptr;
    if (C % 4 == 0 && ((size_t)x | (size_t)out) % 16 == 0) {
        softmax_row((float4*)out, (const float4*)x, kept, C / 4, tops, totals);
    } else {
        softmax_row(out, x, (float*)kept, C, tops, totals);
    }
}

#ifndef QUADS
#define QUADS 6  // of a row, for each lane: C is at most 128 * QUADS. The launcher compiles the file for its C
#endif

// C is a multiple of 4, and both arrays begin at multiples of 16 bytes.
extern "C" __global__ void softmax_forward_v7(float* out, const float* x, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, n = C / 4;
    if (row >= N) return;
    const float4* from = (const float4*)(x + (size_t)row * C);  // (C / 4,)
    float4* to = (float4*)(out + (size_t)row * C);              // (C / 4,)
    float4 kept[QUADS];                                         // quads lane, lane + 32, lane + 64, ...
    float top = LOWEST, total = 0.0f;
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = lane + 32 * k;
        kept[k] = i < n ? from[i] : make_float4(LOWEST, LOWEST, LOWEST, LOWEST);
    }
    #pragma unroll
    for (int k = 0; k < QUADS; k++) top = fmaxf(top, highest(kept[k]));
    top = warp_max(top);
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        kept[k] = exps(kept[k], top);
        if (lane + 32 * k < n) total += sum(kept[k]);
    }
    float factor = 1.0f / warp_sum(total);
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        if (lane + 32 * k < n) to[lane + 32 * k] = scaled(kept[k], factor);
    }
}
