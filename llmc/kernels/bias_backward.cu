/* The gradient of a bias: db += the column sums of dout (N, C), in two stages and so in a fixed order.

v3  blocks write the sums of their rows to scratch memory, and a second kernel adds those up: for any rows
v4  v3 with 128-bit loads, several of them under way in each thread

Earlier steps are in ladder/bias_backward.cu. dout is read once: 4 bytes per element, and one addition.
partial (chunks, C).
*/

const int ROWS = 8;  // warps of a block, one row each at a time

// Block (32, ROWS): a column for each lane, so that a warp reads 32 neighbours; the warps and gridDim.y share the rows.
// Warp 0 gets the sum of the block.
__device__ float sum_of_rows(const float* dout, int c, int N, int C)
{
    __shared__ float sums[ROWS][32];
    float total = 0.0f;
    for (int n = blockIdx.y * ROWS + threadIdx.y; n < N && c < C; n += gridDim.y * ROWS) {
        total += dout[(size_t)n * C + c];
    }
    sums[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    for (int k = 1; k < ROWS && threadIdx.y == 0; k++) total += sums[k][threadIdx.x];
    return total;
}

extern "C" __global__ void bias_backward_partial_v3(float* partial, const float* dout, int N, int C)
{
    int c = blockIdx.x * 32 + threadIdx.x;
    float total = sum_of_rows(dout, c, N, C);
    if (threadIdx.y == 0 && c < C) partial[(size_t)blockIdx.y * C + c] = total;
}

// Block (32, 32): a column for each lane. The warps share the chunks; warp 0 adds what they have found, in order.
extern "C" __global__ void __launch_bounds__(1024) bias_backward_final_v3(float* db, const float* partial, int chunks,
                                                                          int C)
{
    __shared__ float sums[32][32];
    int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.x * 32 + lane;
    float total = 0.0f;
    for (int k = warp; k < chunks && c < C; k += 32) total += partial[(size_t)k * C + c];
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && c < C) {
        for (int k = 1; k < 32; k++) total += sums[k][lane];
        db[c] += total;
    }
}

__device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// C is a multiple of 4, and dout begins at a multiple of 16 bytes.
extern "C" __global__ void bias_backward_partial_v4(float* partial, const float* dout, int N, int C)
{
    __shared__ float4 sums[ROWS][32];
    int lane = threadIdx.x, warp = threadIdx.y, q = blockIdx.x * 32 + lane, quads = C / 4;
    const float4* rows = (const float4*)dout + q;  // (N, C / 4), from this lane's column on
    int n = blockIdx.y * ROWS + warp, step = gridDim.y * ROWS;
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (q < quads) {
        #pragma unroll 8
        for (; n < N; n += step) total = total + rows[(size_t)n * quads];
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && q < quads) {
        for (int k = 1; k < ROWS; k++) total = total + sums[k][lane];
        ((float4*)partial)[(size_t)blockIdx.y * quads + q] = total;
    }
}
