/* The linear layer: out = x wT + b, and its two backward products. From one thread per result to tiles in registers.

v1  one thread per result; the threads of a warp go down a column
v2  the threads of a warp go along a row: neighbours write, and in the backward products read, neighbouring numbers
v3  a tile of 32 x 32 results per block: its inputs come to shared memory once, for 32 results each
v4  8 results of a column per thread: a number of b, once in a register, serves all of them
v5  8 x 8 results per thread: 8 + 8 numbers from shared memory for 64 multiply-adds
v6  128-bit loads and stores                                         in matmul_tiles.cu, as are
v7  no two threads of a warp wait for the same bank
v8  the next slice comes in the background while this one is used
v9  a tile for each warp too, and split-K; bias and GELU on the way  in matmul_warp.cu
v10 three products of TF32 numbers, on tensor cores, for one of float32  in matmul_tensor.cu, as is
v11 one product of TF32 numbers: the factors are rounded

What llmc multiplies by: see matmul.py.

Shapes: x (N, C_in), w (C_out, C_in), out and dout (N, C_out), with N = B*T.
    matmul_forward          out = x wT        M = N,      columns = C_out,  K = C_in
    matmul_backward_input   dx = dout w       M = N,      columns = C_in,   K = C_out
    matmul_backward_weight  dw += doutT x     M = C_out,  columns = C_in,   K = N
    matmul_add_parts_v1     result = or += the sum of what v9 has computed in parts, then bias and GELU
    bias_forward_v1         out += b
    bias_gelu_forward_v1    out += b, gelu_out = GELU(out)
    gelu_again_v1           gelu_out = GELU(out) once more, for the backward pass
Each product is result (M, N) = A (M, K) B (K, N). Three macros say which: A_RUNS and B_RUNS, whether k is the index
that runs through memory in a and in b, and ADD, whether the result is added to.
Blocks are numbered along one axis, which may have 2^31 of them; the two others end at 65,535.
*/

#ifndef A_RUNS
#define A_RUNS true
#define B_RUNS true
#define ADD false
#endif

// The element (i, k) of a matrix (n, K), zero outside; runs: whether k is the index that runs through memory.
__device__ float element(const float* a, int i, int k, int n, int K, bool runs)
{
    if (i >= n || k >= K) return 0.0f;
    return runs ? a[(size_t)i * K + k] : a[(size_t)k * n + i];
}

// Write result (m, n), or add it to what is there.
__device__ void store(float* result, float total, int m, int n, int M, int N)
{
    if (m >= M || n >= N) return;
    float* place = result + (size_t)m * N + n;
    *place = ADD ? *place + total : total;
}

// ------------------------------------------------------------------------------------- one result per thread: v1, v2

__device__ void one_result(float* result, const float* a, const float* b, int m, int n, int M, int N, int K)
{
    float total = 0.0f;
    for (int k = 0; k < K; k++) total += element(a, m, k, M, K, A_RUNS) * element(b, n, k, N, K, B_RUNS);
    store(result, total, m, n, M, N);
}

// Blocks of 256 threads for 16 x 16 results.
extern "C" __global__ void __launch_bounds__(256) matmul_v1(float* result, const float* a, const float* b, int M,
                                                            int N, int K)
{
    int across = (N + 15) / 16, m0 = blockIdx.x / across * 16, n0 = blockIdx.x % across * 16;
    one_result(result, a, b, m0 + threadIdx.x % 16, n0 + threadIdx.x / 16, M, N, K);
}

extern "C" __global__ void __launch_bounds__(256) matmul_v2(float* result, const float* a, const float* b, int M,
                                                            int N, int K)
{
    int across = (N + 15) / 16, m0 = blockIdx.x / across * 16, n0 = blockIdx.x % across * 16;
    one_result(result, a, b, m0 + threadIdx.x / 16, n0 + threadIdx.x % 16, M, N, K);
}

// ------------------------------------------------------------------------------- tiles in shared memory: v3, v4, v5

// Fetch tile[k][i] = element (first + i, start + k) with all THREADS of the block.
template <int THREADS, int DEPTH, int TILE>
__device__ void fetch(float (&tile)[DEPTH][TILE], const float* a, int first, int start, int n, int K, bool runs)
{
    for (int j = threadIdx.x; j < TILE * DEPTH; j += THREADS) {
        int k = runs ? j % DEPTH : j / TILE;  // neighbouring threads read neighbouring addresses
        int i = runs ? j / DEPTH : j % TILE;
        tile[k][i] = element(a, first + i, start + k, n, K, runs);
    }
}

// For each k, 32 + 32 numbers are fetched for 32 * 32 multiply-adds: 16 per number.
extern "C" __global__ void __launch_bounds__(1024) matmul_v3(float* result, const float* a, const float* b, int M,
                                                             int N, int K)
{
    __shared__ float as[32][32], bs[32][32];  // [k][row], [k][column]
    int across = (N + 31) / 32, m0 = blockIdx.x / across * 32, n0 = blockIdx.x % across * 32;
    int row = threadIdx.x / 32, column = threadIdx.x % 32;
    float total = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch<1024>(as, a, m0, k0, M, K, A_RUNS);
        fetch<1024>(bs, b, n0, k0, N, K, B_RUNS);
        __syncthreads();
        for (int k = 0; k < 32; k++) total += as[k][row] * bs[k][column];
    }
    store(result, total, m0 + row, n0 + column, M, N);
}

