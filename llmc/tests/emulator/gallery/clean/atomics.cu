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

// As above, but most threads see at a glance that theirs is not larger, and go.
__device__ void atomic_max_if_larger(float* address, float value) {
    int *bits = reinterpret_cast<int*>(address), old = *bits;
    while (__int_as_float(old) < value) {
        int assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(value));
        if (old == assumed) return;
    }
}

extern "C" __global__ void float_maximum_at_a_glance(float* largest, const float* x) {
    atomic_max_if_larger(largest, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

extern "C" __global__ void maximum_at_a_glance(int* out, const int* x) {
    __shared__ int largest;
    if (threadIdx.x == 0) largest = -1;
    __syncthreads();
    if (x[threadIdx.x] > largest)
        atomicMax(&largest, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) *out = largest;
}

extern "C" __global__ void first_visit(int* visited, int* count, const int* x) {
    int vertex = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (visited[vertex] == 0 && atomicCAS(&visited[vertex], 0, 1) == 0) atomicAdd(count, 1);
}

// Sums by atomics, which the last thread of the last block to come reads and clears for the next launch.
extern "C" __global__ void total_by_the_last_thread(float* out, float* total, unsigned* tickets, const float* x) {
    atomicAdd(total, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __threadfence();
    if (atomicAdd(tickets, 1u) == gridDim.x * blockDim.x - 1) {
        *out = *total;
        *total = 0.0f;
        *tickets = 0;
    }
}

extern "C" __global__ void mean_and_variance_by_atomics(float* out, const float* x) {
    __shared__ float sum, squares;
    int t = threadIdx.x, n = blockDim.x;
    if (t == 0) sum = squares = 0.0f;
    __syncthreads();
    atomicAdd(&sum, x[t]);
    __syncthreads();
    float mean = sum / n;
    atomicAdd(&squares, (x[t] - mean) * (x[t] - mean));
    __syncthreads();
    if (t == 0) out[0] = mean, out[1] = squares / n;
}

// Each warp counts for itself: __syncwarp is enough.
extern "C" __global__ void histogram_of_each_warp(int* counts, const int* x) {
    __shared__ int mine[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    mine[warp][lane] = 0;
    __syncwarp();
    atomicAdd(&mine[warp][x[threadIdx.x]], 1);
    __syncwarp();
    counts[threadIdx.x] = mine[warp][lane];
}

// Blocks take rows from a queue until none is left.
extern "C" __global__ void queue_of_rows(int* out, int* next, int rows) {
    __shared__ int row;
    while (true) {
        if (threadIdx.x == 0) row = atomicAdd(next, 1);
        __syncthreads();
        int mine = row;
        __syncthreads();
        if (mine >= rows) return;
        out[mine * blockDim.x + threadIdx.x] = mine;
    }
}

// Each block has a row of its own, so what its atomics leave is there after a barrier.
extern "C" __global__ void row_of_a_block(float* out, const float* x) {
    float* row = out + blockIdx.x * blockDim.x;
    int t = threadIdx.x, n = blockDim.x;
    row[t] = 0.0f;
    __syncthreads();
    atomicAdd(&row[t / 2], x[blockIdx.x * n + t]);
    __syncthreads();
    row[t] *= 2.0f;
}

// A volatile read is meant to see what atomics do.
extern "C" __global__ void volatile_flag_set_by_an_atomic(float* out, float* data, int* flag, const float* x) {
    if (threadIdx.x == 1) {
        data[0] = x[0];
        __threadfence();
        atomicExch(flag, 1);
    }
    if (threadIdx.x == 0) {
        while (*(volatile int*)flag == 0) {
        }
        __threadfence();
        out[0] = data[0];
    }
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
