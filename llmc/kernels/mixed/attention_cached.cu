/* Attention of new positions to those in a cache of keys and values: decoding, one token at a time.

keep    the keys and values of the new positions join the cache
cached  v1 one block per query: each warp walks over every eighth key with an online softmax, and what the warps have
        found is put together in a fixed order
        v2 for a single new position, which it also keeps: a few lanes read a key by 128-bit loads, so that a block has
        hundreds of keys under way at once

Shapes: cache (2, B, NH, maxT, HS), keys then values; qkv (B, n, 3C), out (B, n, C) for the positions start to
start + n - 1. start lies in device memory, so that a recorded launch finds a new number the next time. Row r of
(B, NH, n) is head r / n and new position r % n.
*/

#include "number.cuh"
#include "warp.cuh"

#ifndef HS
#define HS 64  // head size; attention.py defines it
#endif

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
    return warp_sum(total);
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

#if HS % 8 == 0

const int THREADS = 512, EACH = 2;  // keys of a group under way
const int EIGHTS = HS / 8;          // 128-bit words of a row
// Lanes of a group, which has a key: at least one for each word.
const int LANES = EIGHTS > 16 ? 32 : EIGHTS > 8 ? 16 : EIGHTS > 4 ? 8 : EIGHTS > 2 ? 4 : EIGHTS;
const int GROUPS = THREADS / LANES, FEW = THREADS / 32;  // FEW: warps
static_assert(LANES >= EIGHTS, "a lane has one word of a row");

// One block per head; cache and qkv begin at multiples of 16 bytes. n = 1. Scores are powers of two.
extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_cached_v2(floatX* out, floatX* cache,
                                                                            const floatX* qkv, int B, int NH,
                                                                            const int* start, int maxT)
{
    __shared__ float tops[FEW], totals[FEW], found[FEW][HS];
    size_t head = blockIdx.x, C = NH * HS, b = head / NH;
    int newest = *start, group = threadIdx.x / LANES, place = threadIdx.x % LANES, warp = threadIdx.x / 32;
    bool has = place < EIGHTS;
    const uint4* fresh = reinterpret_cast<const uint4*>(qkv + b * 3 * C + head % NH * HS) + place;  // q; C on, k; v
    uint4* keys = reinterpret_cast<uint4*>(cache + head * maxT * HS) + place;
    uint4* values = keys + (size_t)B * NH * maxT * EIGHTS;
    const uint4 nothing = make_uint4(0, 0, 0, 0);
    float top = LOWEST, total = 0.0f, scale = rsqrtf((float)HS) * 1.4426950409f;  // log2(e)
    Eight q, sums = {}, numbers;

    widen(q, has ? *fresh : nothing);
    for (int i = group; i - group <= newest; i += GROUPS * EACH) {
        uint4 k[EACH], v[EACH];
        float scores[EACH], higher = top;
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            int key = i + e * GROUPS;
            bool old = key < newest, there = has && key <= newest;
            k[e] = there ? *(old ? keys + (size_t)key * EIGHTS : fresh + C / 8) : nothing;
            v[e] = there ? *(old ? values + (size_t)key * EIGHTS : fresh + C / 4) : nothing;
        }
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            float score = 0.0f;
            widen(numbers, k[e]);
            #pragma unroll
            for (int c = 0; c < 8; c++) score += q[c] * numbers[c];
            for (int gap = LANES / 2; gap > 0; gap /= 2) score += __shfl_xor_sync(ALL, score, gap);
            scores[e] = i + e * GROUPS <= newest ? score * scale : LOWEST;
            higher = fmaxf(higher, scores[e]);
        }
        float old = exp2f(top - higher);
        top = higher, total *= old;
        #pragma unroll
        for (int c = 0; c < 8; c++) sums[c] *= old;
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            int key = i + e * GROUPS;
            float p = key <= newest ? exp2f(scores[e] - top) : 0.0f;
            total += p;
            widen(numbers, v[e]);
            #pragma unroll
            for (int c = 0; c < 8; c++) sums[c] += p * numbers[c];
            if (key == newest && has) {
                keys[(size_t)key * EIGHTS] = k[e];
                values[(size_t)key * EIGHTS] = v[e];
            }
        }
    }
    for (int gap = LANES; gap < 32; gap *= 2) {  // what the groups of a warp have found, together
        float others = __shfl_xor_sync(ALL, top, gap), higher = fmaxf(top, others);
        float mine = exp2f(top - higher), theirs = exp2f(others - higher);
        top = higher, total = total * mine + __shfl_xor_sync(ALL, total, gap) * theirs;
        #pragma unroll
        for (int c = 0; c < 8; c++) sums[c] = sums[c] * mine + __shfl_xor_sync(ALL, sums[c], gap) * theirs;
    }
    if (threadIdx.x % 32 < EIGHTS) {
        #pragma unroll
        for (int c = 0; c < 8; c++) found[warp][8 * place + c] = sums[c];
    }
    if (threadIdx.x % 32 == 0) tops[warp] = top, totals[warp] = total;
    __syncthreads();
    int c = threadIdx.x;
    if (c >= HS) return;
    float sum = 0.0f;
    top = tops[0], total = 0.0f;
    #pragma unroll
    for (int w = 1; w < FEW; w++) top = fmaxf(top, tops[w]);
    #pragma unroll
    for (int w = 0; w < FEW; w++) {
        float factor = exp2f(tops[w] - top);
        total += totals[w] * factor;
        sum += found[w][c] * factor;
    }
    out[b * C + head % NH * HS + c] = nearest(sum / total);
}

#endif
