/* AdamW (Loshchilov & Hutter 2019): one step on n parameters with their gradients and two moments.

v1  one thread per parameter
v2  four parameters per thread by 128-bit loads and stores, with a grid-stride loop

It reads four arrays and writes three (four with clear): 28 or 32 bytes per parameter and hardly any arithmetic, so
memory sets the pace. What is the same for all parameters comes from the host, which computes it in double precision:
step = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t), keep = 1 - lr * weight_decay, rate1 = 1 - beta1 and
rate2 = 1 - beta2 (in float, 1 - 0.999 would be off by 1e-5). n is below 2^31.
*/

struct Settings {
    float step, root, rate1, rate2, eps, keep;
};

__device__ void update(float& p, float g, float& m, float& v, const Settings& s)
{
    m += s.rate1 * (g - m);
    v += s.rate2 * (g * g - v);
    p = s.keep * p - s.step * m / (sqrtf(v) * s.root + s.eps);
}

extern "C" __global__ void adamw_update_v1(float* params, float* grads, float* m, float* v, int n, float step,
                                           float root, float rate1, float rate2, float eps, float keep, int clear)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        update(params[i], grads[i], m[i], v[i], {step, root, rate1, rate2, eps, keep});
        if (clear) grads[i] = 0.0f;
    }
}

// 128-bit accesses need addresses that are multiples of 16: true for whole arrays, not for every slice of one.
__device__ bool aligned(const float* a, const float* b, const float* c, const float* d)
{
    return ((size_t)a | (size_t)b | (size_t)c | (size_t)d) % 16 == 0;
}

extern "C" __global__ void adamw_update_v2(float* params, float* grads, float* m, float* v, int n, float step,
                                           float root, float rate1, float rate2, float eps, float keep, int clear)
{
    Settings s = {step, root, rate1, rate2, eps, keep};
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int quads = aligned(params, grads, m, v) ? n / 4 : 0;  // 0: everything is left to the loop over single elements
    for (int q = thread; q < quads; q += threads) {
        float4 p4 = reinterpret_cast<float4*>(params)[q], g4 = reinterpret_cast<float4*>(grads)[q];
        float4 m4 = reinterpret_cast<float4*>(m)[q], v4 = reinterpret_cast<float4*>(v)[q];
        update(p4.x, g4.x, m4.x, v4.x, s);
        update(p4.y, g4.y, m4.y, v4.y, s);
        update(p4.z, g4.z, m4.z, v4.z, s);
        update(p4.w, g4.w, m4.w, v4.w, s);
        reinterpret_cast<float4*>(params)[q] = p4;
        reinterpret_cast<float4*>(m)[q] = m4;
        reinterpret_cast<float4*>(v)[q] = v4;
        if (clear) reinterpret_cast<float4*>(grads)[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    for (int i = 4 * quads + thread; i < n; i += threads) {
        update(params[i], grads[i], m[i], v[i], s);
        if (clear) grads[i] = 0.0f;
    }
}
