/* Layernorm: norm is each row of x at mean 0 and variance 1, out = norm * w + b; the backward pass needs mean and rstd.

layernorm_forward
v6  one warp per row, 128-bit loads, the row kept in shared memory: every number is read once
v7  the row kept in registers: all loads of a row are under way before the first of them is needed

residual_layernorm_forward: residual = x1 + x2 and its layernorm, in one kernel: the sum is not read again
v2  as v6 above
v3  as v7 above

layernorm_again: out once more, from x, mean and rstd
v1  one warp per row, 128-bit loads

Shapes: x, out, residual (N, C), w, b (C,), mean, rstd (N,). Lesson 13 climbs here from v1, in ladder/layernorm.cu. All
arrays are distinct. Every number of x has to be read once, every one of out written once: 8 bytes each, 16 where a
residual is added. The variance is the mean of (x - mean)^2: E[x^2] - E[x]^2 would cancel where the mean is large.
*/

#include "warp.cuh"

const float EPS = 1e-5f;

// The last versions take one number or four at a time, with one text for both: T is float or float4.
__device__ float sum(float v) { return v; }
__device__ float sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ float square(float v, float m) { return (v - m) * (v - m); }
__device__ float square(float4 v, float m) { return square(v.x, m) + square(v.y, m) + square(v.z, m) + square(v.w, m); }
__device__ float add(float v, float u) { return v + u; }
__device__ float4 add(float4 v, float4 u) { return make_float4(v.x + u.x, v.y + u.y, v.z + u.z, v.w + u.w); }
__device__ float norm(float v, float m, float r, float w, float b) { return (v - m) * r * w + b; }
__device__ float4 norm(float4 v, float m, float r, float4 w, float4 b)
{
    return make_float4(norm(v.x, m, r, w.x, b.x), norm(v.y, m, r, w.y, b.y),
                       norm(v.z, m, r, w.z, b.z), norm(v.w, m, r, w.w, b.w));
}

__device__ bool aligned(const void* p) { return (size_t)p % 16 == 0; }  // as 128-bit accesses need it

// A row of n numbers or quads, of C numbers in all, by one warp. kept (n,) in shared memory holds x, or x1 + x2, which
// also goes to residual. Where there is no room kept is null, and the row is read again from x or residual.
template <typename T, bool ADD>
__device__ void layernorm_row(T* residual, T* __restrict__ out, float* mean, float* rstd, const T* __restrict__ x1,
                              const T* __restrict__ x2, const T* __restrict__ w, const T* __restrict__ b, T* kept,
                              int n, int C)
{
    int lane = threadIdx.x % 32;
    const T* again = kept ? kept : ADD ? residual : x1;  // each lane reads back the numbers that it wrote itself
    float total = 0.0f, squares = 0.0f;
    for (int i = lane; i < n; i += 32) {
        T v = x1[i];
        if (ADD) {
            v = add(v, x2[i]);
            residual[i] = v;
        }
        if (kept) kept[i] = v;
        total += sum(v);
    }
    float m = warp_sum(total) / C;
    for (int i = lane; i < n; i += 32) squares += square(again[i], m);
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    for (int i = lane; i < n; i += 32) out[i] = norm(again[i], m, r, w[i], b[i]);
    if (lane == 0) {
        *mean = m;
        *rstd = r;
    }
}

// keep: 1 if each warp has dynamic shared memory for C numbers, else 0.
extern "C" __global__ void layernorm_forward_v6(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C, int keep)
{
    extern __shared__ float4 rows[];  // (warps of the block, C) floats, or nothing
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    float* kept = keep ? (float*)rows + threadIdx.x / 32 * C : nullptr;  // (C,)
    if (C % 4 == 0 && aligned(out) && aligned(x) && aligned(w) && aligned(b)) {
        layernorm_row<float4, false>(nullptr, (float4*)out, mean + row, rstd + row, (const float4*)x, nullptr,
                                     (const float4*)w, (const float4*)b, (float4*)kept, C / 4, C);
    } else {
        layernorm_row<float, false>(nullptr, out, mean + row, rstd + row, x, nullptr, w, b, kept, C, C);
    }
}

