/* Layernorm, forward and backward, with float statistics. What it reads, x, is the residual stream and therefore float.

forward, residual_forward  one warp per row; the row is read again from the cache for the variance and for the output
again                      the output once more, bit for bit, from the statistics
backward_input             one warp per row: dx += rstd * (dnorm - mean(dnorm) - norm * mean(dnorm * norm))
backward_columns           sums of dout * norm and of dout within chunks of rows; columns.cu adds the chunks to dw and db
backward                   v2 of both, in one reading: rows come in the background (cp.async), a lane keeps the sums
                           of its columns in registers
backward                   v3 also writes the new dx rounded to 16 bits, and sums the columns of that

Shapes: x, dx, residual (N, C) float; out, dout (N, C); w, b (C,); mean, rstd (N,) float; partial (chunks, 2, C) float.
Each lane has eight numbers of a row at a time, 32 * 8 numbers apart. All sums have a fixed order.
*/

#include "number.cuh"
#include "batches.cuh"

const unsigned ALL = 0xffffffff;  // all 32 lanes of a warp take part
const int ROWS = 8;               // warps of a block, a row each
const float EPS = 1e-5f;

__device__ int first_of_lane() { return threadIdx.x % 32 * 8; }
__device__ int row_of_warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

__device__ float warp_sum(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

// out = norm * w + b for one row. fmaf: spelled out, so that all kernels round alike.
__device__ void write_norm(floatX* out, const float* x, const floatX* w, const floatX* b, float m, float r, int C)
{
    Eight v, weight, bias;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        load(v, x + c, C - c);
        load(weight, w + c, C - c);
        load(bias, b + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) v[e] = fmaf((v[e] - m) * r, weight[e], bias[e]);
        store(out + c, v, C - c);
    }
}

// One row, whose numbers add up to the warp's `total`.
__device__ void normalize(floatX* out, float* mean, float* rstd, const float* x, const floatX* w, const floatX* b,
                          float total, int C)
{
    float m = warp_sum(total) / C, squares = 0.0f;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        Eight v;
        load(v, x + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) squares += c + e < C ? (v[e] - m) * (v[e] - m) : 0.0f;
    }
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    write_norm(out, x, w, b, m, r, C);
    if (threadIdx.x % 32 == 0) {
        *mean = m;
        *rstd = r;
    }
}

extern "C" __global__ void layernorm_forward_v1(floatX* out, float* mean, float* rstd, const float* x, const floatX* w,
                                                const floatX* b, int N, int C)
{
    int row = row_of_warp();
    if (row >= N) return;      // a whole warp leaves, and there is no barrier to miss
    x += (size_t)row * C;      // (C,)   size_t: N * C may exceed 2^31
    float total = 0.0f;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        Eight v;
        load(v, x + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) total += v[e];
    }
    normalize(out + (size_t)row * C, mean + row, rstd + row, x, w, b, total, C);
}

// residual = x1 + x2, and its layernorm. Each lane reads back the numbers that it wrote itself.
extern "C" __global__ void residual_layernorm_forward_v1(float* residual, floatX* out, float* mean, float* rstd,
                                                         const float* x1, const floatX* x2, const floatX* w,
                                                         const floatX* b, int N, int C)
{
    int row = row_of_warp();
    if (row >= N) return;
    size_t start = (size_t)row * C;
    float total = 0.0f;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        Eight v, more;
        load(v, x1 + start + c, C - c);
        load(more, x2 + start + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) total += v[e] += more[e];
        store(residual + start + c, v, C - c);
    }
    normalize(out + start, mean + row, rstd + row, residual + start, w, b, total, C);
}

extern "C" __global__ void layernorm_again_v1(floatX* out, const float* x, const floatX* w, const floatX* b,
                                              const float* mean, const float* rstd, int N, int C)
{
    int row = row_of_warp();
    if (row >= N) return;
    size_t start = (size_t)row * C;
    write_norm(out + start, x + start, w, b, mean[row], rstd[row], C);
}

