// What one warp does for a query, whatever the head size: dot products, and online softmax over the keys.

#include "warp.cuh"

// Sum of a[c] * b[c] over hs numbers, by one warp; every lane gets it.
__device__ float dot(const float* a, const float* b, int hs)
{
    float total = 0.0f;
    for (int c = threadIdx.x % 32; c < hs; c += 32) total += a[c] * b[c];
    return warp_sum(total);
}

// One query and its n keys, by one warp: out (hs,) is where the sum grows. Returns log(sum of exponentials).
__device__ float attend(float* out, const float* q, const float* k, const float* v, size_t stride, int n, int hs)
{
    int lane = threadIdx.x % 32;
    float scale = rsqrtf((float)hs), top = LOWEST, total = 0.0f;
    for (int c = lane; c < hs; c += 32) out[c] = 0.0f;
    for (int i = 0; i < n; i++) {
        float score = dot(q, k + i * stride, hs) * scale;
        float higher = fmaxf(top, score), old = expf(top - higher), p = expf(score - higher);
        for (int c = lane; c < hs; c += 32) out[c] = out[c] * old + p * v[i * stride + c];
        total = total * old + p;
        top = higher;
    }
    for (int c = lane; c < hs; c += 32) out[c] /= total;
    return top + logf(total);
}
