/* out (C, N) = x (N, C)ᵀ. Tensor cores want both factors of a product to run along the dimension that is summed over.

v1  a tile of 32 x 32 numbers through shared memory, one number at a time
v2  a tile of 64 x 64, with 128-bit loads and stores

A thread that read along a row and wrote along a column would touch a new cache line with every number. So a block
reads a tile along its rows and writes it along its columns. The rows of the tile in shared memory are one number longer
than they hold: numbers of one column then lie in different banks.
*/

const int SIDE = 32;  // of a tile in v1; the block has 32 x 8 threads

extern "C" __global__ void transpose_v1(float* out, const float* x, int N, int C)
{
    __shared__ float tile[SIDE][SIDE + 1];
    int n0 = blockIdx.y * SIDE, c0 = blockIdx.x * SIDE;
    for (int i = threadIdx.y; i < SIDE; i += 8) {
        int n = n0 + i, c = c0 + threadIdx.x;
        if (n < N && c < C) tile[i][threadIdx.x] = x[(size_t)n * C + c];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < SIDE; i += 8) {
        int n = n0 + threadIdx.x, c = c0 + i;
        if (n < N && c < C) out[(size_t)c * N + n] = tile[threadIdx.x][i];
    }
}

const int BIG = 64;  // of a tile in v2; the block has 16 x 16 threads, each with four words of four numbers

// N and C are multiples of 4, and both arrays begin at multiples of 16 bytes.
extern "C" __global__ void transpose_v2(float* out, const float* x, int N, int C)
{
    __shared__ float tile[BIG][BIG + 1];
    int n0 = blockIdx.y * BIG, c0 = blockIdx.x * BIG, across = 4 * threadIdx.x;
    #pragma unroll
    for (int i = threadIdx.y; i < BIG; i += 16) {
        if (n0 + i < N && c0 + across < C) {
            float4 v = *reinterpret_cast<const float4*>(x + (size_t)(n0 + i) * C + c0 + across);
            tile[i][across] = v.x, tile[i][across + 1] = v.y, tile[i][across + 2] = v.z, tile[i][across + 3] = v.w;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int i = threadIdx.y; i < BIG; i += 16) {
        if (n0 + across < N && c0 + i < C) {
            float4 v = make_float4(tile[across][i], tile[across + 1][i], tile[across + 2][i], tile[across + 3][i]);
            *reinterpret_cast<float4*>(out + (size_t)(c0 + i) * N + n0 + across) = v;
        }
    }
}
