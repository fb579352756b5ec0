// Barriers and order: what looks like a missing or a divergent barrier and is none.
#include <cuda/barrier>

// Threads past the end leave before the barrier: a barrier waits only for those that are still there.
extern "C" __global__ void early_return(float* out, const float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[n - 1 - t];
}

extern "C" __global__ void whole_block_leaves(float* out, const float* x, int rows) {
    __shared__ float first;
    if (blockIdx.x >= rows) return;
    if (threadIdx.x == 0) first = x[blockIdx.x * blockDim.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = first;
}

// The upper half has done its part after the first barrier and leaves; the next ones are for the others.
extern "C" __global__ void leaves_between_barriers(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t >= 32) return;
    float v = s[t] + s[63 - t];
    __syncthreads();
    s[31 - t] = v;
    __syncthreads();
    out[t] = s[t];
}

extern "C" __global__ void stores_and_leaves(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    float v = s[63 - t];
    if (t >= 32) {
        out[t] = v;
        return;
    }
    __syncthreads();
    s[31 - t] = v;
    __syncthreads();
    out[t] = s[t];
}

// The condition is the same for all threads of a block.
extern "C" __global__ void barrier_in_a_uniform_branch(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float v = x[i];
    if (blockIdx.x % 2 == 0) {
        s[t] = v;
        __syncthreads();
        v = s[63 - t];
    }
    out[i] = v;
}

// The same bytes hold floats, then after a barrier integers.
extern "C" __global__ void shared_memory_used_twice(int* out, const float* x) {
    extern __shared__ char bytes[];
    float* values = reinterpret_cast<float*>(bytes);
    int* ranks = reinterpret_cast<int*>(bytes);
    int t = threadIdx.x, n = blockDim.x, rank = 0;
    values[t] = x[t];
    __syncthreads();
    for (int k = 0; k < n; k++) rank += values[k] < values[t];
    __syncthreads();
    ranks[n - 1 - t] = rank;
    __syncthreads();
    out[t] = ranks[t];
}

extern "C" __global__ void global_memory_between_barriers(float* x, float* scratch) {
    int t = threadIdx.x, n = blockDim.x;
    scratch[t] = x[t];
    __syncthreads();
    x[t] = scratch[n - 1 - t];
}

// Everybody finds out together whether anybody still has something to do.
extern "C" __global__ void until_nobody_changes(int* x, int* rounds) {
    __shared__ int s[64];
    int t = threadIdx.x, n = 0;
    s[t] = x[t];
    __syncthreads();
    while (true) {
        int next = t > 0 ? min(s[t], s[t - 1]) : s[t];
        int changed = __syncthreads_or(next != s[t]);
        s[t] = next;
        n++;
        if (!changed) break;
        __syncthreads();
    }
    x[t] = s[t];
    rounds[t] = n;
}

extern "C" __global__ void counts_and_agrees(int* out, const int* x) {
    int positive = __syncthreads_count(x[threadIdx.x] > 0), all = __syncthreads_and(x[threadIdx.x] > -100);
    out[threadIdx.x] = all ? positive : -1;
}

extern "C" __global__ void barrier_object(float* out, const float* x, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0) init(&arrived, blockDim.x);
    __syncthreads();
    float v = x[t];
    for (int r = 0; r < rounds; r++) {
        s[t] = v;
        arrived.arrive_and_wait();
        v += s[63 - t];
        arrived.arrive_and_wait();
    }
    out[t] = v;
}

// Half of the warps do one thing, half another; each passes as many barriers.
extern "C" __global__ void warps_with_different_tasks(float* out, const float* x, int tiles) {
    __shared__ float s[2][32];
    int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int tile = 0; tile <= tiles; tile++) {
        if (threadIdx.x < 32) {
            if (tile < tiles) s[tile % 2][lane] = x[tile * 32 + lane];
        } else if (tile > 0) {
            sum += s[(tile - 1) % 2][31 - lane];
        }
        __syncthreads();
    }
    if (threadIdx.x >= 32) out[lane] = sum;
}
