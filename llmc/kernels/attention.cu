/* Causal attention, out = softmax(q kT / sqrt(hs)) v for each head, and its backward pass, dqkv from dout: versions for
heads of any size.

attention_forward
v3  one kernel, one warp per query: online softmax. It walks over the keys once, keeps the largest score so far and
    the sums relative to it, and shrinks them when a larger one turns up. No (T, T) array anywhere
v4  flash attention (attention_tiles.cu): a block per tile of queries, keys and values in shared memory
v5  the same with larger tiles, copied while others are in use (attention_flash.cu)
v6  on tensor cores, which know TF32: three products for one of float32 (attention_tensor.cu)
v7  on tensor cores, one product: factors are rounded to TF32

attention_backward
v1  one warp per query, and one per key, which reads all rows of the other kind from memory for itself
v2 to v5  as v4 to v7 above, in the same files

v1 and v2 of the forward pass, which keep all probabilities, are in ladder/attention.cu.
Online softmax: Milakov & Gimelshein 2018; with tiles: FlashAttention, Dao et al. 2022. One number per query is kept for
the backward pass, the logarithm of the sum of exponentials: p = exp(score - stats) then needs no second softmax.

Backward, with p = softmax(q kT / sqrt(hs)) and out = p v:
    dv = pT dout;  dp = dout vT;  ds = p (dp - delta) / sqrt(hs);  dq = ds k;  dk = dsT q
delta of a query is the sum of p dp over its keys, which is dout . out: D = rowsum(dO * O) in the FlashAttention paper.
dq sums over keys, dk and dv over queries: two kernels, so that every sum has one owner and a fixed order. That takes
seven products, two more than one kernel would need, but no atomics.

Shapes: qkv, dqkv (B, T, 3C), a row is [q; k; v], each NH heads of hs; out, dout (B, T, C); stats, delta (B, NH, T).
Row r of (B, NH, T) is head r / T and query (or key) r % T. One warp per row, four to a block.
*/

#include "one_warp.cuh"

// Where q of head `head` and position t begins in qkv and dqkv; k and v follow C and 2 C numbers later.
__device__ size_t place(size_t head, int t, int T, int NH, int hs)
{
    return (head / NH * T + t) * 3 * NH * hs + head % NH * hs;
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

// ------------------------------------------------------------------------------------------------------------ backward

// Where that head and position begin in out and dout.
__device__ size_t place_out(size_t head, int t, int T, int NH, int hs)
{
    return (head / NH * T + t) * NH * hs + head % NH * hs;
}

// delta = dout . out
extern "C" __global__ void attention_backward_delta_v1(float* delta, const float* dout, const float* out, int heads,
                                                       int T, int NH, int hs)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / T;
    if (head >= heads) return;  // a whole warp leaves
    size_t row = place_out(head, r % T, T, NH, hs);
    float total = dot(dout + row, out + row, hs);
    if (threadIdx.x % 32 == 0) delta[r] = total;
}

// The same for heads that are a multiple of 4: eight lanes per row, in the order of memory, (B, T, NH).
extern "C" __global__ void attention_backward_delta_v2(float* delta, const float* dout, const float* out, int heads,
                                                       int T, int NH, int hs)
{
    size_t r = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 8, rows = (size_t)heads * T;
    float total = 0.0f;
    for (int c = threadIdx.x % 8 * 4; c < hs && r < rows; c += 32) {
        float4 a = *reinterpret_cast<const float4*>(dout + r * hs + c);
        float4 b = *reinterpret_cast<const float4*>(out + r * hs + c);
        total += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    for (int gap = 4; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    size_t h = r % NH, t = r / NH % T, b = r / NH / T;
    if (threadIdx.x % 8 == 0 && r < rows) delta[(b * NH + h) * T + t] = total;
}

extern "C" __global__ void attention_backward_query_v1(float* dqkv, const float* dout, const float* stats,
                                                       const float* delta, const float* qkv, int heads, int T, int NH,
                                                       int hs)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / T;
    if (head >= heads) return;
    int t = r % T, C = NH * hs;
    const float *q = qkv + place(head, t, T, NH, hs), *d = dout + place_out(head, t, T, NH, hs);
    float *dq = dqkv + place(head, t, T, NH, hs), scale = rsqrtf((float)hs);
    for (int c = threadIdx.x % 32; c < hs; c += 32) dq[c] = 0.0f;
    for (int i = 0; i <= t; i++) {  // the keys that this query sees
        const float *k = qkv + place(head, i, T, NH, hs) + C, *v = k + C;
        float p = expf(dot(q, k, hs) * scale - stats[r]), ds = p * (dot(d, v, hs) - delta[r]) * scale;
        for (int c = threadIdx.x % 32; c < hs; c += 32) dq[c] += ds * k[c];
    }
}

extern "C" __global__ void attention_backward_key_v1(float* dqkv, const float* dout, const float* stats,
                                                     const float* delta, const float* qkv, int heads, int T, int NH,
                                                     int hs)
{
    size_t r = (size_t)blockIdx.x * 4 + threadIdx.x / 32, head = r / T;
    if (head >= heads) return;
    int i = r % T, C = NH * hs;
    const float *k = qkv + place(head, i, T, NH, hs) + C, *v = k + C;
    float *dk = dqkv + place(head, i, T, NH, hs) + C, *dv = dk + C, scale = rsqrtf((float)hs);
    for (int c = threadIdx.x % 32; c < hs; c += 32) dk[c] = dv[c] = 0.0f;
    for (int t = i; t < T; t++) {  // the queries that see this key
        const float *q = qkv + place(head, t, T, NH, hs), *d = dout + place_out(head, t, T, NH, hs);
        size_t query = head * T + t;
        float p = expf(dot(q, k, hs) * scale - stats[query]), ds = p * (dot(d, v, hs) - delta[query]) * scale;
        for (int c = threadIdx.x % 32; c < hs; c += 32) {
            dv[c] += p * d[c];
            dk[c] += ds * q[c];
        }
    }
}
