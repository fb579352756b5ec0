/* Flash attention and its backward pass, for heads of any size up to HS.

attention_forward
v4  one block per tile of 64 queries; keys and values come to shared memory 64 at a time, results stay in registers

attention_backward
v2  one block per tile of 64 queries (for dq) or 64 keys (for dk and dv); the others come to shared memory 32 at a time

Shapes as in attention.cu.
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32; attention.py defines it
#endif

#include "small_tiles.cuh"

// Grid: B * NH in x, tiles of 64 queries in y, the longest first. Shared memory: 3 tiles of 64 rows; the second must
// have room for 64 x 68 weights. At most 168 registers a thread, so that three blocks share a multiprocessor.
extern "C" __global__ void __launch_bounds__(128, 3) attention_forward_v4(float* out, float* stats, const float* qkv,
                                                                          int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    const int middle = BIG * (STRIDE > BIG + 4 ? STRIDE : BIG + 4);
    float *queries = shared, *keys = queries + BIG * STRIDE, *values = keys + middle;
    float* weights = keys;  // the keys are not needed once the scores are there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[4] = {LOWEST, LOWEST, LOWEST, LOWEST}, total[4] = {}, scale = rsqrtf((float)hs);
    Channels sums = {};

    load_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    for (int k0 = 0; k0 <= q0; k0 += BIG) {
        __syncthreads();  // all threads are done with the tiles of the round before
        load_tile<BIG>(keys, head + C, 3 * C, k0, T, hs);
        load_tile<BIG>(values, head + 2 * C, 3 * C, k0, T, hs);
        __syncthreads();
        float scores[4][8];
        dot_rows(scores, queries, keys);
        online_softmax(scores, top, total, sums, q0, k0, scale);
        __syncthreads();  // all threads have read the keys
        store_weights(weights, scores);
        __syncwarp();  // a row of weights is written and read by the same warp
        weigh_rows<BIG>(sums, weights, values);
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int t = q0 + threadIdx.x / 8 + 16 * i;
        total[i] = row_sum(total[i]);
        if (threadIdx.x % 8 == 0 && t < T) stats[(size_t)blockIdx.x * T + t] = top[i] + logf(total[i]);
        total[i] = 1.0f / total[i];
    }
    store_rows(out + (size_t)b * T * C + h * hs, sums, total, C, q0, T, hs);
}

// ------------------------------------------------------------------------------------------------------------ backward

// dq, a block per tile of 64 queries, longest first; keys and values come 32 at a time. Grid as above.
extern "C" __global__ void __launch_bounds__(128) attention_backward_query_v2(float* dqkv, const float* dout,
                                                                              const float* stats, const float* delta,
                                                                              const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *douts = queries + BIG * STRIDE, *keys = douts + BIG * STRIDE;
    float *values = keys + SMALL * STRIDE, *weights = values;  // the values are not needed once dp is there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float lse[4], mean[4], ones[4] = {1.0f, 1.0f, 1.0f, 1.0f}, scale = rsqrtf((float)hs);
    Channels dq = {};

    load_tile<BIG>(queries, head, 3 * C, q0, T, hs);
    load_tile<BIG>(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int t = q0 + ty + 16 * i;
        lse[i] = t < T ? stats[(size_t)blockIdx.x * T + t] : 0.0f;
        mean[i] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
    }
    for (int k0 = 0; k0 < q0 + BIG && k0 < T; k0 += SMALL) {
        __syncthreads();
        load_tile<SMALL>(keys, head + C, 3 * C, k0, T, hs);
        load_tile<SMALL>(values, head + 2 * C, 3 * C, k0, T, hs);
        __syncthreads();
        float p[4][4], ds[4][4];
        dot_rows(p, queries, keys);
        dot_rows(ds, douts, values);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                softmax_backward(p[i][j], ds[i][j], q0 + ty + 16 * i, k0 + tx + 8 * j, T, lse[i], mean[i], scale);
            }
        }
        __syncthreads();  // all threads have read the values
        store_weights(weights, ds);
        __syncwarp();
        weigh_rows<SMALL>(dq, weights, keys);
    }
    store_rows(dqkv + (size_t)b * T * 3 * C + h * hs, dq, ones, 3 * C, q0, T, hs);
}

// dk and dv, a block per tile of 64 keys; the queries that see them come 32 at a time. The first tile has the most.
extern "C" __global__ void __launch_bounds__(128) attention_backward_key_v2(float* dqkv, const float* dout,
                                                                            const float* stats, const float* delta,
                                                                            const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *keys = shared, *values = keys + BIG * STRIDE, *queries = values + BIG * STRIDE;
    float *douts = queries + SMALL * STRIDE, *weights = douts + SMALL * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, k0 = blockIdx.y * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f}, scale = rsqrtf((float)hs);
    Channels dk = {}, dv = {};

    load_tile<BIG>(keys, head + C, 3 * C, k0, T, hs);
    load_tile<BIG>(values, head + 2 * C, 3 * C, k0, T, hs);
    for (int q0 = k0; q0 < T; q0 += SMALL) {
        __syncthreads();
        load_tile<SMALL>(queries, head, 3 * C, q0, T, hs);
        load_tile<SMALL>(douts, dout + (size_t)b * T * C + h * hs, C, q0, T, hs);
        __syncthreads();
        float p[4][4], ds[4][4];  // transposed: rows are keys, columns queries
        dot_rows(p, keys, queries);
        dot_rows(ds, values, douts);
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int t = q0 + tx + 8 * j;
            float lse = t < T ? stats[(size_t)blockIdx.x * T + t] : 0.0f;
            float mean = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                softmax_backward(p[i][j], ds[i][j], t, k0 + ty + 16 * i, T, lse, mean, scale);
            }
        }
        store_weights(weights, p);
        __syncwarp();
        weigh_rows<SMALL>(dv, weights, douts);
        __syncwarp();  // the warp has read p before ds takes its place
        store_weights(weights, ds);
        __syncwarp();
        weigh_rows<SMALL>(dk, weights, queries);
    }
    float* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_rows(to + C, dk, ones, 3 * C, k0, T, hs);
    store_rows(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
