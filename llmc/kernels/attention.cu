/* Causal attention: out = softmax(q kT / sqrt(hs)) v for each head.

v1  three kernels, as the formula has it: scores, softmax, values; a thread computes one number. All probabilities,
    (T, T) for each head, go to memory and come back
v2  the library multiplies; the softmax is the kernel of v1, and the probabilities still go through memory
v3  one kernel, one warp per query: online softmax. It walks over the keys once, keeps the largest score so far and
    the sums relative to it, and shrinks them when a larger one turns up. No (T, T) array anywhere
v4  flash attention (attention_tiles.cu): a block per tile of queries, keys and values in shared memory
v5  the same with larger tiles, copied while others are in use (attention_flash.cu)
v6  on tensor cores, which know TF32: three products for one of float32 (attention_tensor.cu)
v7  on tensor cores, one product: factors are rounded to TF32

Online softmax: Milakov & Gimelshein 2018; with tiles: FlashAttention, Dao et al. 2022. From v3 on, one number per query
is kept for the backward pass, the logarithm of the sum of exponentials: p = exp(score - stats) then needs no second
softmax. v1 and v2 write it too.

Shapes: qkv (B, T, 3C), a row is [q; k; v], each NH heads of hs; out (B, T, C); stats (B, NH, T); p (B, NH, T, T).
Row r of (B, NH, T) is head r / T and query r % T.
*/

#include "one_warp.cuh"

__device__ float warp_max(float v)
{
    for (int gap = 16; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    return v;
}

// Where q of head `head` and position t begins in qkv; k and v follow C and 2 C numbers later.
__device__ size_t place(size_t head, int t, int T, int NH, int hs)
{
    return (head / NH * T + t) * 3 * NH * hs + head % NH * hs;
}

// p[head, t, i] = q . k / sqrt(hs), zero for later keys. One thread per number; the grid may be smaller.
extern "C" __global__ void attention_scores_v1(float* p, const float* qkv, int heads, int T, int NH, int hs)
{
    size_t numbers = (size_t)heads * T * T, step = (size_t)gridDim.x * blockDim.x;
    for (size_t n = (size_t)blockIdx.x * blockDim.x + threadIdx.x; n < numbers; n += step) {
        int i = n % T, t = n / T % T;
        const float *q = qkv + place(n / T / T, t, T, NH, hs), *k = qkv + place(n / T / T, i, T, NH, hs) + NH * hs;
        float total = 0.0f;
        for (int c = 0; c < hs && i <= t; c++) total += q[c] * k[c];
        p[n] = total * rsqrtf((float)hs);
    }
}

// Row by row: p = softmax of its first t + 1 numbers, zero behind them. One warp per row (B, NH, T).
extern "C" __global__ void attention_softmax_v1(float* p, float* stats, int heads, int T)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32;
    if (r >= (size_t)heads * T) return;  // a whole warp leaves
    int lane = threadIdx.x % 32, n = r % T + 1;
    float *row = p + r * T, top = LOWEST, total = 0.0f;
    for (int i = lane; i < n; i += 32) top = fmaxf(top, row[i]);
    top = warp_max(top);
    for (int i = lane; i < n; i += 32) total += expf(row[i] - top);
    total = warp_sum(total);
    for (int i = lane; i < T; i += 32) row[i] = i < n ? expf(row[i] - top) / total : 0.0f;
    if (lane == 0) stats[r] = top + logf(total);
}

// out = p v. One thread per number of out (B, T, NH, hs); the grid may be smaller.
extern "C" __global__ void attention_values_v1(float* out, const float* p, const float* qkv, int B, int T, int NH,
                                               int hs)
{
    size_t numbers = (size_t)B * T * NH * hs, step = (size_t)gridDim.x * blockDim.x;
    for (size_t n = (size_t)blockIdx.x * blockDim.x + threadIdx.x; n < numbers; n += step) {
        int c = n % hs, h = n / hs % NH, t = n / hs / NH % T;
        size_t head = n / hs / NH / T * NH + h;
        const float *row = p + (head * T + t) * T, *v = qkv + place(head, 0, T, NH, hs) + 2 * NH * hs + c;
        float total = 0.0f;
        for (int i = 0; i <= t; i++) total += row[i] * v[(size_t)i * 3 * NH * hs];
        out[n] = total;
    }
}

// One warp per row of (B, NH, T), four to a block.
extern "C" __global__ void attention_forward_v3(float* out, float* stats, const float* qkv, int heads, int T, int NH,
                                                int hs)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / T;
    int t = r % T, C = NH * hs;
    if (head >= heads) return;  // a whole warp leaves
    const float *query = qkv + place(head, t, T, NH, hs), *keys = qkv + place(head, 0, T, NH, hs) + C;
    float* row = out + (head / NH * T + t) * C + head % NH * hs;
    float sum = attend(row, query, keys, keys + C, 3 * C, t + 1, hs);
    if (threadIdx.x % 32 == 0) stats[r] = sum;
}
