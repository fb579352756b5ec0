/* Layernorm: norm is each row of x at mean 0 and variance 1, out = norm * w + b; the backward pass needs mean and rstd.

layernorm_forward
v1  one thread per row: neighbouring threads are C numbers apart
v2  one block per row: threads side by side; the two sums come together in a tree in shared memory
v3  the tree by warp shuffles: registers instead of shared memory, one barrier each
v4  one warp per row: no shared memory, no barrier
v5  online: mean and variance in one pass, merged from lane to lane (Welford 1962, Chan et al. 1979)
v6  one warp per row, 128-bit loads, the row kept in shared memory: every number is read once
v7  the row kept in registers: all loads of a row are under way before the first of them is needed

residual_layernorm_forward: residual = x1 + x2 and its layernorm, in one kernel: the sum is not read again
v1  as v4 above
v2  as v6 above
v3  as v7 above

layernorm_again: out once more, from x, mean and rstd
v1  one warp per row, 128-bit loads

Shapes: x, out, residual (N, C), w, b (C,), mean, rstd (N,). Lesson 13 climbs this ladder. All arrays are distinct.
Every number of x has to be read once, every one of out written once: 8 bytes each, 16 where a residual is added.
The variance is the mean of (x - mean)^2: E[x^2] - E[x]^2 would cancel where the mean is large.
*/

const unsigned ALL = 0xffffffff;  // all 32 lanes of a warp take part
const float EPS = 1e-5f;

extern "C" __global__ void layernorm_forward_v1(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)   size_t: N * C may exceed 2^31
    out += (size_t)row * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = 0; c < C; c++) total += x[c];
    float m = total / C;
    for (int c = 0; c < C; c++) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(squares / C + EPS);
    for (int c = 0; c < C; c++) out[c] = (x[c] - m) * r * w[c] + b[c];
    mean[row] = m;
    rstd[row] = r;
}

// The sum over a block, by a tree: of a power of two of threads, each step halves those that still add. All get it.
__device__ float tree_sum(float v, float* partial)
{
    int t = threadIdx.x;
    partial[t] = v;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    float total = partial[0];
    __syncthreads();  // all threads have read partial[0] before the next sum overwrites it
    return total;
}

extern "C" __global__ void __launch_bounds__(1024) layernorm_forward_v2(float* out, float* mean, float* rstd,
                                                                       const float* x, const float* w,
                                                                       const float* b, int N, int C)
{
    __shared__ float partial[1024];  // (blockDim.x,) of it: one number of each thread
    int t = threadIdx.x;
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = t; c < C; c += blockDim.x) total += x[c];
    float m = tree_sum(total, partial) / C;
    for (int c = t; c < C; c += blockDim.x) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(tree_sum(squares, partial) / C + EPS);
    for (int c = t; c < C; c += blockDim.x) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (t == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}

// The sum over the 32 lanes of a warp; every lane gets it.
__device__ float warp_sum(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

// The sum over a block of whole warps; slots (32,) lies in shared memory, and each call needs its own.
__device__ float block_sum(float v, float* slots)
{
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(1024) layernorm_forward_v3(float* out, float* mean, float* rstd,
                                                                       const float* x, const float* w,
                                                                       const float* b, int N, int C)
{
    __shared__ float totals[32], squares_[32];  // one number of each warp
    int t = threadIdx.x;
    x += (size_t)blockIdx.x * C;  // (C,)
    out += (size_t)blockIdx.x * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = t; c < C; c += blockDim.x) total += x[c];
    float m = block_sum(total, totals) / C;
    for (int c = t; c < C; c += blockDim.x) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(block_sum(squares, squares_) / C + EPS);
    for (int c = t; c < C; c += blockDim.x) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (t == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}

extern "C" __global__ void layernorm_forward_v4(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;  // a whole warp leaves, and there is no barrier to miss
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    float total = 0.0f, squares = 0.0f;
    for (int c = lane; c < C; c += 32) total += x[c];
    float m = warp_sum(total) / C;
    for (int c = lane; c < C; c += 32) squares += (x[c] - m) * (x[c] - m);
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    for (int c = lane; c < C; c += 32) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

// What one pass knows about the numbers so far: their count, their mean, and the sum of (x - mean)^2.
struct Moments {
    float count, mean, squares;
};

// The moments of both together. It squares no large mean, so nothing cancels.
__device__ Moments merge(Moments a, Moments b)
{
    float count = a.count + b.count, gap = b.mean - a.mean;
    float share = count > 0.0f ? b.count / count : 0.0f;  // 0: two lanes that saw no number, where C < 32
    return {count, a.mean + gap * share, a.squares + b.squares + gap * gap * a.count * share};
}

extern "C" __global__ void layernorm_forward_v5(float* out, float* mean, float* rstd, const float* x, const float* w,
                                                const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= N) return;
    x += (size_t)row * C;  // (C,)
    out += (size_t)row * C;
    Moments seen = {0.0f, 0.0f, 0.0f};
    for (int c = lane; c < C; c += 32) seen = merge(seen, {1.0f, x[c], 0.0f});  // one number is its own mean
    for (int gap = 16; gap > 0; gap /= 2) {
        float count = __shfl_down_sync(ALL, seen.count, gap), centre = __shfl_down_sync(ALL, seen.mean, gap);
        seen = merge(seen, {count, centre, __shfl_down_sync(ALL, seen.squares, gap)});
    }
    float m = __shfl_sync(ALL, seen.mean, 0);  // lane 0 has merged them all; the others get its numbers, bit for bit
    float r = rsqrtf(__shfl_sync(ALL, seen.squares, 0) / C + EPS);
    for (int c = lane; c < C; c += 32) out[c] = (x[c] - m) * r * w[c] + b[c];
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

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

extern "C" __global__ void residual_layernorm_forward_v1(float* residual, float* out, float* mean, float* rstd,
                                                         const float* x1, const float* x2, const float* w,
                                                         const float* b, int N, int C)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    layernorm_row<float, true>(residual + start, out + start, mean + row, rstd + row, x1 + start, x2 + start, w, b,
                               nullptr, C, C);
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
