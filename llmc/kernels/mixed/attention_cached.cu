/* Attention of new positions to those in a cache of keys and values: decoding, one token at a time.

keep    the keys and values of the new positions join the cache
cached  one block per query: each warp walks over every eighth key with an online softmax, and what the warps have found
        is put together in a fixed order

Shapes: cache (2, B, NH, maxT, HS), keys then values; qkv (B, n, 3C), out (B, n, C) for the positions start to
start + n - 1. start lies in device memory, so that a recorded launch finds another number the next time. Row r of
(B, NH, n) is head r / n and new position r % n.
*/

#include "number.cuh"

#ifndef HS
#define HS 64  // head size; attention.py defines it
#endif

const unsigned ALL = 0xffffffff;         // all 32 lanes of a warp take part
const float LOWEST = -3.402823466e+38f;  // where a maximum starts: finite, so that LOWEST - LOWEST is not NaN
const int WARPS = 8, PARTS = (HS + 31) / 32;
typedef float Lane[PARTS];  // a lane's part of a row of HS numbers: lane, lane + 32, ...

// One thread per number; the grid may be smaller.
extern "C" __global__ void attention_cached_keep_v1(floatX* cache, const floatX* qkv, int B, int n, int NH,
                                                    const int* start, int maxT)
{
    size_t C = NH * HS, numbers = (size_t)B * n * 2 * C, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < numbers; i += step) {
        size_t c = i % C, part = i / C % 2, row = i / C / 2, b = row / n, t = row % n;  // row of qkv: b, t
        size_t head = (part * B + b) * NH + c / HS;
        cache[(head * maxT + *start + t) * HS + c % HS] = qkv[row * 3 * C + (1 + part) * C + c];
    }
}

__device__ void load(Lane& lane, const floatX* row)
{
    #pragma unroll
    for (int i = 0; i < PARTS; i++) {
        int c = threadIdx.x % 32 + 32 * i;
        lane[i] = c < HS ? widen(row[c]) : 0.0f;
    }
}

__device__ float dot(const Lane& a, const Lane& b)
{
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < PARTS; i++) total += a[i] * b[i];
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    return total;
}

extern "C" __global__ void __launch_bounds__(256) attention_cached_v1(floatX* out, const floatX* cache,
                                                                      const floatX* qkv, int B, int n, int NH,
                                                                      const int* start, int maxT)
{
    __shared__ float tops[WARPS], totals[WARPS], found[WARPS][32 * PARTS];
    size_t head = blockIdx.x / n, t = blockIdx.x % n, C = NH * HS, row = head / NH * n + t;  // row of qkv and out
    const floatX *keys = cache + head * maxT * HS, *values = keys + (size_t)B * NH * maxT * HS;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, end = *start + t + 1;
    float top = LOWEST, total = 0.0f, scale = rsqrtf((float)HS);
    Lane q, k, v, sums = {};
    load(q, qkv + row * 3 * C + head % NH * HS);
    for (int i = warp; i < end; i += WARPS) {
        load(k, keys + (size_t)i * HS);
        load(v, values + (size_t)i * HS);
        float score = dot(q, k) * scale, higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);
        #pragma unroll
        for (int j = 0; j < PARTS; j++) sums[j] = sums[j] * old + p * v[j];
        total = total * old + p;
        top = higher;
    }
    #pragma unroll
    for (int j = 0; j < PARTS; j++) found[warp][lane + 32 * j] = sums[j];
    if (lane == 0) tops[warp] = top, totals[warp] = total;
    __syncthreads();
    top = tops[0], total = 0.0f;
    for (int w = 1; w < WARPS; w++) top = fmaxf(top, tops[w]);
    for (int w = 0; w < WARPS; w++) total += totals[w] * expf(tops[w] - top);
    for (int c = threadIdx.x; c < HS; c += blockDim.x) {
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++) sum += found[w][c] * expf(tops[w] - top);
        out[row * C + head % NH * HS + c] = nearest(sum / total);
    }
}
