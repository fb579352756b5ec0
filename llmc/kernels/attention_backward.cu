/* The backward pass of causal attention: dqkv from dout.

With p = softmax(q kT / sqrt(hs)) and out = p v:
    dv = pT dout;  dp = dout vT;  ds = p (dp - delta) / sqrt(hs);  dq = ds k;  dk = dsT q
delta of a query is the sum of p dp over its keys, which is dout . out: D = rowsum(dO * O) in the FlashAttention paper.
p is computed again from the scores and stats, p = exp(score - stats), so no (T, T) array is kept.
dq sums over keys, dk and dv over queries: two kernels, so that every sum has one owner and a fixed order. That makes
two of the seven products more than one kernel would need, but no atomics.

v1  one warp per query, and one per key, which reads all rows of the other kind from memory for itself
v2  tiles in shared memory, results in registers (attention_tiles_backward.cu)
v3  the same with larger tiles, copied while others are in use (attention_flash_backward.cu)
v4  on tensor cores, which know TF32: three products for one of float32 (attention_tensor_backward.cu)
v5  on tensor cores, one product: factors are rounded to TF32

Shapes: qkv, dqkv (B, T, 3C), a row is [q; k; v], each NH heads of hs; out, dout (B, T, C); stats, delta (B, NH, T).
Row r of (B, NH, T) is head r / T and query (or key) r % T. One warp per row, four to a block.
*/

#include "one_warp.cuh"

// Where q of head `head` and position t begins in qkv and dqkv; k and v follow C and 2 C numbers later.
__device__ size_t place(size_t head, int t, int T, int NH, int hs)
{
    return (head / NH * T + t) * 3 * NH * hs + head % NH * hs;
}

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
