/* The backward pass of flash attention in float32, fast: attention_backward_v2 with the means of attention_flash.cu.

v3  8 rows of the results per thread; tiles of 128 rows meet tiles of 32, which are copied while others are in use

Shapes as in attention_backward.cu. hs must be a multiple of 4 and at most HS; arrays must begin at multiples of
16 bytes. Both kernels have grid: B * NH in x, tiles of 128 rows in y, the longest first; and shared memory for two
tiles of 128 rows, two of 32, and weights (128, 40).
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32
#endif

#include "tiles.cuh"
#include "async_copy.cuh"

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
