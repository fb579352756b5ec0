// Words of the language: each kernel uses one that an emulator may well have got wrong.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void grid_stride(float* out, const float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 2.0f * x[i];
}

extern "C" __global__ void in_place(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 1.0f + x[i];
}

extern "C" __global__ void add(float* out, const float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

// Two neighbours share 32 bits; each thread writes its own 16.
extern "C" __global__ void half_neighbours(__half* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __float2half(x[i]);
}

extern "C" __global__ void bfloat16_neighbours(__nv_bfloat16* out, const float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[gridDim.x * blockDim.x - 1 - i] = __float2bfloat16(x[i]);
}

extern "C" __global__ void bytes(unsigned char* out, const unsigned char* x) {
    __shared__ unsigned char s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = x[i];
    __syncthreads();
    out[i] = s[63 - threadIdx.x] ^ 0xff;
}

// Columns of a float4 by four threads: neighbours, not rivals.
extern "C" __global__ void members_of_a_vector(float4* out, const float* x) {
    reinterpret_cast<float*>(&out[threadIdx.x / 4])[threadIdx.x % 4] = x[threadIdx.x];
}

extern "C" __global__ void vectors_and_a_tail(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = __ldg(reinterpret_cast<const float4*>(x) + i);
        __stcs(reinterpret_cast<float4*>(out) + i, make_float4(-v.x, -v.y, -v.z, -v.w));
    }
    if (i < n % 4) out[n - 1 - i] = -x[n - 1 - i];
}

template <typename T, int K>
__global__ void powers(T* out, const T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T product = 1;
    for (int k = 0; k < K; k++) product *= x[i];
    out[i] = product;
}

__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};
__device__ float scale = 2.0f;

extern "C" __global__ void constant_memory(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = -1; k <= 1; k++)
        if (i + k >= 0 && i + k < n) sum += weights[k + 1] * x[i + k];
    if (i < n) out[i] = scale * sum;
}

struct Line {
    float slope;
    int steps;
    __device__ float at(float x) const {
        for (int k = 0; k < steps; k++) x *= slope;
        return x;
    }
};

extern "C" __global__ void struct_by_value(float* out, Line line, float x) {
    out[threadIdx.x] = line.at(x + threadIdx.x);
}

extern "C" __global__ void three_dimensions(int* out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z, X = gridDim.x * blockDim.x, Y = gridDim.y * blockDim.y;
    out[(z * Y + y) * X + x] = 10000 * z + 100 * y + x;
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

extern "C" __global__ void local_array(int* out, const int* x, int n) {
    int sorted[16];
    for (int k = 0; k < n; k++) {
        int j = k;
        for (; j > 0 && sorted[j - 1] > x[threadIdx.x * n + k]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = x[threadIdx.x * n + k];
    }
    for (int k = 0; k < n; k++) out[threadIdx.x * n + k] = sorted[k];
}

__device__ float twice(float x) { return 2.0f * x; }
__device__ float square(float x) { return x * x; }

extern "C" __global__ void function_pointers(float* out, const float* x) {
    float (*functions[2])(float) = {twice, square};
    out[threadIdx.x] = functions[threadIdx.x % 2](x[threadIdx.x]);
}

extern "C" __global__ void prints(int n) {
    if (threadIdx.x == 0) printf("block %d of %d: %.2f %s\n", blockIdx.x, gridDim.x, 0.5 * n, "done");
}

extern "C" __global__ void dynamic_shared_in_three_parts(float* out, const float* x, int n) {
    extern __shared__ double everything[];
    double* sums = everything;
    int* order = (int*)(sums + n);
    float* kept = (float*)(order + n);
    int t = threadIdx.x;
    kept[t] = x[t];
    order[t] = n - 1 - t;
    __syncthreads();
    sums[t] = (double)kept[order[t]] + kept[t];
    __syncthreads();
    out[t] = (float)sums[order[t]];
}

// A hash wraps around, and unsigned numbers may.
extern "C" __global__ void unsigned_numbers_wrap(unsigned* out, const unsigned* x) {
    unsigned h = x[threadIdx.x];
    for (int k = 0; k < 5; k++) h = (h ^ (h >> 15)) * 2654435769u + 1u;
    out[threadIdx.x] = h - 0xfffffff0u;
}

// A pointer that points before its array and is used only inside.
extern "C" __global__ void pointer_from_one(float* out, const float* x) {
    const float* from_one = x - 1;
    float* end = out + blockDim.x;
    *(end - 1 - threadIdx.x) = from_one[threadIdx.x + 1];
}

extern "C" __global__ void matmul_by_tensor_cores(float* out, const __half* a, const __half* b, int n) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    int row = 16 * blockIdx.y, col = 16 * blockIdx.x;
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + k * n + col, n);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(out + row * n + col, sum, n, wmma::mem_row_major);
}
