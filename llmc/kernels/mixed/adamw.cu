/* AdamW (Loshchilov & Hutter 2019) in float, with gradients and weights of 16 bits; the norm of all gradients.

adamw_update  one step on the master weights or, without them, on the weights; these become their rounding
norm          two stages in a fixed order: the sum of squares of each block, then the sum of those, and its root

Most updates of a weight are smaller than half the gap between two bfloat16 numbers, and rounding to the nearest would
undo them all. So weights are rounded stochastically, up with the probability of their distance from below: 16 random
bits are added to the 16 that are cut off, and carry into the others as often as they should. float16 has gaps an eighth
as wide, and is rounded to the nearest. The random bits of a weight depend on the step, the tensor and its place in it
alone, and are those of llmc/backends/mixed.py, bit for bit.

Each thread has eight weights. n is below 2^31 - 2^20.
*/

#include "number.cuh"

// What is the same for all weights in a step: see llmc/kernels/adamw.cu. unscale undoes the loss scale; key is the
// number of the step's first tensor, and those after it have the next ones.
struct Settings {
    float step, root, rate1, rate2, eps, keep, factor, unscale;
    unsigned key;
};

// A permutation in which every bit of the result depends on all bits (constants of Wellons 2018).
__device__ unsigned stir(unsigned x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ floatX round_weight(float v, unsigned key, unsigned place)
{
#if FLOAT16
    return nearest(v);
#else
    unsigned random = stir(stir(place) + stir(key)) & 0xffff;
    return isfinite(v) ? floatX{(unsigned short)((__float_as_uint(v) + random) >> 16)} : nearest(v);
#endif
}

// master: 0 where there are no master weights. tensor: its number; place: that of the first of these weights in it.
// Weights that are not neighbours lie in rows: `row` of them, then the next ones, `stride` places after the first of
// these; row is a multiple of eight, or n. All other arrays hold nothing else. decayed == 0: its weights do not decay.
extern "C" __global__ void adamw_update_v1(floatX* params, floatX* grads, float* m, float* v, float* master, int n,
                                           const float* settings, int tensor, unsigned place, int row, int stride,
                                           int decayed, int clear)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8, left = n - i, j = i / row * stride + i % row;
    Settings s = *reinterpret_cast<const Settings*>(settings);
    if (i >= n || isnan(s.factor)) return;  // NaN: the norm is not finite, see clip_factor in llmc/kernels/norm.cu
    Eight p, g, m8, v8, zero = {};
    floatX rounded[8];
    if (master) load(p, master + i, left);
    else load(p, params + j, left);
    load(g, grads + i, left);
    load(m8, m + i, left);
    load(v8, v + i, left);
    #pragma unroll
    for (int e = 0; e < 8; e++) {
        g[e] *= s.factor * s.unscale;
        m8[e] += s.rate1 * (g[e] - m8[e]);
        v8[e] += s.rate2 * (g[e] * g[e] - v8[e]);
        p[e] = (decayed ? s.keep : 1.0f) * p[e] - s.step * m8[e] / (sqrtf(v8[e]) * s.root + s.eps);
        rounded[e] = round_weight(p[e], s.key + tensor, place + j + e);
    }
    if (master) store(master + i, p, left);
    store(params + j, rounded, left);
    store(m + i, m8, left);
    store(v + i, v8, left);
    if (clear) store(grads + i, zero, left);
}

// The sum over a block of 256 threads; thread 0 gets it.
__device__ double block_sum(double v)
{
    __shared__ double slots[8];  // one number of each warp
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(0xffffffff, v, gap);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    double total = 0.0;
    for (int w = 0; w < 8; w++) total += slots[w];
    return total;
}

extern "C" __global__ void norm_partial_v1(double* partial, const floatX* values, int n)
{
    double total = 0.0;
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8; i < n; i += gridDim.x * blockDim.x * 8) {
        Eight v;
        load(v, values + i, n - i);
        float squares = 0.0f;
        #pragma unroll
        for (int e = 0; e < 8; e++) squares += v[e] * v[e];
        total += squares;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// unscale (1,): what the norm is multiplied by; 0 where it should stay as it is.
extern "C" __global__ void norm_final_v1(double* norm, const double* partial, int blocks, const float* unscale)
{
    double total = 0.0;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x) total += partial[i];
    total = block_sum(total);
    if (threadIdx.x == 0) norm[0] = sqrt(total) * (unscale ? *unscale : 1.0f);
}
