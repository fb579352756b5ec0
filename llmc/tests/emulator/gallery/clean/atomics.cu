// Threads that meet in one place and are allowed to.

extern "C" __global__ void shared_histogram(int* counts, const unsigned char* x, int n) {
    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}

// The block that takes the last ticket adds up what all have left behind.
extern "C" __global__ void sum_in_the_last_block(float* out, float* partial, unsigned* tickets, const float* x, int n) {
    __shared__ float s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    s[t] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        sum = 0.0f;
        for (int b = 0; b < gridDim.x; b++) sum += partial[b];
        out[t] = sum;
    }
}

// A chain of blocks: each waits for the sum of those before it, and hands its own on.
extern "C" __global__ void chained_scan(int* out, const int* x, int* totals, int* flags) {
    int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t;
    __shared__ int s[32], before;
    s[t] = x[i];
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < 32; k++) s[k] += s[k - 1];
        before = 0;
        if (b > 0) {
            while (atomicAdd(&flags[b - 1], 0) == 0) {
            }
            __threadfence();
            before = totals[b - 1];
        }
        totals[b] = before + s[31];
        __threadfence();
        atomicExch(&flags[b], 1);
    }
    __syncthreads();
    out[i] = before + s[t];
}

// A flag from warp to warp of one block, in the old way: volatile and a fence.
extern "C" __global__ void volatile_flag(float* out, const float* x) {
    __shared__ volatile float box;
    __shared__ volatile int full;
    if (threadIdx.x == 0) full = 0;
    __syncthreads();  // spare: what is volatile is taken to be shared on purpose
    if (threadIdx.x == 32) {
        box = x[0];
        __threadfence_block();
        full = 1;
    }
    if (threadIdx.x == 0) {
        while (full == 0) {
        }
        __threadfence_block();
        out[0] = box;
    }
}

extern "C" __global__ void spin_lock(int* total, int* largest, int* lock, const int* x) {
    if (threadIdx.x > 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *total += x[blockIdx.x];
    if (*largest < x[blockIdx.x]) *largest = x[blockIdx.x];
    __threadfence();
    atomicExch(lock, 0);
}

// All lanes of a warp want the lock, and each leaves the loop only with its work done.
extern "C" __global__ void spin_lock_in_a_warp(int* total, int* lock, const int* x) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *total += x[threadIdx.x];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// Many threads write, but all of them the same.
extern "C" __global__ void same_value_by_all(int* found, const int* x, int wanted) {
    if (x[blockIdx.x * blockDim.x + threadIdx.x] == wanted) *found = 1;
}

extern "C" __global__ void same_value_in_shared_memory(int* out, const int* x) {
    __shared__ int any;
    any = 0;
    __syncthreads();
    if (x[threadIdx.x] > 0) any = 1;
    __syncthreads();
    out[threadIdx.x] = any;
}

__device__ void atomic_max(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (old != assumed);
}

// The loop begins with a plain read; a stale value only costs another turn.
extern "C" __global__ void float_maximum_by_cas(float* largest, const float* x) {
    atomic_max(largest, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

// One atomic a warp: the first lane adds for all who want a place.
extern "C" __global__ void compact(int* out, int* count, const int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, base = 0;
    bool wanted = i < n && x[i] % 3 == 0;
    unsigned who = __ballot_sync(0xffffffffu, wanted);
    if (lane == 0 && who) base = atomicAdd(count, __popc(who));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (wanted) out[base + __popc(who & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void bits_by_atomic_or(unsigned* bits, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.0f) atomicOr(&bits[i / 32], 1u << (i % 32));
}
