/* Softmax, cross-entropy and its gradient for one row of logits, in place: the logits become dloss * (p - onehot).

v1  one block per row; a first pass finds the maximum and the sum of exponentials, a second one writes the gradient
v2  a row is kept in shared memory, and while its gradient is written, the next row is fetched into its place

Shapes: logits (N, Vp), targets (N,) int32, losses (N,) float. Of a row, the first V numbers count; the padding gets
zeros. The probabilities are never stored. backward == 0: the logits stay as they are. v1 reads a row twice and writes it
once, v2 moves 4 bytes per logit in all; it is for training only, and for rows that fit in shared memory twice.
*/

#include "number.cuh"

const unsigned ALL = 0xffffffff;         // all 32 lanes of a warp take part
const float LOWEST = -3.402823466e+38f;  // where a maximum starts: finite, so that LOWEST - LOWEST is not NaN

// A maximum, and the sum of exp(x - top) of what has been seen.
struct Seen {
    float top, total;
};

// Eight logits; those from `left` on are padding. __expf is one instruction of the special function unit after a
// multiplication, and exact enough for numbers of 16 bits.
__device__ void add(Seen& s, const Eight& x, int left)
{
    float higher = s.top, more = 0.0f;
    #pragma unroll
    for (int e = 0; e < 8; e++) higher = left >= 8 || e < left ? fmaxf(higher, x[e]) : higher;
    #pragma unroll
    for (int e = 0; e < 8; e++) more += left >= 8 || e < left ? __expf(x[e] - higher) : 0.0f;
    s.total = s.total * __expf(s.top - higher) + more;
    s.top = higher;
}

__device__ Seen merge_warp(Seen s)
{
    float top = s.top;
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, gap));
    float total = s.total * expf(s.top - top);
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    return {top, total};
}

// What all threads of a block of whole warps have seen, together; every thread gets it. slots (32,) lies in shared
// memory, and each call needs its own.
__device__ Seen merge_block(Seen s, Seen* slots)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s = merge_warp(s);
    if (lane == 0) slots[warp] = s;
    __syncthreads();
    s = {LOWEST, 0.0f};
    if (lane < blockDim.x / 32) s = slots[lane];
    return merge_warp(s);
}

// Eight logits become dloss * (p - onehot); those from `left` on, padding, become zero.
__device__ void gradient(Eight& x, int left, int target, float top, float scale, float dloss)
{
    #pragma unroll
    for (int e = 0; e < 8; e++) x[e] = left >= 8 || e < left ? __expf(x[e] - top) * scale : 0.0f;
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
        add(s, x, V - v);
    }
    s = merge_block(s, slots);  // has a barrier: from here on the row may be overwritten
    if (threadIdx.x == 0) losses[row] = logf(s.total) + s.top - of_target;
    if (!backward) return;
    float scale = dloss / s.total;
    for (int v = threadIdx.x * 8; v < Vp; v += blockDim.x * 8) {
        load(x, logits + v, Vp - v);
        gradient(x, V - v, target - v, s.top, scale, dloss);
        store(logits + v, x, Vp - v);
    }
}

// ------------------------------------------------------------------------------------------ v2: one reading

const int AHEAD = 2;  // words of eight logits that a thread fetches together, while it still works on as many

// Starts the loads of words first, first + blockDim.x, ... of a row.
__device__ void fetch(uint4 (&to)[AHEAD], const uint4* row, int first, int words)
{
    #pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        if (first + k * (int)blockDim.x < words) to[k] = row[first + k * blockDim.x];
    }
}

// Vp is a multiple of 8, and logits begins at a multiple of 16 bytes. A block takes every gridDim.x-th row.
extern "C" __global__ void __launch_bounds__(1024)
    fused_classifier_v2(float* losses, floatX* logits, const int* targets, int N, int V, int Vp, float dloss)
{
    extern __shared__ uint4 kept[];  // (Vp / 8,) of the row whose turn is next
    __shared__ Seen slots[2][32];    // of this row and of the next, in turns
    int words = Vp / 8, row = blockIdx.x, target = targets[row], turn = 0;
    Seen seen = {LOWEST, 0.0f};
    Eight x;
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        kept[i] = reinterpret_cast<const uint4*>(logits + (size_t)row * Vp)[i];
        widen(x, kept[i]);
        add(seen, x, V - 8 * i);
    }
    for (; row < N; row += gridDim.x, turn ^= 1) {
        int next = row + gridDim.x < N ? row + gridDim.x : row;  // after the last row it is fetched again, for nothing
        const uint4* there = reinterpret_cast<const uint4*>(logits + (size_t)next * Vp);  // (Vp / 8,)
        uint4* here = reinterpret_cast<uint4*>(logits + (size_t)row * Vp);                // (Vp / 8,)
        uint4 fetched[AHEAD], coming[AHEAD];
        fetch(fetched, there, threadIdx.x, words);
        int next_target = targets[next];
        Seen all = merge_block(seen, slots[turn]);
        float scale = dloss / all.total;
        seen = {LOWEST, 0.0f};
        for (int first = threadIdx.x; first < words; first += AHEAD * blockDim.x) {
            fetch(coming, there, first + AHEAD * blockDim.x, words);
            #pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                int i = first + k * blockDim.x;
                if (i >= words) continue;
                widen(x, kept[i]);  // each thread takes back the numbers that it put there itself
                kept[i] = fetched[k];
                #pragma unroll
                for (int e = 0; e < 8; e++) {
                    if (8 * i + e == target) losses[row] = logf(all.total) + all.top - x[e];
                }
                gradient(x, V - 8 * i, target - 8 * i, all.top, scale, dloss);
                here[i] = narrow(x);
                widen(x, fetched[k]);
                add(seen, x, V - 8 * i);
                fetched[k] = coming[k];
            }
        }
        target = next_target;
    }
}
