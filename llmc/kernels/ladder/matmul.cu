/* Steps of the products of ../matmul.cu, which says what they are. From one thread per result to tiles in registers.

v1  one thread per result; the threads of a warp go down a column
v2  the threads of a warp go along a row: neighbours write, and in the backward products read, neighbouring numbers
v3  a tile of 32 x 32 results per block: its inputs come to shared memory once, for 32 results each
v4  8 results of a column per thread: a number of b, once in a register, serves all of them
v5  8 x 8 results per thread: 8 + 8 numbers from shared memory for 64 multiply-adds
v6  128-bit loads and stores                                         in matmul_tiles.cu, as are
v7  no two threads of a warp wait for the same bank
v8  the next slice comes in the background while this one is used

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
