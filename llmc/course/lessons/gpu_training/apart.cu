// Lesson 17: the classifier in three kernels, bias and GELU in two. block_max and block_sum are those of ladder/softmax.cu.
__device__ float block_max(float v) { __shared__ float slots[32]; return block_max(v, slots); }
__device__ float block_sum(float v) { __shared__ float slots[32]; return block_sum(v, slots); }

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

__device__ float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
// 1. out (n,) += b (C,), row by row.
extern "C" __global__ void add_bias(float* out, const float* b, int n, int C)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += b[i % C];
}
// 2. gelu_out (n,) = GELU(out).
extern "C" __global__ void gelu_of(float* gelu_out, const float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gelu_out[i] = gelu(out[i]);
}
