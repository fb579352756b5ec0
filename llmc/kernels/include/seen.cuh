// What threads have seen of a row of logits, and how it is merged: online softmax.

#include "warp.cuh"

// A maximum, and the sum of exp(x - top) of what has been seen.
struct Seen {
    float top, total;
};

// What the 32 lanes of a warp have seen, together; every lane gets it.
__device__ Seen merge_warp(Seen s)
{
    float top = s.top;
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, gap));
    float total = s.total * expf(s.top - top);
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    return {top, total};
}

// The same for a block of whole warps; slots (32,) lies in shared memory, and each call needs its own.
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