extern "C" __global__ void layernorm_backward_input_v1(float* dx, const floatX* dout, const float* x, const floatX* w,
                                                       const float* mean, const float* rstd, int N, int C)
{
    int row = row_of_warp();
    if (row >= N) return;
    dx += (size_t)row * C, dout += (size_t)row * C, x += (size_t)row * C;  // (C,) each
    float m = mean[row], r = rstd[row], dnorms = 0.0f, products = 0.0f;
    Eight norm, dnorm, weight, sum;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        load(norm, x + c, C - c);
        load(dnorm, dout + c, C - c);
        load(weight, w + c, C - c);  // zero outside, and so is dnorm
        #pragma unroll
        for (int e = 0; e < 8; e++) {
            dnorms += dnorm[e] * weight[e];
            products += dnorm[e] * weight[e] * (norm[e] - m) * r;
        }
    }
    dnorms = warp_sum(dnorms) / C;
    products = warp_sum(products) / C;
    for (int c = first_of_lane(); c < C; c += 32 * 8) {
        load(norm, x + c, C - c);
        load(dnorm, dout + c, C - c);
        load(weight, w + c, C - c);
        load(sum, dx + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += (dnorm[e] * weight[e] - dnorms - (norm[e] - m) * r * products) * r;
        store(dx + c, sum, C - c);
    }
}

// Grid: chunks of 256 columns in x, chunks of rows in y. Block (32, ROWS): eight columns for each lane; the warps and
// gridDim.y share the rows, and warp 0 adds what the warps found, in order.
extern "C" __global__ void __launch_bounds__(256)
    layernorm_backward_columns_v1(float* partial, const floatX* dout, const float* x, const float* mean,
                                  const float* rstd, int N, int C)
{
    __shared__ Eight dws[ROWS][32], dbs[ROWS][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = (blockIdx.x * 32 + lane) * 8;
    Eight dw = {}, db = {}, d, v;
    for (int n = blockIdx.y * ROWS + warp; n < N && c < C; n += gridDim.y * ROWS) {
        load(d, dout + (size_t)n * C + c, C - c);
        load(v, x + (size_t)n * C + c, C - c);
        #pragma unroll
        for (int e = 0; e < 8; e++) {
            dw[e] += d[e] * (v[e] - mean[n]) * rstd[n];
            db[e] += d[e];
        }
    }
    store(dws[warp][lane], dw, 8);
    store(dbs[warp][lane], db, 8);
    __syncthreads();
    if (warp > 0 || c >= C) return;
    for (int k = 1; k < ROWS; k++) {
        #pragma unroll
        for (int e = 0; e < 8; e++) dw[e] += dws[k][lane][e], db[e] += dbs[k][lane][e];
    }
    partial += (size_t)blockIdx.y * 2 * C;  // (2, C)
    store(partial + c, dw, C - c);
    store(partial + C + c, db, C - c);
}

// ------------------------------------------------------------------------------------- v2 and v3: one reading

#ifndef QUADS     // the launcher compiles the file for its C
#define QUADS 6   // of a row, for each lane: C is at most 128 * QUADS
#define WARPS 8   // of a block, and
#define STAGES 3  // rows of each in shared memory: one that it works on, and those that are on their way
#endif

typedef float Quad[4];

__device__ void load4(Quad& v, const float* p)
{
    float4 four = *reinterpret_cast<const float4*>(p);
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
}

__device__ void widen4(Quad& v, uint2 four)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) v[i] = widen({(unsigned short)((i < 2 ? four.x : four.y) >> i % 2 * 16)});
}

__device__ void load4(Quad& v, const floatX* p) { widen4(v, *reinterpret_cast<const uint2*>(p)); }

__device__ void store4(float* p, const Quad& v) { *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]); }

// A row in shared memory: x (C,), dx (C,), dout (C,) in 16 bits, mean and rstd; it begins at a multiple of 16 bytes.
__device__ int floats_of_stage(int C) { return C / 2 * 5 + 4; }

// Asks for a row; the lanes share the copies.
__device__ void ask(float* stage, const float* dx, const floatX* dout, const float* x, const float* mean,
                    const float* rstd, int row, int C)
{
    int lane = threadIdx.x % 32;
    size_t start = (size_t)row * C;
    const float* pairs = reinterpret_cast<const float*>(dout + start);  // (C / 2,)
    for (int c = 4 * lane; c < C; c += 4 * 32) {
        copy_async<4>(stage + c, x + start + c, true);
        copy_async<4>(stage + C + c, dx + start + c, true);
        if (c < C / 2) copy_async<4>(stage + 2 * C + c, pairs + c, true);
    }
    if (lane < 2) copy_async<1>(stage + C / 2 * 5 + lane, (lane == 0 ? mean : rstd) + row, true);
}