extern "C" __global__ void residual_layernorm_forward_v2(float* residual, float* out, float* mean, float* rstd,
                                                         const float* x1, const float* x2, const float* w,
                                                         const float* b, int N, int C, int keep)
{
    extern __shared__ float4 rows[];  // (warps of the block, C) floats, or nothing
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    residual += start, out += start, x1 += start, x2 += start;  // (C,) each
    float* kept = keep ? (float*)rows + threadIdx.x / 32 * C : nullptr;  // (C,)
    bool quads = aligned(residual) && aligned(out) && aligned(x1) && aligned(x2) && aligned(w) && aligned(b);
    if (C % 4 == 0 && quads) {
        layernorm_row<float4, true>((float4*)residual, (float4*)out, mean + row, rstd + row, (const float4*)x1,
                                    (const float4*)x2, (const float4*)w, (const float4*)b, (float4*)kept, C / 4, C);
    } else {
        layernorm_row<float, true>(residual, out, mean + row, rstd + row, x1, x2, w, b, kept, C, C);
    }
}

// ----------------------------------------------------------------------------------------- the row in registers

#ifndef QUADS
#define QUADS 6  // of a row, for each lane: C is at most 128 * QUADS. The launcher compiles the file for its C
#endif

// A row of n quads, by one warp; with ADD, of x1 + x2, which also goes to residual.
template <bool ADD>
__device__ void layernorm_quads(float4* residual, float4* out, float* mean, float* rstd, const float4* x1,
                                const float4* x2, const float4* w, const float4* b, int n)
{
    int lane = threadIdx.x % 32, C = 4 * n;
    float4 row[QUADS], other[QUADS];  // quads lane, lane + 32, lane + 64, ...
    float total = 0.0f, squares = 0.0f;
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = lane + 32 * k;
        row[k] = i < n ? x1[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (ADD && i < n) other[k] = x2[i];
    }
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = lane + 32 * k;
        if (ADD && i < n) {
            row[k] = add(row[k], other[k]);
            residual[i] = row[k];
        }
        total += sum(row[k]);
    }
    float m = warp_sum(total) / C;
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        if (lane + 32 * k < n) squares += square(row[k], m);
    }
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = lane + 32 * k;
        if (i < n) out[i] = norm(row[k], m, r, w[i], b[i]);
    }
    if (lane == 0) {
        *mean = m;
        *rstd = r;
    }
}

// C is a multiple of 4, and all arrays begin at multiples of 16 bytes.
extern "C" __global__ void layernorm_forward_v7(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    layernorm_quads<false>(nullptr, (float4*)(out + start), mean + row, rstd + row, (const float4*)(x + start),
                           nullptr, (const float4*)w, (const float4*)b, C / 4);
}

extern "C" __global__ void residual_layernorm_forward_v3(float* residual, float* out, float* mean, float* rstd,
                                                         const float* x1, const float* x2, const float* w,
                                                         const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    layernorm_quads<true>((float4*)(residual + start), (float4*)(out + start), mean + row, rstd + row,
                          (const float4*)(x1 + start), (const float4*)(x2 + start), (const float4*)w,
                          (const float4*)b, C / 4);
}

// ------------------------------------------------------------------------------------------------ out once more

// n numbers or quads of a row, by one warp.
template <typename T>
__device__ void norm_row(T* out, const T* x, const T* w, const T* b, float m, float r, int n)
{
    for (int i = threadIdx.x % 32; i < n; i += 32) out[i] = norm(x[i], m, r, w[i], b[i]);
}

extern "C" __global__ void layernorm_again_v1(float* out, const float* x, const float* w, const float* b,
                                              const float* mean, const float* rstd, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    if (C % 4 == 0 && aligned(out) && aligned(x) && aligned(w) && aligned(b)) {
        norm_row((float4*)out, (const float4*)x, (const float4*)w, (const float4*)b, mean[row], rstd[row], C / 4);
    } else {
        norm_row(out, x, w, b, mean[row], rstd[row], C);
    }
}
