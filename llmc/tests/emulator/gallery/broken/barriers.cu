// Threads that wait for threads which never come, and programs that never end.
#include <cuda/barrier>

extern "C" __global__ void barrier_in_a_branch(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 16) {
        s[t] *= 2.0f;
        __syncthreads();  //! barrier-divergence
    }
    s[t] += 1.0f;
    __syncthreads();  //! barrier-divergence
    out[t] = s[t];
}

extern "C" __global__ void barrier_in_one_half_of_the_block(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = x[t];
        __syncthreads();  //! barrier-divergence
        s[t] += 1.0f;
    } else {
        s[t] = 0.0f;
    }
    __syncthreads();  //! barrier-divergence
    out[t] = s[t];
}

// The trip count depends on the thread: those that are done wait at the next barrier, at another line.
extern "C" __global__ void barrier_in_a_loop(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int k = 0; k < 1 + t / 32; k++) {
        s[t] += 1.0f;
        __syncthreads();  //! barrier-divergence
    }
    float mine = s[t];
    __syncthreads();  //! barrier-divergence
    out[t] = mine;
}

extern "C" __global__ void barrier_counts_in_a_branch(int* out, const float* x) {
    int t = threadIdx.x, positive = 0;
    if (x[t] > 0.0f) positive = __syncthreads_count(1);  //! barrier-divergence
    __syncthreads();  //! barrier-divergence
    out[t] = positive;
}

extern "C" __global__ void barrier_of_one_too_many(float* out, const float* x) {
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0) init(&arrived, blockDim.x + 1);
    __syncthreads();
    s[t] = x[t];
    arrived.arrive_and_wait();  //! deadlock
    out[t] = s[63 - t];
}

extern "C" __global__ void lock_never_released(int* total, int* lock) {
    if (threadIdx.x > 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {  //! runaway|deadlock
    }
    *total += 1;
}

// Lane 1 waits for lane 0, which waits at a barrier for lane 1.
extern "C" __global__ void flag_set_behind_a_barrier(int* flag) {
    if (threadIdx.x == 1)
        while (atomicAdd(flag, 0) == 0) {  //! runaway|deadlock|barrier-divergence
        }
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(flag, 1);
}

// All blocks of a grid wait for all: with more blocks than fit at once nobody ever starts the others.
extern "C" __global__ void grid_barrier_of_one_too_many(int* arrived) {
    if (threadIdx.x > 0) return;
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) <= gridDim.x) {  //! runaway|deadlock
    }
}

extern "C" __global__ void runs_forever(float* out, float x) {
    int i = threadIdx.x;
    while (x > 0.0f) {  //! runaway
        x = x * 0.5f + 1.0f;  //! runaway
        out[i] = x;  //! runaway
    }
}

// lo = middle instead of middle + 1: two neighbours are never told apart.
extern "C" __global__ void binary_search_that_stands_still(int* out, const int* sorted, int n) {
    int lo = 0, hi = n, wanted = sorted[threadIdx.x] + 1;
    while (lo < hi) {
        int middle = (lo + hi) / 2;
        if (sorted[middle] < wanted) lo = middle;  //! runaway
        else hi = middle;
    }
    out[threadIdx.x] = lo;
}

__device__ int countdown(volatile int* n, int depth) {
    if (*n < 0) return depth;
    volatile int kept = depth;  //! stack-overflow
    return countdown(n, depth + 1) + kept;  //! stack-overflow
}

extern "C" __global__ void recursion_without_an_end(int* out, int* n) {
    out[threadIdx.x] = countdown(n, 0);  //! stack-overflow
}

extern "C" __global__ void local_array_too_large(float* out, const float* x, int n) {  //! stack-overflow
    float copies[400000];  //! stack-overflow
    for (int k = 0; k < n; k++) copies[k * 1000 % 400000] = x[threadIdx.x] + k;  //! stack-overflow
    out[threadIdx.x] = copies[n / 2];
}

extern "C" __global__ void divides_by_zero(int* out, const int* x) {
    out[threadIdx.x] = 100 / x[threadIdx.x];  //! division-by-zero
}

extern "C" __global__ void remainder_of_zero(int* out, const int* x, int n) {
    out[threadIdx.x] = x[threadIdx.x] % n;  //! division-by-zero
}

extern "C" __global__ void asserts(float* out, const float* x) {
    assert(x[threadIdx.x] >= 0.0f);  //! assert
    out[threadIdx.x] = sqrtf(x[threadIdx.x]);
}
