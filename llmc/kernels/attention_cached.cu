/* Attention of new positions to those in a cache of keys and values: decoding, one token at a time.

v1  two kernels: the new keys and values join the cache; then one warp per query walks over all keys
v3  many blocks per query, each with 64 keys or more, all of them requested before the first is used; the block of a
    query that is the last to finish combines what all of them have found, in a fixed order (flash decoding). The new
    keys come from qkv, so that nothing waits for the cache. With many queries a block has more keys, so that less has
    to be combined

v2, the step between them, is in ladder/attention_cached.cu.
Shapes: cache (2, B, NH, maxT, hs), keys then values; qkv (B, n, 3C), out (B, n, C) for the positions start to
start + n - 1. start lies in device memory, so that a recorded launch finds a new number the next time; the grid may
then be larger than needed. Row r of (B, NH, n) is head r / n and new position r % n.
*/

#ifndef HS
#define HS 64  // v2: head size; attention_cached.py defines it
#endif

#include "one_warp.cuh"

// Copies keys and values of n new positions to where they belong. One thread per number; the grid may be smaller.
extern "C" __global__ void attention_cached_keep_v1(float* cache, const float* qkv, int B, int n, int NH, int hs,
                                                    const int* start, int maxT)
{
    size_t C = NH * hs, numbers = (size_t)B * n * 2 * C, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < numbers; i += step) {
        size_t c = i % C, part = i / C % 2, row = i / C / 2, b = row / n, t = row % n;  // row of qkv: b, t
        size_t head = (part * B + b) * NH + c / hs;
        cache[(head * maxT + *start + t) * hs + c % hs] = qkv[row * 3 * C + (1 + part) * C + c];
    }
}

// One warp per row of (B, NH, n), four to a block.
extern "C" __global__ void attention_cached_v1(float* out, const float* cache, const float* qkv, int B, int n, int NH,
                                               int hs, const int* start, int maxT)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / n, t = r % n, C = NH * hs;
    if (head >= (size_t)B * NH) return;  // a whole warp leaves
    const float *keys = cache + head * maxT * hs, *values = keys + (size_t)B * NH * maxT * hs;
    size_t row = head / NH * n + t;  // of qkv and out
    attend(out + row * C + head % NH * hs, qkv + row * 3 * C + head % NH * hs, keys, values, hs, *start + t + 1, hs);
}

// ------------------------------------------------------------------------------------------------ split over the keys
// A block has eight groups of 16 lanes. A group has every eighth key, a lane LANE of each 16 LANE channels.

const int LANE = HS % 4 ? 1 : 4, PARTS = (HS + 16 * LANE - 1) / (16 * LANE);
const int GROUPS = 8, EACH = 8, KEYS = GROUPS * EACH;

struct alignas(4 * LANE) Some {  // read and written in one access
    float number[LANE];
};
typedef Some Piece[PARTS];  // a lane's part of a row of HS numbers

// Where a lane's piece[part] begins in its row.
__device__ int channel(int part)
{
    return (part * 16 + threadIdx.x % 16) * LANE;
}

__device__ void load(Piece& piece, const float* row)
{
    #pragma unroll
    for (int part = 0; part < PARTS; part++) {
        piece[part] = {};
        if (channel(part) < HS) piece[part] = *reinterpret_cast<const Some*>(row + channel(part));
    }
}

__device__ void store(float* row, const Piece& piece)
{
    #pragma unroll
    for (int part = 0; part < PARTS; part++) {
        if (channel(part) < HS) *reinterpret_cast<Some*>(row + channel(part)) = piece[part];
    }
}

// a . b, by the 16 lanes of a group; each of them gets it.
__device__ float dot(const Piece& a, const Piece& b)
{
    float total = 0.0f;
    #pragma unroll
    for (int i = 0; i < PARTS * LANE; i++) total += a[i / LANE].number[i % LANE] * b[i / LANE].number[i % LANE];
    for (int gap = 8; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    return total;
}

// What a group or a block has found: sums of exp2(score - top) v and of exp2(score - top), scores as powers of two.
struct Found {
    float top, total, sums[HS];
};

// found = others[0 … n) together, by a whole block, in the order of others.
__device__ void combine(Found* found, const Found* others, int n)
{
    float top = LOWEST, total = 0.0f;
    for (int i = 0; i < n; i++) top = fmaxf(top, others[i].top);
    for (int i = 0; i < n; i++) total += others[i].total * exp2f(others[i].top - top);
    for (int c = threadIdx.x; c < HS; c += blockDim.x) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) sum += others[i].sums[c] * exp2f(others[i].top - top);
        found->sums[c] = sum;
    }
    if (threadIdx.x == 0) found->top = top, found->total = total;
}

