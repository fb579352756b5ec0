/* The products of the linear layer on tiles of 128 x 128 results, 8 x 8 per thread, as v5 of matmul.cu. What changes is
how numbers get into shared memory, and from there into registers.

v6  128-bit loads and stores: a quarter of the instructions
v7  no bank conflicts: rows of a tile are 4 numbers longer than they must be, and a thread's 8 results lie 4 and 4
v8  two buffers: the next slice is on its way while the threads compute with this one, in the background with cp.async
    where it is copied as it lies, in registers where it must be turned; one barrier per slice instead of two

Shapes, products and the macros A_RUNS, B_RUNS, ADD and WORD: see ../matmul.cu.
*/

#ifndef A_RUNS
#define A_RUNS true
#define B_RUNS true
#define ADD false
#define WORD 4
#endif

const int TILE = 128, DEPTH = 8, THREADS = 256;

// ------------------------------------------------------------------------------------------------- 128 bits: v6, v7

// Four neighbours in memory from `from` on, of which `left` exist; zeros for the others.
__device__ float4 four(const float* from, int left)
{
    if (WORD == 4) return left > 0 ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f,
                       left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

// The quad of a slice that belongs to this thread, of 256 for 128 * 8 / 4: its k and its row of the result. It has four
// neighbours in memory, which are four k of a row, or four rows.
__device__ int quad_k(bool runs) { return runs ? threadIdx.x % (DEPTH / 4) * 4 : threadIdx.x / (TILE / 4); }
__device__ int quad_row(bool runs) { return runs ? threadIdx.x / (DEPTH / 4) : threadIdx.x % (TILE / 4) * 4; }

// The elements (first + row, start + k) of that quad.
__device__ float4 load(const float* a, int first, int start, int n, int K, bool runs)
{
    int k = start + quad_k(runs), i = first + quad_row(runs);
    if (runs) return four(a + (size_t)i * K + k, i < n ? K - k : 0);
    return four(a + (size_t)k * n + i, k < K ? n - i : 0);
}

// Put them into tile[k][row].
template <int WIDTH>
__device__ void put(float (*tile)[WIDTH], float4 v, bool runs)
{
    int k = quad_k(runs), i = quad_row(runs);
    if (runs)
        tile[k][i] = v.x, tile[k + 1][i] = v.y, tile[k + 2][i] = v.z, tile[k + 3][i] = v.w;
    else
        *reinterpret_cast<float4*>(&tile[k][i]) = v;
}

// Where the first and the second four results of a thread begin, of 16 threads side by side.
template <bool APART>
__device__ int begin(int thread, int four)
{
    return APART ? 4 * thread + TILE / 2 * four : 8 * thread + 4 * four;
}

// Add the products of one slice to the sums of this thread, at (row, column) of 16 x 16 threads.
template <bool APART, int WIDTH>
__device__ void multiply(float (*sums)[8], float (*as)[WIDTH], float (*bs)[WIDTH], int row, int column)
{
    #pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        alignas(16) float x[8], y[8];
        #pragma unroll
        for (int j = 0; j < 2; j++) {
            reinterpret_cast<float4*>(x)[j] = *reinterpret_cast<float4*>(as[k] + begin<APART>(row, j));
            reinterpret_cast<float4*>(y)[j] = *reinterpret_cast<float4*>(bs[k] + begin<APART>(column, j));
        }
        #pragma unroll
        for (int i = 0; i < 64; i++) sums[i / 8][i % 8] += x[i / 8] * y[i % 8];
    }
}

template <bool APART>
__device__ void store(float* result, float (*sums)[8], int m0, int n0, int row, int column, int M, int N)
{
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        int m = m0 + begin<APART>(row, i / 4) + i % 4;
        #pragma unroll
        for (int j = 0; j < 2; j++) {
            int n = n0 + begin<APART>(column, j);
            float* place = result + (size_t)m * N + n;
            int left = m < M ? N - n : 0;
            float4 v = reinterpret_cast<float4*>(sums[i])[j], old = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (ADD) old = four(place, left);
            v = make_float4(old.x + v.x, old.y + v.y, old.z + v.z, old.w + v.w);
            if (WORD == 4) {
                if (left > 0) *reinterpret_cast<float4*>(place) = v;
            } else {
                if (left > 0) place[0] = v.x;
                if (left > 1) place[1] = v.y;
                if (left > 2) place[2] = v.z;
                if (left > 3) place[3] = v.w;
            }
        }
    }
}

template <bool APART, int WIDTH>
__device__ void product(float* result, const float* a, const float* b, int M, int N, int K)
{
    __shared__ __align__(16) float as[DEPTH][WIDTH], bs[DEPTH][WIDTH];  // [k][row], [k][column]
    int across = (N + TILE - 1) / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
    int row = threadIdx.x / 16, column = threadIdx.x % 16;
    alignas(16) float sums[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        __syncthreads();  // all threads are done with the slices of the round before
        put(as, load(a, m0, k0, M, K, A_RUNS), A_RUNS);
        put(bs, load(b, n0, k0, N, K, B_RUNS), B_RUNS);
        __syncthreads();
        multiply<APART>(sums, as, bs, row, column);
    }
    store<APART>(result, sums, m0, n0, row, column, M, N);
}

// The 16 threads of a row of threads read b 32 bytes apart: two of eight wait for the same banks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_v6(float* result, const float* a, const float* b, int M,
                                                                   int N, int K)
{
    product<false, TILE>(result, a, b, M, N, K);
}

// 16 bytes apart they read whole rows of banks. And rows of 132 floats begin in different banks, so that the threads
// that write a column of the tile do not meet either.
extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_v7(float* result, const float* a, const float* b, int M,
                                                                   int N, int K)
{
    product<true, TILE + 4>(result, a, b, M, N, K);
}

// ---------------------------------------------------------------------------------------------------- two buffers: v8

#include "batches.cuh"

// Send the elements (first + i, start + k) on their way: straight into tile[k][i], or into registers if k runs.
__device__ float4 ask(float (*tile)[TILE + 4], const float* a, int first, int start, int n, int K, bool runs)
{
    if (runs) return load(a, first, start, n, K, runs);
    int k = quad_k(runs), i = quad_row(runs), left = start + k < K ? n - first - i : 0;
    const float* from = a + (size_t)(start + k) * n + first + i;
    #pragma unroll
    for (int j = 0; j < 4; j += WORD) copy_async<WORD>(&tile[k][i + j], from + j, j < left);
    return make_float4(0.0f, 0.0f, 0.0f, 0.0f);  // nobody looks at it
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) matmul_v8(float* result, const float* a, const float* b, int M,
                                                                   int N, int K)
{
    __shared__ __align__(16) float as[2][DEPTH][TILE + 4], bs[2][DEPTH][TILE + 4];
    int across = (N + TILE - 1) / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
    int row = threadIdx.x / 16, column = threadIdx.x % 16;
    alignas(16) float sums[8][8] = {};
    for (int k0 = -DEPTH, next = 0; k0 < K; k0 += DEPTH, next = 1 - next) {
        wait_but<0>();
        __syncthreads();  // this slice is there for all threads, and they are done with the one before
        float4 x = ask(as[next], a, m0, k0 + DEPTH, M, K, A_RUNS);
        float4 y = ask(bs[next], b, n0, k0 + DEPTH, N, K, B_RUNS);
        end_batch();
        if (k0 >= 0) multiply<true>(sums, as[1 - next], bs[1 - next], row, column);
        if (A_RUNS) put(as[next], x, true);
        if (B_RUNS) put(bs[next], y, true);
    }
    store<true>(result, sums, m0, n0, row, column, M, N);
}
