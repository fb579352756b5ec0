/* The backward pass of flash attention in 16 bits on tensor cores, since Ampere (compute capability 8.0).

delta v2  delta = dout . out: eight lanes share a row, 16 bytes each
query v2  dq: a warp owns 32 queries, 16 where heads are large; keys and values come 64 at a time
key v2    dk and dv: a warp owns as many keys; the queries that see them come 32 at a time, with their douts

No block adds to what another has written, so that every run gives the same bits. The price is that the last two both
compute scores and dp: seven products instead of five. A warp's probabilities p and gradients ds = p (dp - delta) stay
in registers between two products, as in attention_tensor.cu; all sums and exponentials are float. v1 of the three is in
attention.cu, which also says what the shapes are. hs must be a multiple of 8 and at most HS; arrays must begin at
multiples of 16 bytes. Grid, except for delta: B * NH in x, tiles of ROWS rows in y, the longest first.
*/

#include "number.cuh"

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32; attention.py defines it
#endif

// A warp owns 16 M rows, a block has WARPS; at least BLOCKS share a multiprocessor.
const int M = HS > 64 ? 1 : 2, WARPS = 4, BLOCKS = 2;
const int KEYS = 64, QUERIES = 32;  // rows of a tile that is copied to shared memory
const int PART = 32;                // keys that a warp treats at once: as many as there are registers for

#include "batches.cuh"
#include "lanes.cuh"
#include "warp_rows.cuh"
#include "mma_16.cuh"
#include "tensor_cores_16.cuh"

// 16 rows of (B, NH, T) to a block of 128 threads.
extern "C" __global__ void attention_backward_delta_v2(float* delta, const floatX* dout, const floatX* out, int heads,
                                                       int T, int NH, int hs)
{
    unsigned r = blockIdx.x * 16 + threadIdx.x / 8, head = r / T;  // fewer than 2^31 rows: attention.py
    size_t row = ((size_t)(head / NH) * T + r % T) * NH * hs + head % NH * hs;
    float total = 0.0f;
    for (int c = threadIdx.x % 8 * 8; c < hs && head < heads; c += 64) {
        Eight a, b;
        load(a, dout + row + c, 8), load(b, out + row + c, 8);
        #pragma unroll
        for (int i = 0; i < 8; i++) total += a[i] * b[i];
    }
    for (int gap = 4; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    if (threadIdx.x % 8 == 0 && head < heads) delta[r] = total;
}

// dq. Shared memory: two stages of 64 keys and values, ROWS queries and douts.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_backward_query_v2(floatX* dqkv, const floatX* dout, const float* stats, const float* delta, const floatX* qkv,
                            int T, int NH, int hs)
{
    extern __shared__ __align__(16) floatX shared[];
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = min(first + ROWS, T), q0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first query
    const floatX* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float lse[M][2], mean[M][2], factor[M][2], scale = rsqrtf((float)hs);
    floatX *stage = shared, *other = stage + 2 * KEYS * STRIDE;  // keys, then values
    floatX *queries = other + 2 * KEYS * STRIDE, *douts = queries + ROWS * STRIDE;
    Sums dq = {};

    copy_tile<KEYS>(stage, head + C, 3 * C, 0, T, hs);
    copy_tile<KEYS>(stage + KEYS * STRIDE, head + 2 * C, 3 * C, 0, T, hs);
    copy_tile<ROWS>(queries, head, 3 * C, first, T, hs);
    copy_tile<ROWS>(douts, dout + (size_t)b * T * C + h * hs, C, first, T, hs);
    end_batch();
    queries += (q0 - first) * STRIDE, douts += (q0 - first) * STRIDE;  // the warp's own
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int t = q0 + 8 * i + r_of_lane();
        lse[i / 2][i % 2] = t < T ? stats[(size_t)blockIdx.x * T + t] * LOG2E : 0.0f;
        mean[i / 2][i % 2] = t < T ? delta[(size_t)blockIdx.x * T + t] : 0.0f;
        factor[i / 2][i % 2] = scale;
    }
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        wait_but<0>();
        __syncthreads();  // this stage is there, and all threads are done with the other
        if (k0 + KEYS < end) {
            copy_tile<KEYS>(other, head + C, 3 * C, k0 + KEYS, T, hs);
            copy_tile<KEYS>(other + KEYS * STRIDE, head + 2 * C, 3 * C, k0 + KEYS, T, hs);
            end_batch();
        }
        #pragma unroll 1
        for (int k = k0; k < min(k0 + KEYS, q0 + OWN); k += PART) {
            const floatX *keys = stage + (k - k0) * STRIDE, *values = keys + KEYS * STRIDE;
            float p[M][PART / 8][4], ds[M][PART / 8][4];
            dot_tiles(p, queries, keys);
            if (k + PART > q0 + 1) hide_later<false>(p, q0, k);  // the warp's first query does not see all
            #pragma unroll
            for (int i = 0; i < M * PART / 2; i++) {
                int m = i / (PART / 2), n = i / 4 % (PART / 8), d = i % 4;
                p[m][n][d] = power_of_two(p[m][n][d] * (scale * LOG2E) - lse[m][d / 2]);
            }
            dot_tiles(ds, douts, values);
            #pragma unroll
            for (int i = 0; i < M * PART / 2; i++) {
                int m = i / (PART / 2), n = i / 4 % (PART / 8), d = i % 4;
                ds[m][n][d] = p[m][n][d] * (ds[m][n][d] - mean[m][d / 2]);
            }
            weigh_rows(dq, ds, keys);
        }
        floatX* used = stage;
        stage = other, other = used;
    }
    store_sums(dqkv + (size_t)b * T * 3 * C + h * hs, dq, factor, 3 * C, q0, T, hs);
}

