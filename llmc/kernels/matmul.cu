/* The linear layer: out = x wT + b, and its two backward products.

v1  one thread per result: every thread fetches the numbers that it needs from memory for itself
v2  tiles of 128 x 128 results: inputs come to shared memory once per tile, 8 x 8 results per thread are in registers

llmc multiplies by cuBLAS, or by these with LLMC_MATMUL=kernel. The bias is always ours.

Shapes: x (N, C_in), w (C_out, C_in), out and dout (N, C_out), with N = B*T.
    matmul_forward          out = x wT        M = N,      columns = C_out,  K = C_in
    matmul_backward_input   dx = dout w       M = N,      columns = C_in,   K = C_out
    matmul_backward_weight  dw += doutT x     M = C_out,  columns = C_in,   K = N
    bias_forward_v1         out += b
    bias_gelu_forward_v1    out += b, gelu_out = GELU(out)
Each product is result (M, N) = A (M, K) B (K, N); they differ in which index of A and of B runs through memory.
For each k, a tile of 128 x 128 results fetches 128 + 128 numbers and does 128 * 128 multiply-adds: 64 per number.
*/

const int TILE = 128;   // rows and columns of results of a block
const int DEPTH = 8;    // how many k are in shared memory at a time
const int EACH = 8;     // rows and columns of results of a thread
const int THREADS = 256;

// The element (i, k) of a matrix (n, K); K_RUNS: k is the index that runs through memory. Zero outside.
template <bool K_RUNS>
__device__ float element(const float* a, int i, int k, int n, int K)
{
    if (i >= n || k >= K) return 0.0f;
    return K_RUNS ? a[(size_t)i * K + k] : a[(size_t)k * n + i];
}

template <bool A_RUNS, bool B_RUNS>
__device__ void product_v1(float* result, const float* a, const float* b, int M, int N, int K, bool add)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    float total = 0.0f;
    for (int k = 0; k < K; k++) total += element<A_RUNS>(a, m, k, M, K) * element<B_RUNS>(b, n, k, N, K);
    float* place = result + (size_t)m * N + n;
    *place = add ? *place + total : total;
}

// Fetch tile[k][i] = element (first + i, start + k); the padding of a row keeps a warp's stores in different banks.
template <bool K_RUNS>
__device__ void fetch(float (*tile)[TILE + 4], const float* a, int first, int start, int n, int K)
{
    for (int j = threadIdx.x; j < TILE * DEPTH; j += THREADS) {
        int k = K_RUNS ? j % DEPTH : j / TILE;  // neighbouring threads read neighbouring addresses
        int i = K_RUNS ? j / DEPTH : j % TILE;
        tile[k][i] = element<K_RUNS>(a, first + i, start + k, n, K);
    }
}

// 4 + 4 numbers that lie 64 apart: a warp then reads whole rows of 128-bit words, each bank once.
__device__ void take(float* to, const float* row, int place)
{
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(row + 4 * place);
    *reinterpret_cast<float4*>(to + 4) = *reinterpret_cast<const float4*>(row + 4 * place + TILE / 2);
}

template <bool A_RUNS, bool B_RUNS>
__device__ void product_v2(float* result, const float* a, const float* b, int M, int N, int K, bool add)
{
    __shared__ __align__(16) float as[DEPTH][TILE + 4], bs[DEPTH][TILE + 4];
    int row = threadIdx.x / 16, column = threadIdx.x % 16;  // of 16 x 16 threads
    int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    float sums[EACH][EACH] = {};
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        __syncthreads();  // all threads are done with the tiles of the round before
        fetch<A_RUNS>(as, a, m0, k0, M, K);
        fetch<B_RUNS>(bs, b, n0, k0, N, K);
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            alignas(16) float x[EACH], y[EACH];
            take(x, as[k], row);
            take(y, bs[k], column);
            #pragma unroll
            for (int i = 0; i < EACH; i++) {
                #pragma unroll
                for (int j = 0; j < EACH; j++) sums[i][j] += x[i] * y[j];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < EACH; i++) {
        int m = m0 + 4 * row + i % 4 + i / 4 * (TILE / 2);
        #pragma unroll
        for (int j = 0; j < EACH; j++) {
            int n = n0 + 4 * column + j % 4 + j / 4 * (TILE / 2);
            if (m < M && n < N) {
                float* place = result + (size_t)m * N + n;
                *place = add ? *place + sums[i][j] : sums[i][j];
            }
        }
    }
}

// M, N, K are those of the product; the template says whether k runs through memory in a, and in b.
extern "C" __global__ void __launch_bounds__(256) matmul_forward_v1(float* result, const float* a,
                                                                    const float* b, int M, int N, int K)
{
    product_v1<true, true>(result, a, b, M, N, K, false);
}

extern "C" __global__ void __launch_bounds__(256) matmul_forward_v2(float* result, const float* a,
                                                                    const float* b, int M, int N, int K)
{
    product_v2<true, true>(result, a, b, M, N, K, false);
}

extern "C" __global__ void __launch_bounds__(256) matmul_backward_input_v1(float* result, const float* a,
                                                                           const float* b, int M, int N, int K)
{
    product_v1<true, false>(result, a, b, M, N, K, false);
}

extern "C" __global__ void __launch_bounds__(256) matmul_backward_input_v2(float* result, const float* a,
                                                                           const float* b, int M, int N, int K)
{
    product_v2<true, false>(result, a, b, M, N, K, false);
}

extern "C" __global__ void __launch_bounds__(256) matmul_backward_weight_v1(float* result, const float* a,
                                                                            const float* b, int M, int N, int K)
{
    product_v1<false, false>(result, a, b, M, N, K, true);
}

extern "C" __global__ void __launch_bounds__(256) matmul_backward_weight_v2(float* result, const float* a,
                                                                            const float* b, int M, int N, int K)
{
    product_v2<false, false>(result, a, b, M, N, K, true);
}

// ---------------------------------------------------------------------------------------------------------- bias

__device__ float gelu(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * u));  // 0.5 x (1 + tanh(u))
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
