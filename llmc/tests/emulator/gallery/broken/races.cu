// Two threads, one place, no order between them. Both lines are marked; where one line races with itself, that one.

#define TILE 8

extern "C" __global__ void missing_barrier_after_load(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];  //! race
    out[t] = s[63 - t];  //! race
}

extern "C" __global__ void fence_is_not_a_barrier(float* out, const float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];  //! race
    __threadfence_block();
    out[t] = s[63 - t];  //! race
}

// The second barrier of the loop is gone: a quick warp loads the next tile over what a slow one still reads.
extern "C" __global__ void missing_barrier_at_the_end_of_a_tile(float* out, const float* a, const float* b, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        as[y][x] = a[row * n + tile + x];  //! race|missing-syncwarp
        bs[y][x] = b[(tile + y) * n + col];  //! race
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += as[y][k] *  //! race|missing-syncwarp
                   bs[k][x];  //! race
    }
    out[row * n + col] = sum;
}

extern "C" __global__ void tree_without_barriers(float* out, const float* x) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2)
        if (t < half) s[t] += s[t + half];  //! race|missing-syncwarp
    __syncthreads();
    if (t == 0) *out = s[0];
}

extern "C" __global__ void first_thread_reads_too_early(float* out, const float* x) {
    __shared__ float total;
    float mine = x[threadIdx.x];
    if (threadIdx.x == 40) total = mine;  //! race|missing-syncwarp
    out[threadIdx.x] = mine / total;  //! race|missing-syncwarp
}

extern "C" __global__ void different_values_to_one_place(int* out) {
    __shared__ int winner;
    winner = threadIdx.x / 2;  //! race|missing-syncwarp
    __syncthreads();
    out[threadIdx.x] = winner;
}

extern "C" __global__ void scan_in_place(float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        if (t >= step) s[t] += s[t - step];  //! race|missing-syncwarp
        __syncthreads();
    }
    x[t] = s[t];
}

extern "C" __global__ void double_buffer_without_the_swap(float* x, int rounds) {
    __shared__ float s[2][64];
    int t = threadIdx.x, from = 0;
    s[0][t] = s[1][t] = x[t];
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        float sum = s[from][t] + s[from][(t + 33) % 64];  //! race|missing-syncwarp
        s[from][t] = 0.5f * sum;  //! race|missing-syncwarp
        __syncthreads();
    }
    x[t] = s[from][t];
}

extern "C" __global__ void result_broadcast_too_early(float* out, const float* x, int rounds) {
    __shared__ float first;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x == 0) first = x[r];  //! race|missing-syncwarp
        __syncthreads();
        out[r * blockDim.x + threadIdx.x] = first;  //! race|missing-syncwarp
    }
}

extern "C" __global__ void histogram_across_blocks(int* counts, const int* x) {
    if (threadIdx.x == 0) counts[x[blockIdx.x]] += 1;  //! race
}

extern "C" __global__ void histogram_in_a_block(int* counts, const int* x) {
    counts[x[threadIdx.x]]++;  //! race|missing-syncwarp
}

extern "C" __global__ void counters_cleared_too_late(int* counts, const int* x) {
    __shared__ int mine[4];
    int t = threadIdx.x;
    if (t >= 60) mine[t - 60] = 0;  //! race|missing-syncwarp
    atomicAdd(&mine[x[t]], 1);  //! race|missing-syncwarp
    __syncthreads();
    if (t < 4) atomicAdd(&counts[t], mine[t]);
}

extern "C" __global__ void sum_read_too_early(float* out, const float* x) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);  //! race|missing-syncwarp
    if (threadIdx.x == 0) *out = sum;  //! race|missing-syncwarp
}

// The last thread in the order of the emulator, which need not be the last on a GPU.
extern "C" __global__ void sum_read_by_the_last_thread(float* out, const float* x) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);  //! race|missing-syncwarp
    if (threadIdx.x == blockDim.x - 1) *out = sum;  //! race|missing-syncwarp
}

extern "C" __global__ void histogram_read_too_early(int* counts, const int* x) {
    __shared__ int mine[4];
    int t = threadIdx.x;
    if (t < 4) mine[t] = 0;
    __syncthreads();
    atomicAdd(&mine[x[t]], 1);  //! race|missing-syncwarp
    if (t < 4) counts[t] = mine[t];  //! race|missing-syncwarp
}

extern "C" __global__ void maximum_used_too_early(float* out, const int* x) {
    __shared__ int largest;
    if (threadIdx.x == 0) largest = 1;
    __syncthreads();
    atomicMax(&largest, x[threadIdx.x]);  //! race|missing-syncwarp
    out[threadIdx.x] = x[threadIdx.x] / (float)largest;  //! race|missing-syncwarp
}