// A stage of the kernel below: 32 queries, first …, their douts, and as floats their stats and delta. `numbers` is this
// thread's part of the latter, whose first 32 threads copy stats and the next 32 delta.
const int STAGE = 2 * QUERIES * (STRIDE + 2);

__device__ void copy_stage(floatX* to, const floatX* queries, const floatX* douts, const float* numbers, int first,
                           int T, int C, int hs)
{
    copy_tile<QUERIES>(to, queries, 3 * C, first, T, hs);
    copy_tile<QUERIES>(to + QUERIES * STRIDE, douts, C, first, T, hs);
    int t = first + threadIdx.x % QUERIES;
    if (threadIdx.x < 2 * QUERIES) {
        copy_async<1>(reinterpret_cast<float*>(to + 2 * QUERIES * STRIDE) + threadIdx.x, numbers + t, t < T);
    }
    end_batch();
}

// dk and dv. Shared memory: ROWS keys and values, two stages.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_backward_key_v2(floatX* dqkv, const floatX* dout, const float* stats, const float* delta, const floatX* qkv,
                          int T, int NH, int hs)
{
    extern __shared__ __align__(16) floatX shared[];
    floatX *keys = shared, *values = keys + ROWS * STRIDE, *stage = values + ROWS * STRIDE, *other = stage + STAGE;
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = blockIdx.y * ROWS;
    int k0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first key
    const floatX *head = qkv + (size_t)b * T * 3 * C + h * hs, *dhead = dout + (size_t)b * T * C + h * hs;
    const float* numbers = (threadIdx.x < QUERIES ? stats : delta) + (size_t)blockIdx.x * T;
    float factor[M][2], ones[M][2], scale = rsqrtf((float)hs);
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) factor[i / 2][i % 2] = scale, ones[i / 2][i % 2] = 1.0f;
    Sums dk = {}, dv = {};

    copy_tile<ROWS>(keys, head + C, 3 * C, first, T, hs);
    copy_tile<ROWS>(values, head + 2 * C, 3 * C, first, T, hs);
    keys += (k0 - first) * STRIDE, values += (k0 - first) * STRIDE;  // the warp's own
    copy_stage(stage, head, dhead, numbers, first, T, C, hs);
    for (int q0 = first; q0 < T; q0 += QUERIES) {
        wait_but<0>();
        __syncthreads();  // this stage is there, and all threads are done with the other
        if (q0 + QUERIES < T) copy_stage(other, head, dhead, numbers, q0 + QUERIES, T, C, hs);
        if (q0 + QUERIES > k0) {  // the last query sees the warp's first key
            const floatX* douts = stage + QUERIES * STRIDE;
            const float *lse = reinterpret_cast<const float*>(douts + QUERIES * STRIDE), *mean = lse + QUERIES;
            float p[M][QUERIES / 8][4], ds[M][QUERIES / 8][4];  // transposed: rows are keys, columns queries
            dot_tiles(p, keys, stage);
            if (q0 < k0 + OWN - 1) hide_later<true>(p, k0, q0);  // queries beyond T need not be: their douts are 0
            #pragma unroll
            for (int i = 0; i < M * QUERIES / 2; i++) {
                int m = i / (QUERIES / 2), n = i / 4 % (QUERIES / 8), d = i % 4;
                float log_sum = lse[8 * n + 2 * j_of_lane() + d % 2] * LOG2E;
                p[m][n][d] = power_of_two(p[m][n][d] * (scale * LOG2E) - log_sum);
            }
            dot_tiles(ds, values, douts);
            #pragma unroll
            for (int i = 0; i < M * QUERIES / 2; i++) {
                int m = i / (QUERIES / 2), n = i / 4 % (QUERIES / 8), d = i % 4;
                ds[m][n][d] = p[m][n][d] * (ds[m][n][d] - mean[8 * n + 2 * j_of_lane() + d % 2]);
            }
            weigh_rows(dv, p, douts);
            weigh_rows(dk, ds, stage);
        }
        floatX* used = stage;
        stage = other, other = used;
    }
    floatX* to = dqkv + (size_t)b * T * 3 * C + h * hs;
    store_sums(to + C, dk, factor, 3 * C, k0, T, hs);
    store_sums(to + 2 * C, dv, ones, 3 * C, k0, T, hs);
}
