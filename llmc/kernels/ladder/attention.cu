/* Steps of causal attention before the kernels of ../attention.cu: three kernels, as the formula has it, scores, softmax,
values. All probabilities, p (B, NH, T, T), go to memory and come back.

v1  a thread computes one number
v2  the library multiplies; the softmax is the kernel of v1, and the probabilities still go through memory

Both write stats too.
*/

#include "../attention.cu"

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