// The place is read by itself, and the value that atomicAdd returns is thrown away.
extern "C" __global__ void place_read_before_it_is_taken(int* out, int* count, const int* x) {
    int t = threadIdx.x;
    if (x[t] == 1) {
        int place = *count;  //! race|missing-syncwarp
        atomicAdd(count, 1);  //! race|missing-syncwarp
        out[place] = t;
    }
}

// __syncthreads() waits for this block, not for the others, which are still adding.
extern "C" __global__ void total_read_in_the_same_launch(float* out, float* total, const float* x) {
    atomicAdd(total, x[blockIdx.x * blockDim.x + threadIdx.x]);  //! race
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = *total;  //! race
}

extern "C" __global__ void total_cleared_in_the_same_launch(float* total, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *total = 0.0f;  //! race|missing-syncwarp
    atomicAdd(total, x[i]);  //! race|missing-syncwarp
}

extern "C" __global__ void total_scaled_by_the_last_thread(float* total, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(total, x[i]);  //! race|missing-syncwarp
    if (i == n - 1) *total /= n;  //! race|missing-syncwarp
}

extern "C" __global__ void counter_cleared_before_all_have_read_it(int* out, const int* x) {
    __shared__ int n;
    int t = threadIdx.x;
    if (t == 0) n = 0;
    __syncthreads();
    for (int r = 0; r < 3; r++) {
        if (x[t] > r) atomicAdd(&n, 1);  //! race|missing-syncwarp
        __syncthreads();
        out[t] = n;
        __syncthreads();
        if (t == 0) n = 0;  //! race|missing-syncwarp
    }
}

// A flag that is neither atomic nor volatile for the one who waits: the compiler may read it once and never again.
extern "C" __global__ void flag_read_plainly(float* out, float* data, int* flag) {
    if (threadIdx.x == 32) {
        data[0] = 3.0f;
        __threadfence();
        atomicExch(flag, 1);  //! race
    }
    if (threadIdx.x == 0 && *flag == 1) out[0] = data[0];  //! race
}

extern "C" __global__ void merged_without_atomics(int* counts, const int* x) {
    __shared__ int mine[4];
    int t = threadIdx.x;
    if (t < 4) mine[t] = 0;
    __syncthreads();
    atomicAdd(&mine[x[blockIdx.x * blockDim.x + t]], 1);
    __syncthreads();
    if (t < 4) counts[t] += mine[t];  //! race
}

extern "C" __global__ void sum_without_atomics(float* sum, const float* x) {
    if (threadIdx.x % 32 == 0) *sum += x[threadIdx.x];  //! race
}

extern "C" __global__ void bits_without_atomics(unsigned* bits, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.0f) bits[i / 64] |= 1u << (i / 2 % 32);  //! race|missing-syncwarp
}

// The ticket is taken by plain reading and writing: two blocks may both be the last, or none.
extern "C" __global__ void last_block_without_an_atomic(float* out, float* partial, const float* x, int* tickets) {
    if (threadIdx.x > 0) return;
    partial[blockIdx.x] = x[blockIdx.x];  //! race
    int ticket = *tickets;  //! race
    *tickets = ticket + 1;  //! race
    if (ticket + 1 < gridDim.x) return;
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; b++) sum += partial[b];  //! race
    *out = sum;
}

// Thread 0 finds out whether its block is the last one; the others look before it has.
extern "C" __global__ void last_block_flag_without_a_barrier(float* out, const float* x, unsigned* tickets) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;  //! race|missing-syncwarp
    }
    if (last) out[threadIdx.x] = x[threadIdx.x];  //! race|missing-syncwarp
}

extern "C" __global__ void blocks_do_not_wait_for_each_other(float* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i];  //! race
    __syncthreads();
    int mirrored = gridDim.x * blockDim.x - 1 - i;
    if (i < mirrored) out[i] += out[mirrored];  //! race
}

extern "C" __global__ void stencil_in_place(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 32 && i < n - 32) {
        float sum = x[i - 32] + x[i + 32];  //! race
        x[i] = 0.5f * sum;  //! race
    }
}

// i += blockDim.x where gridDim.x * blockDim.x was meant: every block does all of it.
extern "C" __global__ void grid_stride_without_the_grid(float* out, const float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x)
        out[i] += x[i];  //! race
}

extern "C" __global__ void rows_that_overlap(float* out, const float* x, int columns) {
    for (int k = 0; k <= columns; k++)
        if (blockIdx.x * columns + k < gridDim.x * columns)
            out[blockIdx.x * columns + k] = x[blockIdx.x];  //! race
}
