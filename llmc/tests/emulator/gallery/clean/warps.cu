// Warp functions, called rightly where one has to look twice.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;
#define FULL 0xffffffffu

__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(FULL, v, step);
    return v;
}

extern "C" __global__ void block_sum_by_warps(float* out, const float* x, int n) {
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    float v = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
    v = warp_sum(v);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = warp_sum(lane < warps ? sums[lane] : 0.0f);
        if (lane == 0) *out = v;
    }
}

// Shared memory within a warp: __syncwarp between the steps, and between reading and writing.
extern "C" __global__ void tree_with_syncwarp(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t] + x[t + 32];
    s[t + 32] = 0.0f;
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
        float v = s[t] + s[t + step];
        __syncwarp();
        s[t] = v;
        __syncwarp();
    }
    if (t == 0) *out = s[0];
}

extern "C" __global__ void warps_of_their_own(float* out, const float* x) {
    __shared__ float s[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = warp; row < 10; row += 4) {
        s[warp][lane] = x[row * 32 + lane];
        __syncwarp();
        out[row * 32 + lane] = s[warp][31 - lane];
        __syncwarp();
    }
}

// 33 or 97 threads: the last warp has one lane, and says so in its mask.
extern "C" __global__ void partial_warps(float* out, const float* x) {
    int lane = threadIdx.x % 32, left = blockDim.x - threadIdx.x / 32 * 32;
    unsigned mask = left >= 32 ? FULL : (1u << left) - 1;
    float v = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_down_sync(mask, v, step < left ? step : 0);
        if (lane + step < left && lane < step) v += other;
    }
    if (lane == 0) out[threadIdx.x / 32] = v;
}

extern "C" __global__ void shuffle_in_eights(float* out, const float* x) {
    float v = x[threadIdx.x];
    for (int step = 4; step > 0; step /= 2) v += __shfl_down_sync(FULL, v, step, 8);
    out[threadIdx.x] = __shfl_sync(FULL, v, 0, 8);
}

extern "C" __global__ void scan_by_shuffle(int* out, const int* x) {
    int lane = threadIdx.x % 32, v = x[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        int before = __shfl_up_sync(FULL, v, step);
        if (lane >= step) v += before;
    }
    out[threadIdx.x] = v;
}

// The mask is asked for before the branch, by all, and used in it by those that it names.
extern "C" __global__ void ballot_before_a_branch(int* out, const int* x) {
    int lane = threadIdx.x, v = x[lane];
    unsigned odd = __ballot_sync(FULL, v % 2);
    if (v % 2) {
        int first = __ffs(odd) - 1;
        v = 100 * __shfl_sync(odd, v, first) + __popc(__ballot_sync(odd, v > 3));
    }
    out[lane] = v;
}

extern "C" __global__ void both_sides_of_a_branch(float* out, const float* x) {
    int lane = threadIdx.x;
    float v = x[lane];
    if (lane < 16)
        v += __shfl_xor_sync(0x0000ffffu, v, 1);
    else
        v *= __shfl_xor_sync(0xffff0000u, v, 2);
    __syncwarp();  // spare: nothing depends on it
    out[lane] = v;
}

extern "C" __global__ void half_returns_half_goes_on(float* out, const float* x, int n) {
    int lane = threadIdx.x;
    unsigned here = __ballot_sync(FULL, lane < n);
    if (lane >= n) return;
    out[lane] = x[lane] + __shfl_sync(here, x[lane], n - 1 - lane);
}

extern "C" __global__ void match_groups(int* out, const int* x) {
    unsigned same = __match_any_sync(FULL, x[threadIdx.x]);
    out[threadIdx.x] = __reduce_add_sync(same, 1) * 100 + __ffs(same) - 1;
}

extern "C" __global__ void tiles_of_eight(float* out, const float* x) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    float v = x[threadIdx.x];
    for (int step = tile.size() / 2; step > 0; step /= 2) v += tile.shfl_down(v, step);
    if (tile.thread_rank() == 0) out[threadIdx.x / 8] = v;
}

extern "C" __global__ void reduce_of_the_groups(float* out, const float* x, int n) {
    __shared__ float sums[8];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float largest = -3.4e38f;
    for (int i = block.thread_rank(); i < n; i += block.size()) largest = fmaxf(largest, x[i]);
    largest = cg::reduce(warp, largest, cg::greater<float>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = largest;
    block.sync();
    for (int k = 0; k < warp.meta_group_size(); k++) largest = fmaxf(largest, sums[k]);
    out[block.thread_rank()] = largest;
}

// Each lane reads beside its own place and passes that on, so it has been read when the others write.
extern "C" __global__ void added_in_place(float* out, const float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x % 32) s[threadIdx.x] += __shfl_sync(0xfffffffe, s[threadIdx.x - 1], 1);
    out[threadIdx.x] = s[threadIdx.x];
}