// 64 x 64 results: 32 multiply-adds per number fetched, and 8 for 9 numbers read from shared memory.
extern "C" __global__ void __launch_bounds__(512) matmul_v4(float* result, const float* a, const float* b, int M,
                                                            int N, int K)
{
    __shared__ float as[8][64], bs[8][64];
    int across = (N + 63) / 64, m0 = blockIdx.x / across * 64, n0 = blockIdx.x % across * 64;
    int row = threadIdx.x / 64 * 8, column = threadIdx.x % 64;
    float totals[8] = {};  // of rows row ... row + 7
    for (int k0 = 0; k0 < K; k0 += 8) {
        __syncthreads();
        fetch<512>(as, a, m0, k0, M, K, A_RUNS);
        fetch<512>(bs, b, n0, k0, N, K, B_RUNS);
        __syncthreads();
        for (int k = 0; k < 8; k++) {
            float y = bs[k][column];
            #pragma unroll
            for (int i = 0; i < 8; i++) totals[i] += as[k][row + i] * y;
        }
    }
    #pragma unroll
    for (int i = 0; i < 8; i++) store(result, totals[i], m0 + row + i, n0 + column, M, N);
}

// 128 x 128 results: 64 multiply-adds per number fetched, and 4 per number read from shared memory.
extern "C" __global__ void __launch_bounds__(256) matmul_v5(float* result, const float* a, const float* b, int M,
                                                            int N, int K)
{
    __shared__ float as[8][128], bs[8][128];
    int across = (N + 127) / 128, m0 = blockIdx.x / across * 128, n0 = blockIdx.x % across * 128;
    int row = threadIdx.x / 16 * 8, column = threadIdx.x % 16 * 8;
    float totals[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        __syncthreads();
        fetch<256>(as, a, m0, k0, M, K, A_RUNS);
        fetch<256>(bs, b, n0, k0, N, K, B_RUNS);
        __syncthreads();
        for (int k = 0; k < 8; k++) {
            float x[8], y[8];
            #pragma unroll
            for (int i = 0; i < 8; i++) x[i] = as[k][row + i], y[i] = bs[k][column + i];
            #pragma unroll
            for (int i = 0; i < 64; i++) totals[i / 8][i % 8] += x[i / 8] * y[i % 8];
        }
    }
    #pragma unroll
    for (int i = 0; i < 64; i++) store(result, totals[i / 8][i % 8], m0 + row + i / 8, n0 + column + i % 8, M, N);
}

// ---------------------------------------------------------------------------------------------------------- bias

#include "gelu.cuh"

// result (n,), rows of N, = or += the sum of parts (count, n), in a fixed order. bias, gelu_out: 0 where there is none.
extern "C" __global__ void __launch_bounds__(256) matmul_add_parts_v1(float* result, float* gelu_out,
                                                                      const float* parts, const float* bias,
                                                                      int count, int n, int N)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float total = (ADD ? result[i] : 0.0f) + (bias ? bias[i % N] : 0.0f);
        for (int p = 0; p < count; p++) total += parts[(size_t)p * n + i];
        result[i] = total;
        if (gelu_out) gelu_out[i] = gelu(total);
    }
}

extern "C" __global__ void bias_forward_v1(float* out, const float* b, int n, int C)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    bool aligned = C % 4 == 0 && ((size_t)out | (size_t)b) % 16 == 0;  // 128-bit accesses need multiples of 16
    int quads = aligned ? n / 4 : 0;
    for (int q = thread; q < quads; q += threads) {
        float4 x = reinterpret_cast<float4*>(out)[q], y = reinterpret_cast<const float4*>(b)[q % (C / 4)];
        reinterpret_cast<float4*>(out)[q] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    for (int i = 4 * quads + thread; i < n; i += threads) out[i] += b[i % C];
}

extern "C" __global__ void bias_gelu_forward_v1(float* gelu_out, float* out, const float* b, int n, int C)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    bool aligned = C % 4 == 0 && ((size_t)gelu_out | (size_t)out | (size_t)b) % 16 == 0;
    int quads = aligned ? n / 4 : 0;
    for (int q = thread; q < quads; q += threads) {
        float4 x = reinterpret_cast<float4*>(out)[q], y = reinterpret_cast<const float4*>(b)[q % (C / 4)];
        x = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        reinterpret_cast<float4*>(out)[q] = x;
        reinterpret_cast<float4*>(gelu_out)[q] = make_float4(gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w));
    }
    for (int i = 4 * quads + thread; i < n; i += threads) {
        out[i] += b[i % C];
        gelu_out[i] = gelu(out[i]);
    }
}

extern "C" __global__ void gelu_again_v1(float* gelu_out, const float* out, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && ((size_t)gelu_out | (size_t)out) % 16 == 0) {
        float4 x = *reinterpret_cast<const float4*>(out + i);
        *reinterpret_cast<float4*>(gelu_out + i) = make_float4(gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w));
    } else {
        for (int k = i; k < n && k < i + 4; k++) gelu_out[k] = gelu(out[k]);
    }
}
