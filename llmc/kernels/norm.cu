/* The norm of all gradients, and the scaling that clips them.

global_norm v2  two stages in a fixed order: blocks write their sums to scratch memory, and one block adds those up
scale v2        values *= factor, four numbers per thread with 128-bit loads and stores
clip_factor v1  what AdamW has to multiply the gradients by so that their norm is at most max_norm, on the device:
                nothing waits for the norm

Earlier steps are in ladder/norm.cu. A thread adds four squares in float and then goes on in double: a long float32
sum would lose the small ones, but doubles are slow on most GPUs, so only every fourth addition is one. n is below
2^31 - 2^20, so loops in int do not overflow.
*/

#include "warp.cuh"

// The sum over a block of 256 threads; thread 0 gets it.
__device__ double block_sum(double v)
{
    __shared__ double slots[8];  // one number of each warp
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    double total = 0.0;
    for (int w = 0; w < 8; w++) total += slots[w];
    return total;
}

// The sum of the squares of this thread's share.
__device__ double squares(const float* values, int n)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int quads = (size_t)values % 16 == 0 ? n / 4 : 0;  // 128-bit loads need addresses that are multiples of 16
    double total = 0.0;
    for (int q = thread; q < quads; q += threads) {
        float4 x = reinterpret_cast<const float4*>(values)[q];
        total += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    for (int i = 4 * quads + thread; i < n; i += threads) total += values[i] * values[i];
    return total;
}

extern "C" __global__ void global_norm_partial_v2(double* partial, const float* values, int n)
{
    double total = block_sum(squares(values, n));
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

extern "C" __global__ void global_norm_final_v2(double* norm, const double* partial, int blocks)
{
    double total = 0.0;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x) total += partial[i];
    total = block_sum(total);
    if (threadIdx.x == 0) norm[0] = sqrt(total);
}

// 1e-6 as in PyTorch's clip_grad_norm_. A norm that is not finite gives NaN, with which AdamW changes nothing.
extern "C" __global__ void clip_factor_v1(float* factor, const double* norm, double max_norm)
{
    double finite = norm[0] - norm[0];  // 0, or NaN
    factor[0] = finite + (norm[0] > max_norm ? max_norm / (norm[0] + 1e-6) : 1.0);
}

extern "C" __global__ void scale_v2(float* values, float factor, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && (size_t)values % 16 == 0) {
        float4 x = *reinterpret_cast<float4*>(values + i);
        *reinterpret_cast<float4*>(values + i) = make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
    } else {
        for (int k = i; k < n && k < i + 4; k++) values[k] *= factor;
    }
}
