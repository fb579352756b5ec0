/* Flash attention and its backward pass in float32, fast: what attention_forward_v4 and attention_backward_v2 do, with less
shared memory traffic and no waiting.

attention_forward
v5  a thread has 8 rows of the results instead of 4, so that each number that it reads from shared memory is used
    more often; the next tile is copied (cp.async) while the present one is used; warps above the diagonal rest

attention_backward
v3  8 rows of the results per thread; tiles of 128 rows meet tiles of 32, which are copied while others are in use

The exponentials are powers of two: exp(scale x) = 2^(scale LOG2E x) saves a multiplication each.
Shapes as in attention.cu. hs must be a multiple of 4 and at most HS; arrays must begin at multiples of 16 bytes. All
kernels have grid: B * NH in x, tiles of 128 rows in y, the longest first; those of the backward pass have shared memory
for two tiles of 128 rows, two of 32, and weights (128, 40).
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32
#endif

#include "tiles.cuh"
#include "async_copy.cuh"

const int KEYS = 32;  // rows of a tile of keys

// Turns scores (rows q0 + row() + 4 i, keys k0 + column() + 8 j) into probabilities relative to top[i]. It may grow:
// then what was summed up so far shrinks. scale is that of powers of two.
template <int COLUMNS>
__device__ void online_softmax(float (&scores)[8][COLUMNS], float (&top)[8], float (&total)[8], Channels& sums, int q0,
                               int k0, float scale)
{
    bool diagonal = k0 + 8 * COLUMNS > q0 + (int)threadIdx.x / 32 * 32;  // the warp's first row does not see all keys
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        float higher = top[i];
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            if (diagonal && k0 + column() + 8 * j > q0 + row() + 4 * i) scores[i][j] = LOWEST;  // a later key
            higher = fmaxf(higher, scores[i][j]);
        }
        higher = row_max(higher);
        float old = exp2f((top[i] - higher) * scale), more = 0.0f;
        top[i] = higher;
        #pragma unroll
        for (int j = 0; j < COLUMNS; j++) more += scores[i][j] = exp2f(scores[i][j] * scale - higher * scale);
        total[i] = total[i] * old + more;  // of this thread's keys; the eight are added at the end
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            #pragma unroll
            for (int c = 0; c < 4; c++) sums[i][g][c] *= old;
        }
    }
}

// Grid: B * NH in x, tiles of 128 queries in y, the longest first.
// Shared memory: a tile of 128 rows, two of KEYS rows, weights (128, KEYS + 8).
extern "C" __global__ void __launch_bounds__(128, 2)
attention_forward_v5(float* out, float* stats, const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *keys = queries + BIG * STRIDE, *values = keys + KEYS * STRIDE;
    float* weights = values + KEYS * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    int end = min(q0 + BIG, T), mine = q0 + (int)threadIdx.x / 32 * 32 + 31;  // the last query of this warp
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[8], total[8] = {}, scale = rsqrtf((float)hs);
    #pragma unroll
    for (int i = 0; i < 8; i++) top[i] = LOWEST;
    Channels sums = {};

    copy_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    copy_tile<KEYS>(keys, head + C, 3 * C, 0, T, hs);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        float scores[8][KEYS / 8];
        wait_for_copies();
        __syncthreads();  // the keys are there, and all threads are done with the values of the round before
        copy_tile<KEYS>(values, head + 2 * C, 3 * C, k0, T, hs);
        if (k0 <= mine) dot_rows(scores, queries, keys);
        wait_for_copies();
        __syncthreads();  // the values are there, and all threads are done with the keys
        if (k0 + KEYS < end) copy_tile<KEYS>(keys, head + C, 3 * C, k0 + KEYS, T, hs);
        if (k0 <= mine) {
            online_softmax(scores, top, total, sums, q0, k0, scale * LOG2E);
            store_weights(weights, scores);
            __syncwarp();  // a row of weights is written and read by the same warp
            weigh_rows<KEYS>(sums, weights, values);
        }
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        int t = q0 + row() + 4 * i;
        total[i] = row_sum(total[i]);
        if (column() == 0 && t < T) stats[(size_t)blockIdx.x * T + t] = top[i] * scale + logf(total[i]);
        total[i] = 1.0f / total[i];
    }
    store_rows(out + (size_t)b * T * C + h * hs, sums, total, C, q0, T, hs);
}

// ------------------------------------------------------------------------------------------------------------ backward

const int SMALL = 32;
typedef float Square[8][4];  // a thread's part of a tile (128, 32)

// dq of a tile of 128 queries; keys and values come 32 at a time. It ends at the diagonal.
extern "C" __global__ void __launch_bounds__(128, 2)
attention_backward_query_v3(float* dqkv, const float* dout, const float* stats, const float* delta, const float* qkv,
                            int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *douts = queries + BIG * STRIDE, *keys = douts + BIG * STRIDE;
    float *values = keys + SMALL * STRIDE, *weights = values + SMALL * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    int end = min(q0 + BIG, T), mine = q0 + (int)threadIdx.x / 32 * 32 + 31;  // the last query of this warp
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float lse[8], mean[8], factor[8], scale = rsqrtf((float)hs);
    Channels dq = {};

    copy_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    copy_tile<BIG>(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
    copy_tile<SMALL>(values, head + 2 * C, 3 * C, 0, T, hs);
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        int t = q0 + row() + 4 * i;
        lse[i] = t < T ? stats[(size_t)blockIdx.x * T + t] * LOG2E : 0.0f;
        mean[i] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
        factor[i] = scale;
    }
    for (int k0 = 0; k0 < end; k0 += SMALL) {
        Square p, ds;
        wait_for_copies();
        __syncthreads();  // the values are there, and all threads are done with the keys of the round before
        copy_tile<SMALL>(keys, head + C, 3 * C, k0, T, hs);
        if (k0 <= mine) dot_rows(ds, douts, values);  // dp so far
        wait_for_copies();
        __syncthreads();  // the keys are there, and all threads are done with the values
        if (k0 + SMALL < end) copy_tile<SMALL>(values, head + 2 * C, 3 * C, k0 + SMALL, T, hs);
        if (k0 > mine) continue;  // the warp sees none of these keys
        dot_rows(p, queries, keys);
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                bool seen = k0 + column() + 8 * j <= q0 + row() + 4 * i;
                ds[i][j] = seen ? exp2f(p[i][j] * (scale * LOG2E) - lse[i]) * (ds[i][j] - mean[i]) : 0.0f;
            }
        }
        store_weights(weights, ds);
        __syncwarp();  // a row of weights is written and read by the same warp
        weigh_rows<SMALL>(dq, weights, keys);
    }
    store_rows(dqkv + (size_t)b * T * 3 * C + h * hs, dq, factor, 3 * C, q0, T, hs);
}

// dk and dv of a tile of 128 keys; the queries that see them come 32 at a time. It begins at the diagonal.
extern "C" __global__ void __launch_bounds__(128, 2)
attention_backward_key_v3(float* dqkv, const float* dout, const float* stats, const float* delta, const float* qkv,
                          int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *keys = shared, *values = keys + BIG * STRIDE, *queries = values + BIG * STRIDE;
    float *douts = queries + SMALL * STRIDE, *weights = douts + SMALL * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, k0 = blockIdx.y * BIG;
    int mine = k0 + (int)threadIdx.x / 32 * 32;  // the first key of this warp
    const float *head = qkv + (size_t)b * T * 3 * C + h * hs, *dhead = dout + (size_t)b * T * C + h * hs;
    float factor[8], ones[8], scale = rsqrtf((float)hs);
    #pragma unroll
    for (int i = 0; i < 8; i++) factor[i] = scale, ones[i] = 1.0f;
    Channels dk = {}, dv = {};

    copy_tile<BIG>(keys, head + C, 3 * C, k0, T, hs);
    copy_tile<BIG>(values, head + 2 * C, 3 * C, k0, T, hs);
    copy_tile<SMALL>(douts, dhead, C, k0, T, hs);
    for (int q0 = k0; q0 < T; q0 += SMALL) {
        Square p, ds;  // transposed: rows are keys, columns queries
        float lse[4], mean[4];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int t = q0 + column() + 8 * j;
            lse[j] = t < T ? stats[(size_t)blockIdx.x * T + t] * LOG2E : 0.0f;
            mean[j] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
        }
        bool seen = q0 + SMALL > mine;  // at least one of the warp's keys, by one of these queries
        wait_for_copies();
        __syncthreads();  // the douts are there, and all threads are done with the queries of the round before
        copy_tile<SMALL>(queries, head, 3 * C, q0, T, hs);
        if (seen) dot_rows(ds, values, douts);  // dp so far
        wait_for_copies();
        __syncthreads();  // the queries are there
        if (seen) {
            dot_rows(p, keys, queries);
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    bool sees = k0 + row() + 4 * i <= q0 + column() + 8 * j;  // zeros beyond T add nothing
                    p[i][j] = sees ? exp2f(p[i][j] * (scale * LOG2E) - lse[j]) : 0.0f;
                    ds[i][j] = p[i][j] * (ds[i][j] - mean[j]);
                }
            }
            store_weights(weights, p);
            __syncwarp();
            weigh_rows<SMALL>(dv, weights, douts);
        }
        __syncthreads();  // all threads are done with the douts
        if (q0 + SMALL < T) copy_tile<SMALL>(douts, dhead, C, q0 + SMALL, T, hs);
        if (seen) {
            store_weights(weights, ds);
            __syncwarp();
            weigh_rows<SMALL>(dk, weights, queries);
        }
    }
    float* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_rows(to + C, dk, factor, 3 * C, k0, T, hs);
    store_rows(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
