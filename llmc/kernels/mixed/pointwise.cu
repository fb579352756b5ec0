/* What treats every element alike: GELU and its backward pass, the residual stream, rounding, scaling.

Each thread has eight elements. n is below 2^31 - 2^20. Outputs may be inputs of the same type.
*/

#include "number.cuh"
#include "number_8.cuh"
#include "gelu.cuh"

__device__ int first_of_thread() { return (blockIdx.x * blockDim.x + threadIdx.x) * 8; }

extern "C" __global__ void gelu_forward_v1(Factor* out, const floatX* x, int n)
{
    int i = first_of_thread();
    if (i >= n) return;
    Eight v;
    load(v, x + i, n - i);
    #pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= gate(v[e]);
    store(out + i, v, n - i);
}

// dx = dout GELU'(x): with g = gate(x), GELU' = g + 2 x g (1 - g) u'.
extern "C" __global__ void gelu_backward_v1(floatX* dx, const floatX* dout, const floatX* x, int n)
{
    int i = first_of_thread();
    if (i >= n) return;
    Eight v, d;
    load(v, x + i, n - i);
    load(d, dout + i, n - i);
    #pragma unroll
    for (int e = 0; e < 8; e++) {
        float g = gate(v[e]), du = 0.7978845608f * (1.0f + 3.0f * 0.044715f * v[e] * v[e]);
        d[e] *= g + 2.0f * v[e] * g * (1.0f - g) * du;
    }
    store(dx + i, d, n - i);
}

extern "C" __global__ void residual_forward_v1(Stream* out, const Stream* x1, const floatX* x2, int n)
{
    int i = first_of_thread();
    if (i >= n) return;
    Eight a, b;
    load(a, x1 + i, n - i);
    load(b, x2 + i, n - i);
    #pragma unroll
    for (int e = 0; e < 8; e++) a[e] += b[e];
    store(out + i, a, n - i);
}

extern "C" __global__ void round_v1(floatX* out, const float* x, int n)
{
    int i = first_of_thread();
    if (i >= n) return;
    Eight v;
    load(v, x + i, n - i);
    store(out + i, v, n - i);
}

extern "C" __global__ void scale_v1(floatX* values, float factor, int n)
{
    int i = first_of_thread();
    if (i >= n) return;
    Eight v;
    load(v, values + i, n - i);
    #pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= factor;
    store(values + i, v, n - i);
}
