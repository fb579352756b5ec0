/* GELU, its gradient, and the residual stream: element by element, so the bytes that they move set their pace.

gelu_forward v2      out = GELU(x) = 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), the tanh form of GPT-2
gelu_backward v3     dx = dout * GELU'(x). With g = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), GELU' = g + 2 x g (1 - g) u',
                     as tanh' = 1 - tanh^2 = 4 g (1 - g)
residual_forward v2  out = x1 + x2

In each of them one thread has four elements, moved by 128-bit loads and stores; the last n % 4 go one by one. Lesson 12
climbs there, through the versions in ladder/pointwise.cu. On an H200 gelu_forward and residual_forward are as fast as a
copy. Every array is read or written once: 4 bytes per element each. n is below 2^31 - 2^20. out may be x, x1 or x2, dx
may be dout.
*/

// 128-bit accesses need addresses that are multiples of 16: true for whole arrays, not for every slice of one.
__device__ bool aligned(const float* a, const float* b)
{
    return ((size_t)a | (size_t)b) % 16 == 0;
}

__device__ bool aligned(const float* a, const float* b, const float* c)
{
    return ((size_t)a | (size_t)b | (size_t)c) % 16 == 0;
}

__device__ float gelu_inner(float x)
{
    return 0.7978845608f * (x + 0.044715f * x * x * x);  // u; 0.79788... = sqrt(2/pi)
}

__device__ float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(gelu_inner(x)));
}

__device__ float4 load4(const float* p)
{
    return *reinterpret_cast<const float4*>(p);
}

__device__ void store4(float* p, float4 v)
{
    *reinterpret_cast<float4*>(p) = v;
}

extern "C" __global__ void gelu_forward_v2(float* out, const float* x, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && aligned(out, x)) {
        float4 v = load4(x + i);
        store4(out + i, make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w)));
    } else {
        for (int k = i; k < n && k < i + 4; k++) {
            out[k] = gelu(x[k]);
        }
    }
}

__device__ float slope(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);  // 0.79788... = sqrt(2/pi)
    float du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
    float g = 1.0f / (1.0f + expf(-2.0f * u));  // exp may overflow to infinity: then g is 0, as it should be
    return g + 2.0f * x * g * (1.0f - g) * du;
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

// out[i .. i+3] = x1[i .. i+3] + x2[i .. i+3]
__device__ void add4(float* out, const float* x1, const float* x2, int i)
{
    float4 a = *reinterpret_cast<const float4*>(x1 + i);
    float4 b = *reinterpret_cast<const float4*>(x2 + i);
    *reinterpret_cast<float4*>(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

extern "C" __global__ void residual_forward_v2(float* out, const float* x1, const float* x2, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && aligned(out, x1, x2)) {
        add4(out, x1, x2, i);
    } else {
        for (int k = i; k < n && k < i + 4; k++) {
            out[k] = x1[k] + x2[k];
        }
    }
}
