/* Steps of the gradient of a bias before the kernels of ../bias_backward.cu: db += the column sums of dout (N, C).

v1  one thread per column: neighbours read neighbours, but there are only C threads
v2  rows shared by the warps of many blocks: a block adds up its rows in shared memory, then uses one atomic per column

Atomics add in whatever order the blocks arrive, so v2 rounds differently in each run; the others do not.
*/

#include "../bias_backward.cu"

extern "C" __global__ void bias_backward_v1(float* db, const float* dout, int N, int C)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float total = 0.0f;
    for (int n = 0; n < N; n++) total += dout[(size_t)n * C + c];  // size_t: N * C may exceed 2^31
    db[c] += total;
}

extern "C" __global__ void bias_backward_v2(float* db, const float* dout, int N, int C)
{
    int c = blockIdx.x * 32 + threadIdx.x;
    float total = sum_of_rows(dout, c, N, C);
    if (threadIdx.y == 0 && c < C) atomicAdd(&db[c], total);
}