// Rows consist of 128-bit words. A block takes every gridDim.x-th row for each of its warps, and a warp has stages of its
// own, so that no warp ever waits for another: the rows that follow are on their way while it computes and writes. Two
// readings of a row in shared memory take fewer registers than one, and these hold the sums of a lane's columns.
// rounded: (N, C), or with ROUNDS == false nothing. partial: (blocks, 2 + ROUNDS, C), sums of dw, db and of rounded.
template <bool ROUNDS>
__device__ void backward(float* dx, floatX* rounded, float* partial, const floatX* dout, const float* x,
                         const floatX* w, const float* mean, const float* rstd, int N, int C)
{
    extern __shared__ __align__(16) float memory[];  // (WARPS, STAGES, floats_of_stage)
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, size = floats_of_stage(C), apart = gridDim.x * WARPS;
    float* stages = memory + warp * STAGES * size;
    int row = blockIdx.x * WARPS + warp;
    for (int i = 0; i < STAGES; i++) {
        if (row + i * apart < N) ask(stages + i * size, dx, dout, x, mean, rstd, row + i * apart, C);
        end_batch();  // also an empty one: the number of batches says which rows are there
    }
    Quad sums[2 + ROUNDS][QUADS] = {}, v, d, weight;
    for (int stage = 0; row < N; row += apart, stage = (stage + 1) % STAGES) {
        float* its_x = stages + stage * size;
        const float* its_dx = its_x + C;
        const floatX* its_dout = reinterpret_cast<const floatX*>(its_x + 2 * C);
        wait_but<STAGES - 1>();
        __syncwarp();  // what the other lanes have copied is there too
        float m = its_x[C / 2 * 5], r = its_x[C / 2 * 5 + 1], dnorms = 0.0f, products = 0.0f;
        #pragma unroll
        for (int k = 0; k < QUADS; k++) {
            int c = 4 * (lane + 32 * k);
            if (c >= C) break;
            load4(v, its_x + c);
            load4(d, its_dout + c);
            load4(weight, w + c);
            #pragma unroll
            for (int e = 0; e < 4; e++) {
                float norm = (v[e] - m) * r, dnorm = d[e] * weight[e];
                sums[0][k][e] += d[e] * norm;
                sums[1][k][e] += d[e];
                dnorms += dnorm;
                products += dnorm * norm;
            }
        }
        dnorms = warp_sum(dnorms) / C;
        products = warp_sum(products) / C;
        size_t start = (size_t)row * C;
        #pragma unroll
        for (int k = 0; k < QUADS; k++) {
            int c = 4 * (lane + 32 * k);
            if (c >= C) break;
            Quad sum;
            load4(v, its_x + c);
            load4(d, its_dout + c);
            load4(weight, w + c);
            load4(sum, its_dx + c);
            #pragma unroll
            for (int e = 0; e < 4; e++) sum[e] += (d[e] * weight[e] - dnorms - (v[e] - m) * r * products) * r;
            store4(dx + start + c, sum);
            if (!ROUNDS) continue;
            uint2 four = make_uint2(rounded_pair(sum[0], sum[1]), rounded_pair(sum[2], sum[3]));
            *reinterpret_cast<uint2*>(rounded + start + c) = four;
            widen4(v, four);
            #pragma unroll
            for (int e = 0; e < 4; e++) sums[1 + ROUNDS][k][e] += v[e];
        }
        __syncwarp();  // all lanes have read the stage
        if (row + STAGES * apart < N) ask(its_x, dx, dout, x, mean, rstd, row + STAGES * apart, C);
        end_batch();
    }
    static_assert(STAGES > 1, "the sums of a warp need as much room as two stages");
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int c = 4 * (lane + 32 * k);
        if (c >= C) break;
        #pragma unroll
        for (int i = 0; i < 2 + ROUNDS; i++) store4(stages + i * C + c, sums[i][k]);
    }
    __syncthreads();
    partial += (size_t)blockIdx.x * (2 + ROUNDS) * C;
    for (int c = threadIdx.x; c < (2 + ROUNDS) * C; c += blockDim.x) {
        float total = 0.0f;
        for (int i = 0; i < WARPS; i++) total += memory[i * STAGES * size + c];
        partial[c] = total;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    layernorm_backward_v2(float* dx, float* partial, const floatX* dout, const float* x, const floatX* w,
                          const float* mean, const float* rstd, int N, int C)
{
    backward<false>(dx, (floatX*)0, partial, dout, x, w, mean, rstd, N, C);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    layernorm_backward_v3(float* dx, floatX* rounded, float* partial, const floatX* dout, const float* x,
                          const floatX* w, const float* mean, const float* rstd, int N, int C)
{
    backward<true>(dx, rounded, partial, dout, x, w, mean, rstd, N, C);
}
