/* The norm of all gradients, and the scaling that clips them.

global_norm_partial_v1  each block sums the squares of its share, in a fixed order: partial (blocks,) double
global_norm_final_v1    one block adds the partial sums in order and takes the root: norm (1,) double
scale_v1                values *= factor

Two launches and no atomics: floating-point addition is not associative, so atomics, which come in any order, would give
a different norm in each run. A thread adds four squares in float and then goes on in double: a long float32 sum would
lose the small ones, but doubles are slow on most GPUs, so only every fourth addition is one. n is below 2^31.
*/

const unsigned ALL = 0xffffffff;  // all 32 lanes of a warp take part

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

extern "C" __global__ void global_norm_partial_v1(double* partial, const float* values, int n)
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
    total = block_sum(total);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

extern "C" __global__ void global_norm_final_v1(double* norm, const double* partial, int blocks)
{
    double total = 0.0;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x) total += partial[i];
    total = block_sum(total);
    if (threadIdx.x == 0) norm[0] = sqrt(total);
}

extern "C" __global__ void scale_v1(float* values, float factor, int n)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += threads) values[i] *= factor;
}
