// Dense and sparse linear algebra.

#define BM 32
#define BN 32
#define BK 8
#define TM 4
#define TN 4

// The middle of the SGEMM ladder: 32 x 32 tiles, 4 x 4 results a thread in registers, float4 loads, A kept transposed,
// and two buffers, so that the next tile comes from global memory while this one is multiplied.
extern "C" __global__ void __launch_bounds__(64)
gemm_double_buffered(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b, int N, int K) {
    __shared__ __align__(16) float as[2][BK][BM], bs[2][BK][BN];
    int t = threadIdx.x, row = t / (BN / TN) * TM, col = t % (BN / TN) * TN, buffer = 0;
    const float4* from_a = reinterpret_cast<const float4*>(a + (blockIdx.y * BM + t / 2) * K + t % 2 * 4);
    const float4* from_b = reinterpret_cast<const float4*>(b + t / 8 * N + blockIdx.x * BN + t % 8 * 4);
    float sum[TM][TN] = {};
    float4 next_a = from_a[0], next_b = from_b[0];
    for (int tile = 0; tile < K; tile += BK, buffer ^= 1) {
        as[buffer][t % 2 * 4 + 0][t / 2] = next_a.x;
        as[buffer][t % 2 * 4 + 1][t / 2] = next_a.y;
        as[buffer][t % 2 * 4 + 2][t / 2] = next_a.z;
        as[buffer][t % 2 * 4 + 3][t / 2] = next_a.w;
        *reinterpret_cast<float4*>(&bs[buffer][t / 8][t % 8 * 4]) = next_b;
        __syncthreads();
        if (tile + BK < K) {
            next_a = from_a[(tile + BK) / 4];
            next_b = from_b[(tile + BK) * N / 4];
        }
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float4 va = *reinterpret_cast<float4*>(&as[buffer][k][row]);
            float4 vb = *reinterpret_cast<float4*>(&bs[buffer][k][col]);
            float ra[TM] = {va.x, va.y, va.z, va.w}, rb[TN] = {vb.x, vb.y, vb.z, vb.w};
            for (int m = 0; m < TM; m++)
                for (int n = 0; n < TN; n++) sum[m][n] += ra[m] * rb[n];
        }
    }
    for (int m = 0; m < TM; m++) {
        float4* to = reinterpret_cast<float4*>(c + (blockIdx.y * BM + row + m) * N + blockIdx.x * BN + col);
        *to = make_float4(sum[m][0], sum[m][1], sum[m][2], sum[m][3]);
    }
}

// 32 x 32 tiles by 32 x 8 threads, blocks numbered along the diagonals.
extern "C" __global__ void transpose_by_diagonals(float* out, const float* x, int rows, int cols) {
    __shared__ float tile[32][33];
    int b = blockIdx.y * gridDim.x + blockIdx.x, by = b % gridDim.y, bx = (b / gridDim.y + by) % gridDim.x;
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        tile[k][threadIdx.x] = x[(by * 32 + k) * cols + bx * 32 + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += blockDim.y)
        out[(bx * 32 + k) * rows + by * 32 + threadIdx.x] = tile[threadIdx.x][k];
}

// Gauss without pivots of a 16 x 16 tile in shared memory, L and U in place.
extern "C" __global__ void lu_tile(float* x) {
    __shared__ float s[16][17];
    int row = threadIdx.y, col = threadIdx.x;
    s[row][col] = x[row * 16 + col];
    __syncthreads();
    for (int k = 0; k < 15; k++) {
        if (col == k && row > k) s[row][k] /= s[k][k];
        __syncthreads();
        if (row > k && col > k) s[row][col] -= s[row][k] * s[k][col];
        __syncthreads();
    }
    x[row * 16 + col] = s[row][col];
}

// Cholesky of a small matrix by one warp: a row a lane, the column's values handed round by shuffles.
extern "C" __global__ void cholesky_by_a_warp(float* x, int n) {
    int row = threadIdx.x;
    float mine[32];
    for (int k = 0; k < n; k++) mine[k] = row < n ? x[row * n + k] : (row == k);
    for (int k = 0; k < n; k++) {
        float pivot = sqrtf(__shfl_sync(0xffffffffu, mine[k], k));
        mine[k] = row == k ? pivot : mine[k] / pivot;
        for (int j = k + 1; j < n; j++) mine[j] -= mine[k] * __shfl_sync(0xffffffffu, mine[k], j);
    }
    if (row < n)
        for (int k = 0; k < n; k++) x[row * n + k] = k <= row ? mine[k] : 0.0f;
}

// Floyd and Warshall by tiles of 8: the pivot's tile; then its row and column; then all others.
__device__ void shorten(float (*to)[8], float (*a)[8], float (*b)[8], bool in_place) {
    int x = threadIdx.x, y = threadIdx.y;
    for (int k = 0; k < 8; k++) {
        float through = a[y][k] + b[k][x];
        if (in_place) __syncthreads();
        to[y][x] = fminf(to[y][x], through);
        if (in_place) __syncthreads();
    }
}

extern "C" __global__ void floyd_warshall(float* distance, int n, int pivot, int phase) {
    __shared__ float to[8][8], a[8][8], b[8][8];
    int x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x, by = blockIdx.y;
    int on_pivot = (bx == pivot) + (by == pivot);
    if (on_pivot != 2 - phase) return;
    to[y][x] = distance[(by * 8 + y) * n + bx * 8 + x];
    a[y][x] = distance[(by * 8 + y) * n + pivot * 8 + x];
    b[y][x] = distance[(pivot * 8 + y) * n + bx * 8 + x];
    __syncthreads();
    shorten(to, bx == pivot ? to : a, by == pivot ? to : b, phase < 2);
    distance[(by * 8 + y) * n + bx * 8 + x] = to[y][x];
}

// Sparse matrix (CSR) times vector, a warp a row.
extern "C" __global__ void spmv(float* out, const int* starts, const int* columns, const float* values, const float* x,
                                int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = starts[row] + lane; k < starts[row + 1]; k += 32) sum += values[k] * __ldg(&x[columns[k]]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) out[row] = sum;
}
