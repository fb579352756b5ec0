/* Layernorm, forward and backward, with float statistics. What it reads, x, is the residual stream.

forward, residual_forward  one warp per row; the row is read again from the cache for the variance and for the output
residual_forward           v2 has it in registers
again                      the output once more, bit for bit, from the statistics
backward_input             one warp per row: dx += rstd * (dnorm - mean(dnorm) - norm * mean(dnorm * norm))
backward_columns           sums of dout * norm and of dout within chunks of rows; columns.cu adds the chunks to dw and db
backward                   v2 of both, in one reading: a lane keeps the sums of its columns in registers, and a warp's next
                           row comes to shared memory meanwhile
backward                   v3 also writes the new dx rounded to 16 bits, and sums the columns of that; in fp8 it leaves
                           those times `scale` in 8 bits

Shapes: x, dx, residual (N, C) Stream; dout (N, C), out (N, C), which has 8 bits in fp8; w, b (C,); mean, rstd (N,) float; partial (chunks, 2, C) float.
Each lane has eight numbers of a row at a time, 32 * 8 numbers apart. All sums have a fixed order.
*/

#include "batches.cuh"
#include "number.cuh"
#include "number_8.cuh"
#include "warp.cuh"

#ifndef EIGHTS    // the launcher compiles the file for its C
#define EIGHTS 3  // of a row, for each lane: C is at most 256 * EIGHTS
#define WARPS 8   // of a block of the backward pass, which has a multiprocessor for itself; see layernorm.py
#endif

const int ROWS = 8;  // warps of a block, a row each
const float EPS = 1e-5f;

__device__ int first_of_lane() { return threadIdx.x % 32 * 8; }
__device__ int row_of_warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

// Eight numbers of the residual stream as they lie in memory, in words of 128 bits.
const int PARTS = sizeof(Stream) / 2;
typedef uint4 Words[PARTS];

__device__ void widen(Eight& v, const uint4 (&words)[1]) { widen(v, words[0]); }

__device__ void widen(Eight& v, const uint4 (&words)[2])
{
    float4 a = reinterpret_cast<const float4&>(words[0]), b = reinterpret_cast<const float4&>(words[1]);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ void store8(float* p, const Eight& v)
{
    reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

// out = norm * w + b for one row. fmaf: spelled out, so that all kernels round alike.
__device__ void write_norm(Factor* out, const Stream* x, const floatX* w, const floatX* b, float m, float r, int C)
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
__device__ void normalize(Factor* out, float* mean, float* rstd, const Stream* x, const floatX* w, const floatX* b,
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

extern "C" __global__ void layernorm_forward_v1(Factor* out, float* mean, float* rstd, const Stream* x, const floatX* w,
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
extern "C" __global__ void residual_layernorm_forward_v1(Stream* residual, Factor* out, float* mean, float* rstd,
                                                         const Stream* x1, const floatX* x2, const floatX* w,
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
        for (int e = 0; e < 8; e++) v[e] += more[e];
        if (sizeof(Stream) == 2) widen(v, narrow(v));  // as it is kept
        #pragma unroll
        for (int e = 0; e < 8; e++) total += v[e];
        store(residual + start + c, v, C - c);
    }
    normalize(out + start, mean + row, rstd + row, residual + start, w, b, total, C);
}

// The same numbers, sooner: all that a lane needs is on its way at once, and stays in registers. C is a multiple of 8, up
// to 32 * 8 * EIGHTS; arrays begin at multiples of 16 bytes.
extern "C" __global__ void __launch_bounds__(128) residual_layernorm_forward_v2(Stream* residual, Factor* out, float* mean,
                                                                                float* rstd, const Stream* x1,
                                                                                const floatX* x2, const floatX* w,
                                                                                const floatX* b, int N, int C)
{
    int n = row_of_warp();
    if (n >= N) return;
    size_t start = (size_t)n * C;
    Words first[EIGHTS];
    uint4 more[EIGHTS], weights[EIGHTS], biases[EIGHTS];
    Eight row[EIGHTS], v, weight, bias;
    float total = 0.0f, squares = 0.0f;
    #pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        int c = first_of_lane() + 32 * 8 * k;
        bool there = c < C;
        #pragma unroll
        for (int i = 0; i < PARTS; i++) {
            first[k][i] = there ? reinterpret_cast<const uint4*>(x1 + start + c)[i] : make_uint4(0, 0, 0, 0);
        }
        more[k] = there ? *reinterpret_cast<const uint4*>(x2 + start + c) : make_uint4(0, 0, 0, 0);
        weights[k] = there ? *reinterpret_cast<const uint4*>(w + c) : make_uint4(0, 0, 0, 0);
        biases[k] = there ? *reinterpret_cast<const uint4*>(b + c) : make_uint4(0, 0, 0, 0);
    }
    #pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        widen(row[k], first[k]);
        widen(v, more[k]);
        #pragma unroll
        for (int e = 0; e < 8; e++) row[k][e] += v[e];
        if (sizeof(Stream) == 2) widen(row[k], narrow(row[k]));  // as it is kept
        #pragma unroll
        for (int e = 0; e < 8; e++) total += row[k][e];
    }
    float m = warp_sum(total) / C;
    #pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        bool there = first_of_lane() + 32 * 8 * k < C;
        #pragma unroll
        for (int e = 0; e < 8; e++) squares += there ? (row[k][e] - m) * (row[k][e] - m) : 0.0f;
    }
    float r = rsqrtf(warp_sum(squares) / C + EPS);
    #pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        int c = first_of_lane() + 32 * 8 * k;
        if (c >= C) break;
        store8(residual + start + c, row[k]);
        widen(weight, weights[k]);
        widen(bias, biases[k]);
        #pragma unroll
        for (int e = 0; e < 8; e++) v[e] = fmaf((row[k][e] - m) * r, weight[e], bias[e]);
        store8(out + start + c, v);
    }
    if (threadIdx.x % 32 == 0) mean[n] = m, rstd[n] = r;
}

