// Lesson 17: the classifier in three kernels.
const unsigned ALL = 0xffffffff;
__device__ float block_max(float v)
{
    __shared__ float slots[32];
    for (int gap = 16; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : -3.4e38f;
    for (int gap = 16; gap > 0; gap /= 2) v = fmaxf(v, __shfl_xor_sync(ALL, v, gap));
    return v;
}
__device__ float block_sum(float v)
{
    __shared__ float slots[32];
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? slots[threadIdx.x % 32] : 0.0f;
    for (int gap = 16; gap > 0; gap /= 2) v += __shfl_xor_sync(ALL, v, gap);
    return v;
}
// 1. probs (N, Vp): the softmax of each row's first V logits, zero in the padding. A block a row.
extern "C" __global__ void probabilities(float* probs, const float* logits, int V, int Vp)
{
    logits += (size_t)blockIdx.x * Vp, probs += (size_t)blockIdx.x * Vp;  // (Vp,) each
    float top = -3.4e38f, total = 0.0f;
    for (int v = threadIdx.x; v < V; v += blockDim.x) top = fmaxf(top, logits[v]);
    top = block_max(top);
    for (int v = threadIdx.x; v < V; v += blockDim.x) total += expf(logits[v] - top);
    total = block_sum(total);
    for (int v = threadIdx.x; v < Vp; v += blockDim.x) probs[v] = v < V ? expf(logits[v] - top) / total : 0.0f;
}
// 2. losses (N,): minus the logarithm of the target's probability. A thread a row.
extern "C" __global__ void cross_entropy(float* losses, const float* probs, const int* targets, int N, int Vp)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < N) losses[row] = -logf(probs[(size_t)row * Vp + targets[row]]);
}
// 3. dlogits (N, Vp): dloss * (p - onehot). A block a row.
extern "C" __global__ void dlogits_of(float* dlogits, const float* probs, const int* targets, int Vp, float dloss)
{
    probs += (size_t)blockIdx.x * Vp, dlogits += (size_t)blockIdx.x * Vp;  // (Vp,) each
    int target = targets[blockIdx.x];
    for (int v = threadIdx.x; v < Vp; v += blockDim.x) dlogits[v] = dloss * (probs[v] - (v == target ? 1.0f : 0.0f));
}
