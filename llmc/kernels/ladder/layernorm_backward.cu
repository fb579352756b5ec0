/* Steps of layernorm's backward pass before the kernels of ../layernorm_backward.cu, which says what they compute.

v1  one warp per row; every row adds its C numbers to dw and to db by atomics
v2  shared partials: a block adds up many rows in shared memory, and uses atomics on dw and db once, at its end
v3  scratch per block: a block writes its sums to a place of its own, and a second kernel adds those up

All read x and dout once. Atomics add in whatever order the threads arrive, so they round differently in each run (v3 by
those in shared memory).
*/

#include "../layernorm_backward.cu"

// One row, by a warp. dw and db, in global or in shared memory, are added to by atomics.
__device__ void add_row(float* dx, float* dw, float* db, const float* dout, const float* x, const float* w, float mean,
                        float rstd, int C)
{
    Means m = means_of_row(dout, x, w, mean, rstd, C);
    for (int c = threadIdx.x % 32; c < C; c += 32) {
        float norm = (x[c] - mean) * rstd;
        dx[c] += (dout[c] * w[c] - m.dnorm - norm * m.product) * rstd;
        atomicAdd(&dw[c], dout[c] * norm);
        atomicAdd(&db[c], dout[c]);
    }
}

extern "C" __global__ void layernorm_backward_v1(float* dx, float* dw, float* db, const float* dout, const float* x,
                                                 const float* w, const float* mean, const float* rstd, int N, int C)
{
    int row = blockIdx.x * ROWS + threadIdx.x / 32;
    if (row >= N) return;           // a whole warp leaves, and there is no barrier to miss
    size_t start = (size_t)row * C;  // size_t: N * C may exceed 2^31
    add_row(dx + start, dw, db, dout + start, x + start, w, mean[row], rstd[row], C);
}

// All rows of a block, added up in sums (2, C), in shared memory.
__device__ void add_rows(float* sums, float* dx, const float* dout, const float* x, const float* w, const float* mean,
                         const float* rstd, int N, int C)
{
    for (int i = threadIdx.x; i < 2 * C; i += blockDim.x) sums[i] = 0.0f;
    __syncthreads();
    for (int row = blockIdx.x * ROWS + threadIdx.x / 32; row < N; row += gridDim.x * ROWS) {
        size_t start = (size_t)row * C;
        add_row(dx + start, sums, sums + C, dout + start, x + start, w, mean[row], rstd[row], C);
    }
    __syncthreads();
}

extern "C" __global__ void layernorm_backward_v2(float* dx, float* dw, float* db, const float* dout, const float* x,
                                                 const float* w, const float* mean, const float* rstd, int N, int C)
{
    extern __shared__ float sums[];  // (2, C): dw and db of this block
    add_rows(sums, dx, dout, x, w, mean, rstd, N, C);
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        atomicAdd(&dw[c], sums[c]);
        atomicAdd(&db[c], sums[C + c]);
    }
}

extern "C" __global__ void layernorm_backward_partial_v3(float* dx, float* partial, const float* dout, const float* x,
                                                         const float* w, const float* mean, const float* rstd, int N,
                                                         int C)
{
    extern __shared__ float sums[];  // (2, C)
    add_rows(sums, dx, dout, x, w, mean, rstd, N, C);
    for (int i = threadIdx.x; i < 2 * C; i += blockDim.x) partial[(size_t)blockIdx.x * 2 * C + i] = sums[i];
}