extern "C" __global__ void layernorm_again_v1(Factor* out, const Stream* x, const floatX* w, const floatX* b,
                                              const float* mean, const float* rstd, int N, int C)
{
    int row = row_of_warp();
    if (row >= N) return;
    size_t start = (size_t)row * C;
    write_norm(out + start, x + start, w, b, mean[row], rstd[row], C);
}

extern "C" __global__ void layernorm_backward_input_v1(Stream* dx, const floatX* dout, const Stream* x, const floatX* w,
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
    layernorm_backward_columns_v1(float* partial, const floatX* dout, const Stream* x, const float* mean,
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

// A row in shared memory, as it lies in memory; it is read and written in words of 128 bits.
struct __align__(16) Row {
    Stream x[256 * EIGHTS], dx[256 * EIGHTS];
    floatX dout[256 * EIGHTS];
};

// C numbers to shared memory, by a warp: neighbouring lanes copy neighbouring words of 128 bits.
template <typename T>
__device__ void copy(T* to, const T* from, int lane, int C)
{
    const int WORD = 16 / sizeof(T);
    #pragma unroll
    for (int k = 0; k < 256 * EIGHTS / WORD / 32; k++) {
        int c = (lane + 32 * k) * WORD;
        if (c < C) copy_async<4>(reinterpret_cast<float*>(to + c), reinterpret_cast<const float*>(from + c), true);
    }
}

__device__ void copy(Row& row, const Stream* x, const Stream* dx, const floatX* dout, int lane, int C)
{
    copy(row.x, x, lane, C);
    copy(row.dx, dx, lane, C);
    copy(row.dout, dout, lane, C);
    end_batch();
}

__device__ void load8(Eight& v, const float* p) { widen(v, reinterpret_cast<const uint4(&)[2]>(*p)); }

__device__ void load8(Eight& v, const floatX* p) { widen(v, *reinterpret_cast<const uint4*>(p)); }

// *to (C,) = the sum of what all lanes have for a column, in the order of their warps. room (WARPS, C): shared memory.
__device__ void add_warps(float* to, float* room, const Eight (&mine)[EIGHTS], int C)
{
    #pragma unroll
    for (int k = 0; k < EIGHTS; k++) {
        int c = first_of_lane() + 32 * 8 * k;
        if (c < C) store8(room + threadIdx.x / 32 * C + c, mine[k]);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float total = 0.0f;
        for (int warp = 0; warp < WARPS; warp++) total += room[warp * C + c];
        to[c] = total;
    }
    __syncthreads();  // all have read
}

// Arrays begin at multiples of 16 bytes, and C is a multiple of 8. Every block takes every gridDim.x-th row of warps; while
// a warp computes with a row, its next one is on its way to shared memory, (WARPS, 2) rows.
// rounded: (N, C), or nothing with ROUNDS == false. partial: (blocks, 2 + ROUNDS, C), sums of dw, db and of rounded.
template <bool ROUNDS>
__device__ void backward(Stream* dx, Gradient* rounded, float scale, float* partial, const floatX* dout, const Stream* x,
                         const floatX* w, const float* mean, const float* rstd, int N, int C)
{
    extern __shared__ Row rows[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, stride = gridDim.x * WARPS, n = blockIdx.x * WARPS + warp;
    Eight dw[EIGHTS] = {}, db[EIGHTS] = {}, dsum[EIGHTS] = {}, norm, d, weight, sum;
    size_t start = (size_t)n * C;
    if (n < N) copy(rows[2 * warp], x + start, dx + start, dout + start, lane, C);
    for (int turn = 0; n < N; n += stride, turn ^= 1) {
        Row& row = rows[2 * warp + turn];
        wait_but<0>();
        __syncwarp();  // what other lanes have copied is there, and they have read what comes to its place now
        if (n + stride < N) {
            size_t next = start + (size_t)stride * C;
            copy(rows[2 * warp + (turn ^ 1)], x + next, dx + next, dout + next, lane, C);
        }
        float m = mean[n], r = rstd[n], dnorms = 0.0f, products = 0.0f;
        #pragma unroll
        for (int k = 0; k < EIGHTS; k++) {
            int c = (lane + 32 * k) * 8;
            if (c >= C) break;
            load8(norm, row.x + c);
            load8(d, row.dout + c);
            load8(weight, w + c);
            #pragma unroll
            for (int e = 0; e < 8; e++) {
                float dnorm = d[e] * weight[e];
                norm[e] = (norm[e] - m) * r;
                dw[k][e] += d[e] * norm[e];
                db[k][e] += d[e];
                dnorms += dnorm;
                products += dnorm * norm[e];
            }
        }
        dnorms = warp_sum(dnorms) / C;
        products = warp_sum(products) / C;
        #pragma unroll
        for (int k = 0; k < EIGHTS; k++) {  // all is read and widened once more, which is cheaper than to hold it
            int c = (lane + 32 * k) * 8;
            if (c >= C) break;
            load8(norm, row.x + c);
            load8(d, row.dout + c);
            load8(sum, row.dx + c);
            load8(weight, w + c);
            #pragma unroll
            for (int e = 0; e < 8; e++) {
                norm[e] = (norm[e] - m) * r;
                sum[e] += (d[e] * weight[e] - dnorms - norm[e] * products) * r;
            }
            store8(dx + start + c, sum);
            if (!ROUNDS) continue;
            widen(sum, narrow(sum));  // column sums are those of numbers of 16 bits
            #pragma unroll
            for (int e = 0; e < 8; e++) dsum[k][e] += sum[e], sum[e] *= scale;
            store8(rounded + start + c, sum);
        }
        start += (size_t)stride * C;
    }
    __syncthreads();  // no row is needed any more
    float* room = reinterpret_cast<float*>(rows);
    partial += (size_t)blockIdx.x * (2 + ROUNDS) * C;  // (2 + ROUNDS, C)
    add_warps(partial, room, dw, C);
    add_warps(partial + C, room, db, C);
    if (ROUNDS) add_warps(partial + 2 * C, room, dsum, C);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    layernorm_backward_v2(Stream* dx, float* partial, const floatX* dout, const Stream* x, const floatX* w,
                          const float* mean, const float* rstd, int N, int C)
{
    backward<false>(dx, (Gradient*)0, 1.0f, partial, dout, x, w, mean, rstd, N, C);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    layernorm_backward_v3(Stream* dx, Gradient* rounded, float scale, float* partial, const floatX* dout, const Stream* x,
                          const floatX* w, const float* mean, const float* rstd, int N, int C)
{
    backward<true>(dx, rounded, scale, partial, dout, x, w, mean, rstd, N, C);
}
