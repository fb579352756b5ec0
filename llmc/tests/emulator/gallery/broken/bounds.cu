// Accesses that leave their array, or that no GPU can make. `//!` marks the line to be named, and what of which array.

#define BLOCK 64

extern "C" __global__ void missing_bounds_check(float* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2.0f * x[i];  //! out-of-bounds x[100]
}

extern "C" __global__ void missing_bounds_check_on_write(float* out, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = value;  //! out-of-bounds out[100]
}

extern "C" __global__ void less_or_equal(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        float v = x[i];  //! out-of-bounds x[100]
        out[i] = v + 1.0f;
    }
}

extern "C" __global__ void negative_index(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] - x[i - 1];  //! out-of-bounds x[-1]
}

extern "C" __global__ void last_neighbour(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + x[i + 1];  //! out-of-bounds x[100]
}

extern "C" __global__ void transposed_index(float* out, const float* x, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols)
        out[col * cols + row] = x[row * cols + col];  //! out-of-bounds out[80]
}

// x and y the wrong way round: a matrix that is not square leaves its rows.
extern "C" __global__ void swapped_axes(float* x, int rows, int cols) {
    int row = threadIdx.x, col = threadIdx.y;
    x[row * cols + col] *= 2.0f;  //! out-of-bounds x[80]
}

extern "C" __global__ void strided_overrun(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < n)
        for (int k = 0; k < 4; k++) x[4 * i + k] += 1.0f;  //! out-of-bounds x[102]
}

extern "C" __global__ void float4_past_the_end(float4* out, const float4* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < n) {
        float4 v = x[i];  //! out-of-bounds x
        out[i] = v;
    }
}

extern "C" __global__ void float4_misaligned(float* out, const float* x) {
    int i = threadIdx.x;
    float4 v = *reinterpret_cast<const float4*>(x + 1 + 4 * i);  //! misaligned x
    out[i] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void float4_on_odd_rows(float* out, const float* x, int columns) {
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * columns);
    float4 v = row[threadIdx.x];  //! misaligned x
    out[blockIdx.x * blockDim.x + threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void floats_read_as_doubles(double* out, const float* x, int n) {
    const double* wide = (const double*)x;
    int i = threadIdx.x;
    if (i < n) out[i] = wide[i];  //! out-of-bounds x
}

extern "C" __global__ void bytes_taken_for_elements(float* out, const float* x, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = *(x + i * sizeof(float));  //! out-of-bounds x[64]
}

// A table of addresses in which one was never filled in.
extern "C" __global__ void null_pointer(float* out, const unsigned long long* rows) {
    const float* row = (const float*)rows[blockIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = row[threadIdx.x];  //! invalid-pointer
}

extern "C" __global__ void wild_pointer(float* out, const unsigned long long* rows) {
    float* row = (float*)rows[blockIdx.x];
    row[threadIdx.x] = out[threadIdx.x];  //! invalid-pointer
}

extern "C" __global__ void static_shared_column(float* out, const float* x) {
    __shared__ float tile[32][33];
    int y = threadIdx.y, first = 2;
    tile[y][threadIdx.x + first] = x[y * 32 + threadIdx.x];  //! bounds [33]
    __syncthreads();
    out[y * 32 + threadIdx.x] = tile[y][threadIdx.x + first];  //! bounds [33]
}

__device__ void store(float* slots, int slot, float value) {
    slots[slot] = value;  //! out-of-bounds
}

// The block was once 64 threads, and the array in shared memory still is.
extern "C" __global__ void shared_through_a_pointer(float* out, const float* x) {
    __shared__ float slots[BLOCK];
    store(slots, threadIdx.x, x[threadIdx.x]);
    __syncthreads();
    out[threadIdx.x] = slots[threadIdx.x % BLOCK];
}

extern "C" __global__ void dynamic_shared_too_small(float* out, const float* x) {
    extern __shared__ float slots[];
    slots[threadIdx.x] = x[threadIdx.x];  //! out-of-bounds
    __syncthreads();
    out[threadIdx.x] = slots[blockDim.x - 1 - threadIdx.x];  //! out-of-bounds
}

extern "C" __global__ void local_array_index(float* out, const float* x, int k) {
    float last[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int j = 0; j <= k; j++) last[j] = x[threadIdx.x + j];  //! bounds [4]
    out[threadIdx.x] = last[0] + last[1] + last[2] + last[3];
}

__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};

extern "C" __global__ void constant_past_the_end(float* out, const float* x, int n) {
    float sum = 0.0f;
    for (int k = 0; k <= n; k++) sum += weights[k] * x[threadIdx.x + k];  //! bounds [3]
    out[threadIdx.x] = sum;
}

extern "C" __global__ void index_overflows_int(float* out, const float* x, int columns) {
    int row = threadIdx.x + 50000;
    int at = row * columns;  //! integer-overflow
    out[threadIdx.x] = at < 0 ? 0.0f : x[at % 64];
}

// s[256] and a launch of 512 threads.
extern "C" __global__ void block_size_assumed(float* out, const float* x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];  //! bounds [256]
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}

extern "C" __global__ void atomic_out_of_bounds(int* counts, const int* x) {
    atomicAdd(&counts[x[threadIdx.x]], 1);  //! out-of-bounds counts[10]
}
