/* Softmax, cross-entropy and its gradient for one row of logits: dloss * (p - onehot), which replaces the logits.

v1  one block per row; a first pass finds the maximum and the sum of exponentials, a second one writes the gradient
v2  a row is kept in shared memory, and while its gradient is written, the next row comes to its place (cp.async); the
    gradient may go elsewhere, in 8 bits

Shapes: logits (N, Vp), targets (N,) int32, losses (N,) float. Of a row, the first V numbers count; the padding gets
zeros. The probabilities are never stored. backward == 0: the logits stay as they are. v1 reads a row twice and writes it
once, v2 moves 4 bytes per logit in all; it is for training only, and for rows that fit in shared memory.
*/

#include "number.cuh"
#include "number_8.cuh"
#include "batches.cuh"
#include "seen.cuh"

// e^x for x <= 0, exact enough for numbers of 16 bits, in two instructions: __expf has more for results below 2^-126,
// which are 0 here.
__device__ float power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2E));
    return y;
}

// Logits from `left` on are padding, and have no probability.
__device__ void hide(Eight& x, int left)
{
    if (left >= 8) return;
    #pragma unroll
    for (int e = 0; e < 8; e++) x[e] = e < left ? x[e] : LOWEST;
}

// Eight logits.
__device__ void add(Seen& s, const Eight& x)
{
    float top = s.top, more = 0.0f;
    #pragma unroll
    for (int e = 0; e < 8; e++) top = fmaxf(top, x[e]);
    #pragma unroll
    for (int e = 0; e < 8; e++) more += power(x[e] - top);
    s.total = s.total * power(s.top - top) + more;
    s.top = top;
}

__device__ float loss(Seen all, float of_target) { return logf(all.total) + all.top - of_target; }

// Eight logits become dloss * (p - onehot). scale: dloss / total.
__device__ void gradient(Eight& x, int target, float top, float scale, float dloss)
{
    #pragma unroll
    for (int e = 0; e < 8; e++) x[e] = power(x[e] - top) * scale;
    if (target < 0 || target >= 8) return;
    #pragma unroll
    for (int e = 0; e < 8; e++) x[e] -= e == target ? dloss : 0.0f;
}

extern "C" __global__ void __launch_bounds__(1024)
    fused_classifier_v1(float* losses, floatX* logits, const int* targets, int V, int Vp, float dloss, int backward)
{
    __shared__ Seen slots[32];  // one of each warp
    int row = blockIdx.x, target = targets[row];
    logits += (size_t)row * Vp;  // (Vp,)   size_t: N * Vp may exceed 2^31
    float of_target = widen(logits[target]);
    Seen s = {LOWEST, 0.0f};
    Eight x;
    for (int v = threadIdx.x * 8; v < V; v += blockDim.x * 8) {
        load(x, logits + v, V - v);
        hide(x, V - v);
        add(s, x);
    }
    s = merge_block(s, slots);  // has a barrier: from here on the row may be overwritten
    if (threadIdx.x == 0) losses[row] = loss(s, of_target);
    if (!backward) return;
    float scale = dloss / s.total;
    for (int v = threadIdx.x * 8; v < Vp; v += blockDim.x * 8) {
        load(x, logits + v, Vp - v);
        hide(x, V - v);
        gradient(x, target - v, s.top, scale, dloss);
        store(logits + v, x, Vp - v);
    }
}

// ------------------------------------------------------------------------------------------ v2: one reading

#ifndef AHEAD
#define AHEAD 4  // words of eight logits that are on their way to a thread
#endif

// Vp is a multiple of 8, and logits begins at a multiple of 16 bytes. A block takes every gridDim.x-th row; each of its
// threads copies, reads and replaces words of its own, so that a row needs a barrier for its sum alone.
extern "C" __global__ void __launch_bounds__(512, 2)
    fused_classifier_v2(float* losses, Gradient* dlogits, const floatX* logits, const int* targets, int N, int V, int Vp,
                        float dloss)
{
    extern __shared__ uint4 kept[];  // (Vp / 8,) of this row, and from the left on of the next
    __shared__ Seen slots[2][32];    // of this row and of the next, in turns
    int words = Vp / 8, step = blockDim.x, row = blockIdx.x, target = targets[row], turn = 0;
    Seen seen = {LOWEST, 0.0f};
    Eight x;
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        kept[i] = reinterpret_cast<const uint4*>(logits + (size_t)row * Vp)[i];
        widen(x, kept[i]);
        hide(x, V - 8 * i);
        add(seen, x);
    }
    for (; row < N; row += gridDim.x, turn ^= 1) {
        int next = row + gridDim.x;
        bool follows = next < N;
        int next_target = follows ? targets[next] : 0;
        Seen all = merge_block(seen, slots[turn]);
        float scale = dloss / all.total;
        seen = {LOWEST, 0.0f};
        const floatX* there = logits + (size_t)next * Vp + 8 * threadIdx.x;
        Gradient* here = dlogits + (size_t)row * Vp + 8 * threadIdx.x;
        uint4* slot = kept + threadIdx.x;
        for (int i = threadIdx.x; i < words + AHEAD * step; i += step) {
            if (i < words) {
                if (i == target / 8) losses[row] = loss(all, widen(reinterpret_cast<const floatX*>(kept)[target]));
                widen(x, *slot);
                copy_async<4>(reinterpret_cast<float*>(slot), reinterpret_cast<const float*>(there), follows);
                hide(x, V - 8 * i);
                gradient(x, target - 8 * i, all.top, scale, dloss);
                store8(here, x);
            }
            end_batch();  // also an empty one: the number of batches says which words are there
            wait_but<AHEAD>();
            int behind = i - AHEAD * step;
            if (behind >= 0) {
                widen(x, slot[-AHEAD * step]);
                hide(x, V - 8 * behind);
                add(seen, x);
            }
            here += 8 * step, there += 8 * step, slot += step;
        }
        target = next_target;
    }
}
