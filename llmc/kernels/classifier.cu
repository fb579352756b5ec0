/* Softmax, cross-entropy and its gradient for one row of logits, in place: the logits become dloss * (p - onehot).

v2  one block per row, four numbers at a time with 128-bit loads and stores, where the row is aligned for them
v3  a row is kept in shared memory, and while its gradient is written, the next row is fetched into its place

Shapes: logits (N, Vp), targets (N,) int32, losses (N,). Of a row, the first V numbers count; the padding gets zeros.
The probabilities are never stored. The first pass over a row finds its maximum and its sum of exponentials at once
(online softmax, Milakov & Gimelshein 2018), the second replaces it. v2, and v1 in ladder/classifier.cu, read a row twice
and write it once, 12 bytes per logit, and part of the second reading comes from the cache; with backward == 0 there is
no second pass. v3 moves 8 bytes per logit. It is for training only, and for rows that fit in shared memory: GPT-2's take
196 KB of the 227 that an H200 has.
*/

#include "seen.cuh"

__device__ void add(Seen& s, float x)
{
    float higher = fmaxf(s.top, x);
    s.total = s.total * expf(s.top - higher) + expf(x - higher);
    s.top = higher;
}

// dloss * (p - onehot) of the logit at v, zero in the padding.
__device__ float gradient(float logit, int v, int V, int target, float top, float scale, float dloss)
{
    float p = v < V ? expf(logit - top) * scale : 0.0f;
    return v == target ? p - dloss : p;
}

extern "C" __global__ void __launch_bounds__(1024)
    fused_classifier_v2(float* losses, float* logits, const int* targets, int V, int Vp, float dloss, int backward)
{
    __shared__ Seen slots[32];  // one of each warp
    int row = blockIdx.x, target = targets[row];
    logits += (size_t)row * Vp;  // (Vp,)
    bool aligned = (size_t)logits % 16 == 0;  // 128-bit accesses need addresses that are multiples of 16
    int whole = aligned ? V / 4 : 0, all = aligned ? Vp / 4 : 0;  // fours that lie below V, below Vp
    float4* quads = reinterpret_cast<float4*>(logits);  // (Vp / 4,)
    float of_target = logits[target];
    Seen s = {LOWEST, 0.0f};
    for (int q = threadIdx.x; q < whole; q += blockDim.x) {
        float4 x = quads[q];
        float higher = fmaxf(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)), s.top);
        s.total = s.total * expf(s.top - higher) + expf(x.x - higher) + expf(x.y - higher) + expf(x.z - higher)
                  + expf(x.w - higher);
        s.top = higher;
    }
    for (int v = 4 * whole + threadIdx.x; v < V; v += blockDim.x) add(s, logits[v]);
    s = merge_block(s, slots);
    if (threadIdx.x == 0) losses[row] = logf(s.total) + s.top - of_target;
    if (!backward) return;
    float scale = dloss / s.total;
    for (int q = threadIdx.x; q < all; q += blockDim.x) {
        float4 x = quads[q];
        x.x = gradient(x.x, 4 * q + 0, V, target, s.top, scale, dloss);
        x.y = gradient(x.y, 4 * q + 1, V, target, s.top, scale, dloss);
        x.z = gradient(x.z, 4 * q + 2, V, target, s.top, scale, dloss);
        x.w = gradient(x.w, 4 * q + 3, V, target, s.top, scale, dloss);
        quads[q] = x;
    }
    for (int v = 4 * all + threadIdx.x; v < Vp; v += blockDim.x) {
        logits[v] = gradient(logits[v], v, V, target, s.top, scale, dloss);
    }
}

// ------------------------------------------------------------------------------------------ v3: one reading

