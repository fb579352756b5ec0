/* Steps of the norm of all gradients, and of their scaling, before the kernels of ../norm.cu.

global_norm v1  each block sums the squares of its share, and adds its sum to the total with one atomic
scale v1        one number at a time, with a grid-stride loop

Floating-point addition is not associative: atomics come in any order, and v1 gives a different norm in each run.
*/

#include "../norm.cu"

// norm is zero before it.
extern "C" __global__ void global_norm_v1(double* norm, const float* values, int n)
{
    double total = block_sum(squares(values, n));
    if (threadIdx.x == 0) atomicAdd(norm, total);
}

extern "C" __global__ void global_norm_root_v1(double* norm) { norm[0] = sqrt(norm[0]); }

extern "C" __global__ void scale_v1(float* values, float factor, int n)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += threads) values[i] *= factor;
}
