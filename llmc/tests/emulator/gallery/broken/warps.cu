// Warp functions called with a mask that is not the truth, and warps taken to run in step.
#include <cuda_fp16.h>

#define FULL 0xffffffffu

// The upper half went another way and waits where all meet; the lower half waits for the upper.
extern "C" __global__ void full_mask_in_a_branch(float* out, const float* x) {
    int lane = threadIdx.x;
    float v = x[lane];
    if (lane < 16) v += __shfl_down_sync(FULL, v, 8);  //! deadlock
    __syncthreads();  //! deadlock
    out[lane] = v;
}

extern "C" __global__ void full_mask_after_leaving(float* out, const float* x) {
    int lane = threadIdx.x;
    float v = x[lane];
    out[lane] = v;
    if (lane >= 16) return;
    out[lane] = v + __shfl_down_sync(FULL, v, 8);  //! inactive-lane
}

// n = 40: the second warp has 8 lanes left, and lane 7 asks lane 23.
extern "C" __global__ void reads_a_lane_that_returned(float* out, const float* x, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(FULL, v, step);  //! inactive-lane
    if (i % 32 == 0) out[i / 32] = v;
}

extern "C" __global__ void reads_a_lane_outside_the_mask(float* out, const float* x) {
    int lane = threadIdx.x;
    float v = x[lane];
    if (lane < 16) v = __shfl_sync(0x0000ffffu, v, lane + 4);  //! inactive-lane
    out[lane] = v;
}

extern "C" __global__ void caller_outside_the_mask(float* out, const float* x) {
    int lane = threadIdx.x;
    out[lane] = __shfl_xor_sync(0x0000ffffu, x[lane], 1);  //! inactive-lane
}

extern "C" __global__ void partial_warp_full_mask(float* out, const float* x) {
    float v = x[threadIdx.x];
    v += __shfl_xor_sync(FULL, v, 16);  //! inactive-lane
    out[threadIdx.x] = v;
}

extern "C" __global__ void syncwarp_in_a_branch(float* out, const float* x) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = x[lane];
    if (lane < 16) __syncwarp();  //! deadlock
    __syncthreads();  //! deadlock
    out[lane] = s[31 - lane];
}

// Lanes leave the loop one by one, and the others go on asking all 32.
extern "C" __global__ void ballot_in_a_loop(int* out, const int* x) {
    int lane = threadIdx.x, rounds = 0;
    for (int left = x[lane]; left > 0; left--) rounds += __popc(__ballot_sync(FULL, left > 1));  //! deadlock
    __syncthreads();  //! deadlock
    out[lane] = rounds;
}

extern "C" __global__ void different_functions_at_once(int* out, const int* x) {
    int lane = threadIdx.x, v = x[lane];
    if (lane % 2 == 0)
        v = __shfl_sync(FULL, v, 0);  //! deadlock|inactive-lane
    else
        v = __any_sync(FULL, v);  //! deadlock|inactive-lane
    out[lane] = v;
}

// Old code for old GPUs, on which the 32 lanes of a warp always ran in step.
extern "C" __global__ void lockstep_assumed(float* out, const float* x) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    __syncthreads();
    s[t] += s[t + 32];  //! missing-syncwarp
    s[t] += s[t + 16];  //! missing-syncwarp
    if (t < 8) s[t] += s[t + 8];  //! missing-syncwarp
    if (t == 0) *out = s[0];
}

extern "C" __global__ void warp_transpose_without_syncwarp(float* out, const float* x) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = x[lane];  //! missing-syncwarp
    out[lane] = s[31 - lane];  //! missing-syncwarp
}

// Two halves lie in one word. What lane 0 writes to the second one is named by its own line, not by the first one's.
extern "C" __global__ void lane_0_works_on_what_others_still_write(__half* out, const float* x) {
    __shared__ __half s[32];
    s[threadIdx.x] = __float2half(x[threadIdx.x]);  //! missing-syncwarp
    if (threadIdx.x == 0)
        for (int i = 0; i < 32; i++) s[i] = __float2half(2);  //! missing-syncwarp
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

// The shuffle passes on something else: nothing says that the neighbour has been read by then.
extern "C" __global__ void shuffle_that_passes_something_else(float* out, const float* x) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    float beside = s[(threadIdx.x + 1) % 32];  //! missing-syncwarp
    float first = __shfl_sync(FULL, x[threadIdx.x] + 1, 0);
    s[threadIdx.x] = first + beside;  //! missing-syncwarp
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x];
}
