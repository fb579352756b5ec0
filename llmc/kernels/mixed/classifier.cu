/* Softmax, cross-entropy and its gradient for one row of logits, in place: the logits become dloss * (p - onehot).

v1  one block per row; a first pass finds the maximum and the sum of exponentials, a second one writes the gradient

Shapes: logits (N, Vp), targets (N,) int32, losses (N,) float. Of a row, the first V numbers count; the padding gets
zeros. The probabilities are never stored. backward == 0: the logits stay as they are.
*/

#include "number.cuh"

const unsigned ALL = 0xffffffff;         // all 32 lanes of a warp take part
const float LOWEST = -3.402823466e+38f;  // where a maximum starts: finite, so that LOWEST - LOWEST is not NaN

// A maximum, and the sum of exp(x - top) of what has been seen.
struct Seen {
    float top, total;
};

__device__ Seen merge_warp(Seen s)
{
    float top = s.top;
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, gap));
    float total = s.total * expf(s.top - top);
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    return {top, total};
}

// What all threads of a block of whole warps have seen, together; every thread gets it.
__device__ Seen merge_block(Seen s)
{
    __shared__ Seen slots[32];  // one of each warp
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s = merge_warp(s);
    if (lane == 0) slots[warp] = s;
    __syncthreads();
    s = {LOWEST, 0.0f};
    if (lane < blockDim.x / 32) s = slots[lane];
    return merge_warp(s);
}

extern "C" __global__ void __launch_bounds__(1024)
    fused_classifier_v1(float* losses, floatX* logits, const int* targets, int V, int Vp, float dloss, int backward)
{
    int row = blockIdx.x, target = targets[row];
    logits += (size_t)row * Vp;  // (Vp,)   size_t: N * Vp may exceed 2^31
    float of_target = widen(logits[target]);
    Seen s = {LOWEST, 0.0f};
    Eight x;
    for (int v = threadIdx.x * 8; v < V; v += blockDim.x * 8) {
        load(x, logits + v, V - v);
        float higher = s.top;
        #pragma unroll
        for (int e = 0; e < 8; e++) higher = v + e < V ? fmaxf(higher, x[e]) : higher;
        s.total *= expf(s.top - higher);
        s.top = higher;
        #pragma unroll
        for (int e = 0; e < 8; e++) s.total += v + e < V ? expf(x[e] - higher) : 0.0f;
    }
    s = merge_block(s);  // has a barrier: from here on the row may be overwritten
    if (threadIdx.x == 0) losses[row] = logf(s.total) + s.top - of_target;
    if (!backward) return;
    float scale = dloss / s.total;
    for (int v = threadIdx.x * 8; v < Vp; v += blockDim.x * 8) {
        load(x, logits + v, Vp - v);
        #pragma unroll
        for (int e = 0; e < 8; e++) {
            float p = v + e < V ? expf(x[e] - s.top) * scale : 0.0f;
            x[e] = v + e == target ? p - dloss : p;
        }
        store(logits + v, x, Vp - v);
    }
}