// Four numbers at once, of which the first is logit v of the row: what lies at V and above is padding. __expf is a
// multiplication and one instruction of the special function unit; expf is a little more exact, and slower.
__device__ void add(Seen& s, float4 x, int v, int V)
{
    if (v + 3 >= V) {  // at the end of the row
        if (v + 0 < V) add(s, x.x);
        if (v + 1 < V) add(s, x.y);
        if (v + 2 < V) add(s, x.z);
        return;
    }
    float higher = fmaxf(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)), s.top);
    s.total = s.total * __expf(s.top - higher) + ((__expf(x.x - higher) + __expf(x.y - higher))
                                                  + (__expf(x.z - higher) + __expf(x.w - higher)));
    s.top = higher;
}

__device__ float element(float4 x, int k) { return k == 0 ? x.x : k == 1 ? x.y : k == 2 ? x.z : x.w; }

// The gradients of four logits, of which the first is v.
__device__ float4 gradient(float4 x, int v, int V, int target, float top, float scale, float dloss)
{
    float4 g = make_float4(__expf(x.x - top) * scale, __expf(x.y - top) * scale, __expf(x.z - top) * scale,
                           __expf(x.w - top) * scale);
    if (v + 3 >= V) {  // at the end of the row
        if (v + 0 >= V) g.x = 0.0f;
        if (v + 1 >= V) g.y = 0.0f;
        if (v + 2 >= V) g.z = 0.0f;
        g.w = 0.0f;
    }
    if (v / 4 == target / 4) {
        if (v + 0 == target) g.x -= dloss;
        if (v + 1 == target) g.y -= dloss;
        if (v + 2 == target) g.z -= dloss;
        if (v + 3 == target) g.w -= dloss;
    }
    return g;
}

const int AHEAD = 4;  // quads that a thread fetches together, while it still works on as many

// Starts the loads of quads first, first + blockDim.x, ... of a row.
__device__ void fetch(float4* to, const float4* row, int first, int quads)
{
    #pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        int q = first + k * blockDim.x;
        if (q < quads) to[k] = row[q];
    }
}

// Vp is a multiple of 4, and logits begins at a multiple of 16 bytes. A block takes every gridDim.x-th row.
extern "C" __global__ void __launch_bounds__(1024) fused_classifier_v3(float* losses, float* logits, const int* targets,
                                                                       int N, int V, int Vp, float dloss)
{
    extern __shared__ float4 kept[];  // (Vp / 4,) of the row whose turn is next
    __shared__ Seen slots[2][32];     // of this row and of the next, in turns
    int quads = Vp / 4, row = blockIdx.x, target = targets[row], turn = 0;
    Seen seen = {LOWEST, 0.0f};
    for (int q = threadIdx.x; q < quads; q += blockDim.x) {
        kept[q] = reinterpret_cast<const float4*>(logits + (size_t)row * Vp)[q];
        add(seen, kept[q], 4 * q, V);
    }
    for (; row < N; row += gridDim.x, turn ^= 1) {
        int next = row + gridDim.x < N ? row + gridDim.x : row;  // after the last row it is fetched again, for nothing
        const float4* there = reinterpret_cast<const float4*>(logits + (size_t)next * Vp);  // (Vp / 4,)
        float4* here = reinterpret_cast<float4*>(logits + (size_t)row * Vp);                // (Vp / 4,)
        float4 fetched[AHEAD], coming[AHEAD];
        fetch(fetched, there, threadIdx.x, quads);
        int next_target = targets[next];
        Seen all = merge_block(seen, slots[turn]);
        float scale = dloss / all.total;
        seen = {LOWEST, 0.0f};
        for (int first = threadIdx.x; first < quads; first += AHEAD * blockDim.x) {
            fetch(coming, there, first + AHEAD * blockDim.x, quads);
            #pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                int q = first + k * blockDim.x;
                if (q >= quads) continue;
                float4 x = kept[q];  // each thread takes back the numbers that it put there itself
                kept[q] = fetched[k];
                add(seen, fetched[k], 4 * q, V);
                if (q == target / 4) losses[row] = logf(all.total) + all.top - element(x, target % 4);
                here[q] = gradient(x, 4 * q, V, target, all.top, scale, dloss);
                fetched[k] = coming[k];
            }
        }
        target = next_target;
    }
}
