/* Flash attention, for heads of any size up to HS.

v4  one block per tile of 64 queries; keys and values come to shared memory 64 at a time, results stay in registers

Shapes as in attention.cu.
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32; attention.py defines it
#endif

#include "small_tiles.cuh"

const unsigned ALL = 0xffffffff;         // all 32 lanes of a warp take part
const float LOWEST = -3.402823466e+38f;  // where a maximum starts: finite, so that LOWEST - LOWEST is not NaN

// Sum, maximum over the eight threads that share a row.
__device__ float row_sum(float v)
{
    for (int gap = 4; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}

__device__ float row_max(float v)
{
    for (int gap = 4; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    return v;
}

// Turns scores (rows q0 + ty + 16 i, keys k0 + tx + 8 j) into probabilities relative to top[i]. It may grow: then what
// was summed up so far shrinks.
__device__ void online_softmax(float (&scores)[4][8], float (&top)[4], float (&total)[4], Channels& sums, int q0,
                               int k0, float scale)
{
    int ty = threadIdx.x / 8, tx = threadIdx.x % 8;
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float higher = top[i];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            bool seen = k0 + tx + 8 * j <= q0 + ty + 16 * i;  // a query sees no later key
            scores[i][j] = seen ? scores[i][j] * scale : LOWEST;
            higher = fmaxf(higher, scores[i][j]);
        }
        higher = row_max(higher);
        float old = expf(top[i] - higher), more = 0.0f;
        top[i] = higher;
        #pragma unroll
        for (int j = 0; j < 8; j++) more += scores[i][j] = expf(scores[i][j] - higher);
        total[i] = total[i] * old + more;  // of this thread's keys; the eight are added at the end
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            #pragma unroll
            for (int n = 0; n < 4; n++) sums[i][g][n] *= old;
        }
    }
}

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
