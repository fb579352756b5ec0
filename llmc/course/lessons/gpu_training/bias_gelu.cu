// Lesson 17: bias and GELU in two kernels.
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
