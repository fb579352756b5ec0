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
