/* GELU backward, the tanh form: dx = dout * GELU'(x).

v1  one thread per element
v2  four elements per thread by 128-bit loads and stores, with a grid-stride loop
v3  the same without the loop: as many threads as there are fours

With g = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), GELU' = g + 2 x g (1 - g) u', as tanh' = 1 - tanh^2 = 4 g (1 - g).
x and dout are read once, dx is written once: 12 bytes per element. n is below 2^31 - 2^20. dx may be dout.
*/

__device__ float slope(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);  // 0.79788... = sqrt(2/pi)
    float du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
    float g = 1.0f / (1.0f + expf(-2.0f * u));  // exp may overflow to infinity: then g is 0, as it should be
    return g + 2.0f * x * g * (1.0f - g) * du;
}

// 128-bit accesses need addresses that are multiples of 16: true for whole arrays, not for every slice of one.
__device__ bool aligned(const float* a, const float* b, const float* c)
{
    return ((size_t)a | (size_t)b | (size_t)c) % 16 == 0;
}

extern "C" __global__ void gelu_backward_v1(float* dx, const float* dout, const float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dx[i] = dout[i] * slope(x[i]);
    }
}

extern "C" __global__ void gelu_backward_v2(float* dx, const float* dout, const float* x, int n)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int quads = aligned(dx, dout, x) ? n / 4 : 0;  // 0: everything is left to the loop over single elements
    for (int q = thread; q < quads; q += threads) {
        float4 d = reinterpret_cast<const float4*>(dout)[q];
        float4 v = reinterpret_cast<const float4*>(x)[q];
        d = make_float4(d.x * slope(v.x), d.y * slope(v.y), d.z * slope(v.z), d.w * slope(v.w));
        reinterpret_cast<float4*>(dx)[q] = d;
    }
    for (int i = 4 * quads + thread; i < n; i += threads) {
        dx[i] = dout[i] * slope(x[i]);
    }
}

extern "C" __global__ void gelu_backward_v3(float* dx, const float* dout, const float* x, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && aligned(dx, dout, x)) {
        float4 d = *reinterpret_cast<const float4*>(dout + i), v = *reinterpret_cast<const float4*>(x + i);
        d = make_float4(d.x * slope(v.x), d.y * slope(v.y), d.z * slope(v.z), d.w * slope(v.w));
        *reinterpret_cast<float4*>(dx + i) = d;
    } else {
        for (int k = i; k < n && k < i + 4; k++) dx[k] = dout[k] * slope(x[k]);
    }
}