// Grid: rows (B, NH, n) in x, splits of `span` keys in y. A block has one split of one row: what its groups find. A split
// beyond the newest position finds nothing: totals of 0.
__device__ void search(Found* groups, float* cache, const float* qkv, int B, int n, int NH, const int* first, int maxT,
                       int span)
{
    size_t head = blockIdx.x / n, b = head / NH, t = blockIdx.x % n, C = NH * HS;
    const float* queries = qkv + b * n * 3 * C + head % NH * HS;  // of the first new position
    float *keys = cache + head * maxT * HS, *values = keys + (size_t)B * NH * maxT * HS;
    int start = *first, newest = start + t, group = threadIdx.x / 16, end = min((int)(blockIdx.y + 1) * span, newest + 1);
    float top = LOWEST, total = 0.0f;
    Piece q, sums = {};

    load(q, queries + t * 3 * C);
    for (int i = blockIdx.y * span; i < end; i += KEYS) {
        Piece k[EACH], v[EACH];
        float scores[EACH], higher = top;
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            int key = min(i + e * GROUPS + group, end - 1);  // beyond the end: any, it gets no weight
            const float* fresh = queries + (size_t)max(key - start, 0) * 3 * C + C;
            load(k[e], key < start ? keys + (size_t)key * HS : fresh);
            load(v[e], key < start ? values + (size_t)key * HS : fresh + C);
        }
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            scores[e] = dot(q, k[e]) * rsqrtf((float)HS) * LOG2E;
            if (i + e * GROUPS + group < end) higher = fmaxf(higher, scores[e]);
        }
        float old = exp2f(top - higher);
        top = higher, total *= old;
        #pragma unroll
        for (int c = 0; c < PARTS * LANE; c++) sums[c / LANE].number[c % LANE] *= old;
        #pragma unroll
        for (int e = 0; e < EACH; e++) {
            int key = i + e * GROUPS + group;
            float p = key < end ? exp2f(scores[e] - top) : 0.0f;
            total += p;
            #pragma unroll
            for (int c = 0; c < PARTS * LANE; c++) {
                sums[c / LANE].number[c % LANE] += p * v[e][c / LANE].number[c % LANE];
            }
            if (key == newest) {
                store(keys + (size_t)key * HS, k[e]);
                store(values + (size_t)key * HS, v[e]);
            }
        }
    }
    #pragma unroll
    for (int c = 0; c < PARTS * LANE; c++) {
        int at = channel(c / LANE) + c % LANE;
        if (at < HS) groups[group].sums[at] = sums[c / LANE].number[c % LANE];
    }
    if (threadIdx.x % 16 == 0) groups[group].top = top, groups[group].total = total;
    __syncthreads();
}

// out = what all splits of this block's row have found, together.
__device__ void finish(float* out, const Found* found, int n, int NH, int splits)
{
    __shared__ Found all;
    size_t head = blockIdx.x / n, row = head / NH * n + blockIdx.x % n;
    combine(&all, found + (size_t)blockIdx.x * splits, splits);
    __syncthreads();
    float* to = out + row * NH * HS + head % NH * HS;
    for (int c = threadIdx.x; c < HS; c += blockDim.x) to[c] = all.sums[c] / all.total;
}

// finished (B, NH, n): how many blocks of a row have written what they found. atomicInc adds 1, but the last block sets
// it to 0: zeros at the launch, and for the next one.
extern "C" __global__ void __launch_bounds__(128) attention_cached_split_v3(float* out, unsigned* finished, Found* found,
                                                                            float* cache, const float* qkv, int B,
                                                                            int n, int NH, const int* first, int maxT,
                                                                            int span)
{
    __shared__ Found groups[GROUPS];
    __shared__ bool last;
    search(groups, cache, qkv, B, n, NH, first, maxT, span);
    combine(found + (size_t)blockIdx.x * gridDim.y + blockIdx.y, groups, GROUPS);
    __threadfence();  // what this thread has written is seen by whoever sees the count below
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&finished[blockIdx.x], gridDim.y - 1) == gridDim.y - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    finish(out, found, n, NH, gridDim.y);
}
