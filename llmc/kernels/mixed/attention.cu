/* Causal attention, out = softmax(q kT / sqrt(hs)) v for each head, and its backward pass, by tiles in shared memory.

forward         one block per tile of 64 queries; keys and values come 64 at a time: flash attention, Dao et al. 2022
backward_delta  delta = dout . out, one warp per query
backward_query  dq, one block per tile of 64 queries; keys and values come 32 at a time
backward_key    dk and dv, one block per tile of 64 keys; the queries that see them come 32 at a time

The numbers of a tile are widened when they come to shared memory. From there on everything is float, as in
llmc/kernels/attention_tiles.cu, and attention.cu there explains the formulas: scores, the online softmax, and the sums,
which are rounded once, when they are complete. These are v1; v2, on tensor cores, is in attention_tensor.cu and
attention_tensor_backward.cu.

Shapes: qkv, dqkv (B, T, 3C), a row is [q; k; v], each NH heads of hs; out, dout (B, T, C); stats, delta (B, NH, T)
float, the logarithm of each query's sum of exponentials, and dout . out. Grid: B * NH in x, tiles in y.
*/

#include "number.cuh"

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32; attention.py defines it
#endif

#include "small_tiles.cuh"

// tile (ROWS, HS) = rows first … of a matrix with T rows of hs numbers, `stride` apart; zero outside.
template <int ROWS>
__device__ void load_tile(float* tile, const floatX* from, int stride, int first, int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < ROWS * HS / 8 / THREADS; i++) {
        int j = i * THREADS + threadIdx.x, row = j / (HS / 8), c = j % (HS / 8) * 8;
        Eight v;
        load(v, from + (size_t)(first + row) * stride + c, first + row < T ? hs - c : 0);
        store(tile + row * STRIDE + c, v, 8);
    }
}

// Writes the rows first + ty + 16 i below T, hs numbers of each, multiplied by factor[i].
__device__ void store_rows(floatX* to, const Channels& results, const float (&factor)[4], size_t stride, int first,
                           int T, int hs)
{
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = first + threadIdx.x / 8 + 16 * i;
        #pragma unroll
        for (int n = 0; n < 4 * GROUPS; n++) {
            int c = threadIdx.x % 8 * 4 + 32 * (n / 4) + n % 4;
            if (row < T && c < hs) to[row * stride + c] = nearest(results[i][n / 4][n % 4] * factor[i]);
        }
    }
}

// The longest tiles first. Shared memory: 3 tiles of 64 rows; the second must have room for 64 x 68 weights.
extern "C" __global__ void __launch_bounds__(128) attention_forward_v1(floatX* out, float* stats, const floatX* qkv,
                                                                       int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    const int middle = BIG * (STRIDE > BIG + 4 ? STRIDE : BIG + 4);
    float *queries = shared, *keys = queries + BIG * STRIDE, *values = keys + middle;
    float* weights = keys;  // the keys are not needed once the scores are there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    const floatX* head = qkv + (size_t)b * T * 3 * C + h * hs;
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

// ---------------------------------------------------------------------------------------------------- backward pass

// One warp per row of (B, NH, T), four to a block.
extern "C" __global__ void attention_backward_delta_v1(float* delta, const floatX* dout, const floatX* out, int heads,
                                                       int T, int NH, int hs)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / T;
    if (head >= heads) return;  // a whole warp leaves
    size_t row = (head / NH * T + r % T) * NH * hs + head % NH * hs;
    float total = 0.0f;
    for (int c = threadIdx.x % 32; c < hs; c += 32) total += widen(dout[row + c]) * widen(out[row + c]);
    total = warp_sum(total);
    if (threadIdx.x % 32 == 0) delta[r] = total;
}

extern "C" __global__ void __launch_bounds__(128) attention_backward_query_v1(floatX* dqkv, const floatX* dout,
                                                                              const float* stats, const float* delta,
                                                                              const floatX* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *queries = shared, *douts = queries + BIG * STRIDE, *keys = douts + BIG * STRIDE;
    float *values = keys + SMALL * STRIDE, *weights = values;  // the values are not needed once dp is there
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, q0 = (gridDim.y - 1 - blockIdx.y) * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const floatX* head = qkv + (size_t)b * T * 3 * C + h * hs;
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
        for (int i = 0; i < 16; i++) {
            int q = q0 + ty + i / 4 * 16, k = k0 + tx + i % 4 * 8;
            softmax_backward(p[i / 4][i % 4], ds[i / 4][i % 4], q, k, T, lse[i / 4], mean[i / 4], scale);
        }
        __syncthreads();  // all threads have read the values
        store_weights(weights, ds);
        __syncwarp();
        weigh_rows<SMALL>(dq, weights, keys);
    }
    store_rows(dqkv + (size_t)b * T * 3 * C + h * hs, dq, ones, 3 * C, q0, T, hs);
}

extern "C" __global__ void __launch_bounds__(128) attention_backward_key_v1(floatX* dqkv, const floatX* dout,
                                                                            const float* stats, const float* delta,
                                                                            const floatX* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    float *keys = shared, *values = keys + BIG * STRIDE, *queries = values + BIG * STRIDE;
    float *douts = queries + SMALL * STRIDE, *weights = douts + SMALL * STRIDE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, k0 = blockIdx.y * BIG;
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    const floatX* head = qkv + (size_t)b * T * 3 * C + h * hs;
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
    floatX* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_rows(to + C, dk, ones, 3 * C, k0, T, hs);
    store_rows(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
