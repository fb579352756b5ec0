/* Flash attention and its backward pass on tensor cores, for small heads.

attention_forward
v6  a warp owns 32 queries; scores, softmax and sums stay in registers: what tensor cores give back as scores is what
    they take as weights. Keys and values come to shared memory some at a time, the next tile while the present one is
    used. Three TF32 products make one of float32 (EXACT)
v7  the same with a single product each: factors are rounded to TF32. There is room for the queries in registers too

attention_backward
v4  one kernel for dq, whose warps own 32 queries, and one for dk and dv, whose warps own 32 keys. Scores and their
    gradients stay in registers between two products. Three TF32 products make one of float32
v5  as v7

Sums, maxima and exponentials are float32 in all. warp_products.cuh shows how a warp multiplies. Shapes as in
attention.cu; hs must be a multiple of 4 and at most HS; arrays must begin at multiples of 16 bytes. Grid: B * NH in x,
tiles of ROWS rows in y, the longest first.
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32
#endif
#ifndef EXACT
#define EXACT 0  // 1: float32 by three products for each, see warp_products.cuh; 0: one, in TF32
#endif

// A block owns ROWS queries or keys, a warp 16 M of them; BLOCKS share a multiprocessor. What was fastest on an H100.
const int ROWS = 128, M = 2, BLOCKS = 2;

#include "lanes.cuh"
#include "warp_products.cuh"
#include "warp_rows.cuh"
#include "tensor_cores.cuh"
#include "async_copy.cuh"

const int KEYS = EXACT ? 32 : 64, QUERIES = 32;  // rows of a tile that is copied to shared memory
const int PART = 32;                             // keys that a warp treats at once: as many as there are registers for

// Grid: B * NH in x, tiles of ROWS queries in y, the longest first.
// Shared memory: two stages of keys and values; ROWS queries, if EXACT.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_forward_v6(float* out, float* stats, const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = min(first + ROWS, T), q0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first query
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[M][2], total[M][2] = {}, scale = rsqrtf((float)hs);
    float* stage = shared;  // keys, then values
    Sums sums = {};
    Rows<EXACT> queries(shared + 4 * KEYS * STRIDE);
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) top[i / 2][i % 2] = LOWEST;

    copy_tile<KEYS>(stage, head + C, 3 * C, 0, T, hs);
    copy_tile<KEYS>(stage + KEYS * STRIDE, head + 2 * C, 3 * C, 0, T, hs);
    load_rows(queries, head, 3 * C, q0, T, hs);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        wait_for_copies();
        __syncthreads();  // this stage is there, and all threads are done with the other
        float* next = shared + (stage == shared) * 2 * KEYS * STRIDE;
        if (k0 + KEYS < end) {
            copy_tile<KEYS>(next, head + C, 3 * C, k0 + KEYS, T, hs);
            copy_tile<KEYS>(next + KEYS * STRIDE, head + 2 * C, 3 * C, k0 + KEYS, T, hs);
        }
        #pragma unroll 1
        for (int k = k0; k < min(k0 + KEYS, q0 + OWN); k += PART) {
            const float* keys = stage + (k - k0) * STRIDE;
            float scores[M][PART / 8][4];
            dot_rows(scores, queries, keys);
            hide_later<false>(scores, q0, k);
            online_softmax(scores, top, total, sums, scale * LOG2E);
            weigh_rows(sums, scores, keys + KEYS * STRIDE);
        }
        stage = next;
    }
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2, t = q0 + 8 * i + r_of_lane();
        total[m][n] = row_sum(total[m][n]);
        if (j_of_lane() == 0 && t < T) stats[(size_t)blockIdx.x * T + t] = top[m][n] * scale + logf(total[m][n]);
        total[m][n] = 1.0f / total[m][n];
    }
    store_sums(out + (size_t)b * T * C + h * hs, sums, total, C, q0, T, hs);
}

// ------------------------------------------------------------------------------------------------------------ backward

// dq. Shared memory: two stages of keys and values; ROWS douts; ROWS queries, if EXACT.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_backward_query_v4(float* dqkv, const float* dout, const float* stats, const float* delta, const float* qkv,
                            int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = min(first + ROWS, T), q0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first query
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float lse[M][2], mean[M][2], factor[M][2], scale = rsqrtf((float)hs);
    float *stage = shared, *own = stage + 4 * KEYS * STRIDE;  // a stage: keys, then values
    Sums dq = {};
    Rows<true> douts(own);
    Rows<EXACT> queries(own + ROWS * HS);

    copy_tile<KEYS>(stage, head + C, 3 * C, 0, T, hs);
    copy_tile<KEYS>(stage + KEYS * STRIDE, head + 2 * C, 3 * C, 0, T, hs);
    load_rows(queries, head, 3 * C, q0, T, hs);
    load_rows(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int t = q0 + 8 * i + r_of_lane();
        lse[i / 2][i % 2] = t < T ? stats[(size_t)blockIdx.x * T + t] * LOG2E : 0.0f;
        mean[i / 2][i % 2] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
        factor[i / 2][i % 2] = scale;
    }
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        wait_for_copies();
        __syncthreads();  // this stage is there, and all threads are done with the other
        float* next = shared + (stage == shared) * 2 * KEYS * STRIDE;
        if (k0 + KEYS < end) {
            copy_tile<KEYS>(next, head + C, 3 * C, k0 + KEYS, T, hs);
            copy_tile<KEYS>(next + KEYS * STRIDE, head + 2 * C, 3 * C, k0 + KEYS, T, hs);
        }
        #pragma unroll 1
        for (int k = k0; k < min(k0 + KEYS, q0 + OWN); k += PART) {
            const float *keys = stage + (k - k0) * STRIDE, *values = keys + KEYS * STRIDE;
            float p[M][PART / 8][4], ds[M][PART / 8][4];
            dot_rows(p, queries, keys);
            dot_rows(ds, douts, values);
            hide_later<false>(p, q0, k);
            #pragma unroll
            for (int i = 0; i < M * PART / 2; i++) {
                int m = i / (PART / 2), n = i / 4 % (PART / 8), d = i % 4;
                float weight = power_of_two(p[m][n][d] * (scale * LOG2E) - lse[m][d / 2]);
                ds[m][n][d] = weight * (ds[m][n][d] - mean[m][d / 2]);
            }
            weigh_rows(dq, ds, keys);
        }
        stage = next;
    }
    store_sums(dqkv + (size_t)b * T * 3 * C + h * hs, dq, factor, 3 * C, q0, T, hs);
}

// A stage of the kernel below: 32 queries, first …, their douts, stats and delta.
const int STAGE = 2 * QUERIES * (STRIDE + 1);

__device__ void copy_stage(float* to, const float* queries, const float* douts, const float* stats, const float* delta,
                           int first, int T, int C, int hs)
{
    copy_tile<QUERIES>(to, queries, 3 * C, first, T, hs);
    copy_tile<QUERIES>(to + QUERIES * STRIDE, douts, C, first, T, hs);
    const float* from = threadIdx.x < QUERIES ? stats : delta;
    int t = first + threadIdx.x % QUERIES;
    if (threadIdx.x < 2 * QUERIES) {
        copy4(to + 2 * QUERIES * STRIDE + threadIdx.x, from + (size_t)blockIdx.x * T + t, t < T);
    }
}

// dk and dv. Shared memory: ROWS keys and values, two stages of 32 queries and douts, stats and delta.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_backward_key_v4(float* dqkv, const float* dout, const float* stats, const float* delta, const float* qkv,
                          int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *stages = shared + 2 * ROWS * HS, *stage = stages;
    Rows<true> keys(shared), values(shared + ROWS * HS);
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = blockIdx.y * ROWS;
    int k0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first key
    const float *head = qkv + (size_t)b * T * 3 * C + h * hs, *dhead = dout + (size_t)b * T * C + h * hs;
    float factor[M][2], ones[M][2], scale = rsqrtf((float)hs);
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) factor[i / 2][i % 2] = scale, ones[i / 2][i % 2] = 1.0f;
    Sums dk = {}, dv = {};

    copy_stage(stage, head, dhead, stats, delta, first, T, C, hs);
    load_rows(keys, head + C, 3 * C, k0, T, hs);
    load_rows(values, head + 2 * C, 3 * C, k0, T, hs);
    for (int q0 = first; q0 < T; q0 += QUERIES) {
        wait_for_copies();
        __syncthreads();  // this stage is there, and all threads are done with the other
        float* next = stages + (stage == stages) * STAGE;
        if (q0 + QUERIES < T) copy_stage(next, head, dhead, stats, delta, q0 + QUERIES, T, C, hs);
        if (q0 + QUERIES > k0) {
            const float *lse = stage + 2 * QUERIES * STRIDE, *mean = lse + QUERIES;
            float p[M][QUERIES / 8][4], ds[M][QUERIES / 8][4];  // transposed: rows are keys, columns queries
            dot_rows(p, keys, stage);
            dot_rows(ds, values, stage + QUERIES * STRIDE);
            hide_later<true>(p, k0, q0);
            #pragma unroll
            for (int i = 0; i < M * QUERIES / 2; i++) {
                int m = i / (QUERIES / 2), n = i / 4 % (QUERIES / 8), d = i % 4, column = 8 * n + 2 * j_of_lane() + d % 2;
                p[m][n][d] = power_of_two(p[m][n][d] * (scale * LOG2E) - lse[column] * LOG2E);
                ds[m][n][d] = p[m][n][d] * (ds[m][n][d] - mean[column]);
            }
            weigh_rows(dv, p, stage + QUERIES * STRIDE);  // zeros beyond T add nothing
            weigh_rows(dk, ds, stage);
        }
        stage = next;
    }
    float* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_sums(to + C, dk, factor, 3 * C, k0, T, hs);
    store_sums(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
