/* Layernorm backward. With norm = (x - mean) * rstd and dnorm = dout * w, over the C numbers of each row:

dx += rstd * (dnorm - mean(dnorm) - norm * mean(dnorm * norm))        dw += sum of dout * norm        db += sum of dout

v4  two stages in a fixed order, without atomics: a kernel for dx, one for partial sums of columns, one for dw and db
v5  one reading: a lane keeps the sums of its columns in registers, 128-bit loads and stores; the last kernel as in v4

Earlier steps are in ladder/layernorm_backward.cu. dx sums along rows, dw and db along columns. v4 therefore reads x
and dout twice, v5 only once. The residual stream forks before every layernorm, and the gradients of both branches add:
all versions do that addition too, as dx +=. So x, dout and dx are read once and dx is written once: 16 bytes per element.
v4 and v5 add in a fixed order: equal runs give equal bits.
Shapes: x, dout, dx (N, C), w, dw, db (C,), mean, rstd (N,), partial (blocks, 2, C).
*/

#include "warp.cuh"

const int ROWS = 8;  // warps of a block, a row each

// Over one row: the mean of dnorm, and the mean of dnorm * norm.
struct Means {
    float dnorm, product;
};

__device__ Means means_of_row(const float* dout, const float* x, const float* w, float mean, float rstd, int C)
{
    float dnorms = 0.0f, products = 0.0f;
    for (int c = threadIdx.x % 32; c < C; c += 32) {
        float dnorm = dout[c] * w[c];
        dnorms += dnorm;
        products += dnorm * (x[c] - mean) * rstd;
    }
    return {warp_sum(dnorms) / C, warp_sum(products) / C};
}

// Block (32, 32): a column for each lane. The warps share the chunks; warp 0 adds what they have found, in order.
extern "C" __global__ void __launch_bounds__(1024) layernorm_backward_final_v3(float* dw, float* db,
                                                                               const float* partial, int chunks, int C)
{
    __shared__ float sums[32][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.x * 32 + lane;  // of 2 * C columns: dw, then db
    float total = 0.0f;
    for (int k = warp; k < chunks && c < 2 * C; k += 32) total += partial[(size_t)k * 2 * C + c];
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && c < 2 * C) {
        for (int k = 1; k < 32; k++) total += sums[k][lane];
        float* place = c < C ? dw + c : db + c - C;
        *place += total;
    }
}

extern "C" __global__ void layernorm_backward_input_v4(float* dx, const float* dout, const float* x, const float* w,
                                                       const float* mean, const float* rstd, int N, int C)
{
    int row = blockIdx.x * ROWS + threadIdx.x / 32;
    if (row >= N) return;
    size_t start = (size_t)row * C;
    dx += start, dout += start, x += start;  // (C,) each
    Means m = means_of_row(dout, x, w, mean[row], rstd[row], C);
    for (int c = threadIdx.x % 32; c < C; c += 32) {
        float norm = (x[c] - mean[row]) * rstd[row];
        dx[c] += (dout[c] * w[c] - m.dnorm - norm * m.product) * rstd[row];
    }
}

// Block (32, ROWS): a column for each lane, so that a warp reads 32 neighbours; the warps and gridDim.y share the rows.
extern "C" __global__ void layernorm_backward_partial_v4(float* partial, const float* dout, const float* x,
                                                         const float* mean, const float* rstd, int N, int C)
{
    __shared__ float dws[ROWS][32], dbs[ROWS][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.x * 32 + lane;
    float dw = 0.0f, db = 0.0f;
    for (int n = blockIdx.y * ROWS + warp; n < N && c < C; n += gridDim.y * ROWS) {
        float d = dout[(size_t)n * C + c];
        dw += d * (x[(size_t)n * C + c] - mean[n]) * rstd[n];
        db += d;
    }
    dws[warp][lane] = dw;
    dbs[warp][lane] = db;
    __syncthreads();
    if (warp == 0 && c < C) {
        for (int k = 1; k < ROWS; k++) {
            dw += dws[k][lane];
            db += dbs[k][lane];
        }
        partial[((size_t)blockIdx.y * 2 + 0) * C + c] = dw;
        partial[((size_t)blockIdx.y * 2 + 1) * C + c] = db;
    }
}

// ------------------------------------------------------------------------------------------ v5: quads in registers

#ifndef QUADS
#define QUADS 6  // of a row, for each lane: C is at most 128 * QUADS. The launcher compiles the file for its C
#endif

__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ float4 operator*(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ float4 operator*(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__device__ float4 operator-(float4 a, float b) { return make_float4(a.x - b, a.y - b, a.z - b, a.w - b); }
__device__ float4 operator-(float4 a, float4 b) { return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }
__device__ float sum(float4 a) { return (a.x + a.y) + (a.z + a.w); }

// One row of n quads, by a warp. dw and db are the sums of this lane's columns, quads lane, lane + 32, lane + 64, ...
__device__ void add_row(float4* dw, float4* db, float4* dx, const float4* dout, const float4* x, const float4* w,
                        float mean, float rstd, int n)
{
    float4 norm[QUADS], dnorm[QUADS], old[QUADS];
    float dnorms = 0.0f, products = 0.0f;
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {  // all loads of a row are under way before the first of them is needed
        int i = threadIdx.x % 32 + 32 * k;
        bool inside = i < n;
        float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        norm[k] = inside ? x[i] : zero;
        dnorm[k] = inside ? dout[i] : zero;
        old[k] = inside ? dx[i] : zero;
    }
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = threadIdx.x % 32 + 32 * k;
        norm[k] = (norm[k] - mean) * rstd;
        db[k] = db[k] + dnorm[k];  // dout so far
        dw[k] = dw[k] + dnorm[k] * norm[k];
        if (i < n) dnorm[k] = dnorm[k] * w[i];
        dnorms += sum(dnorm[k]);
        products += sum(dnorm[k] * norm[k]);
    }
    dnorms = warp_sum(dnorms) / (4 * n);
    products = warp_sum(products) / (4 * n);
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = threadIdx.x % 32 + 32 * k;
        if (i < n) dx[i] = old[k] + (dnorm[k] - dnorms - norm[k] * products) * rstd;
    }
}

// One block for each multiprocessor: it takes most of its registers.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    layernorm_backward_partial_v5(float* dx, float* partial, const float* dout, const float* x, const float* w,
                                  const float* mean, const float* rstd, int N, int C)
{
    extern __shared__ float4 quads[];  // (2, C / 4): dw and db of this block
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = C / 4;
    float4 dw[QUADS] = {}, db[QUADS] = {};
    for (int row = blockIdx.x * ROWS + warp; row < N; row += gridDim.x * ROWS) {
        size_t start = (size_t)row * C;
        add_row(dw, db, (float4*)(dx + start), (const float4*)(dout + start), (const float4*)(x + start),
                (const float4*)w, mean[row], rstd[row], n);
    }
    for (int turn = 0; turn < ROWS; turn++) {  // one warp after the other, so that the order is fixed
        #pragma unroll
        for (int k = 0; k < QUADS; k++) {
            int i = lane + 32 * k;
            if (warp == turn && i < n) {
                quads[i] = turn ? quads[i] + dw[k] : dw[k];
                quads[n + i] = turn ? quads[n + i] + db[k] : db[k];
            }
        }
        __syncthreads();
    }
    float4* mine = (float4*)partial + (size_t)blockIdx.x * 2 * n;  // (2, C / 4)
    for (int i = threadIdx.x; i < 2 * n; i += blockDim.x) mine[i] = quads[i];
}
