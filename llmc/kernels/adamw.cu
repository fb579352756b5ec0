/* AdamW (Loshchilov & Hutter 2019): one step on n parameters with their gradients and two moments.

adamw_update_v3     four parameters per thread, with 128-bit loads and stores; lesson 14's steps are in ladder/adamw.cu
adamw_update_by_v1  the same with settings from device memory: a CUDA graph of a whole training step can be replayed with
                    a new learning rate, and gradients are clipped on the way, by a factor that never leaves the device

It reads four arrays and writes three (four with clear): 28 or 32 bytes per parameter and hardly any arithmetic, so
memory sets the pace. What is the same for all parameters comes from the host, which computes it in double precision:
step = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t), keep = 1 - lr * weight_decay, rate1 = 1 - beta1 and
rate2 = 1 - beta2 (in float, 1 - 0.999 would be off by 1e-5). factor multiplies the gradients.
n is below 2^31 - 2^20, so that loops in int do not overflow.
*/

struct Settings {
    float step, root, rate1, rate2, eps, keep, factor;
};

__device__ void update(float& p, float g, float& m, float& v, const Settings& s)
{
    g = __fmul_rn(g, s.factor);  // rounded as if it had been stored in between: bit for bit what norm.cu's scale gives
    m += s.rate1 * (g - m);
    v += s.rate2 * (g * g - v);
    p = fmaf(s.keep, p, -s.step * m / (sqrtf(v) * s.root + s.eps));  // spelled out: all kernels here round alike
}

// 128-bit accesses need addresses that are multiples of 16: true for whole arrays, not for every slice of one.
__device__ bool aligned(const float* a, const float* b, const float* c, const float* d)
{
    return ((size_t)a | (size_t)b | (size_t)c | (size_t)d) % 16 == 0;
}

// The four parameters of a thread.
__device__ void update_four(float* params, float* grads, float* m, float* v, int n, const Settings& s, int clear)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && aligned(params, grads, m, v)) {
        float4 p4 = *reinterpret_cast<float4*>(params + i), g4 = *reinterpret_cast<float4*>(grads + i);
        float4 m4 = *reinterpret_cast<float4*>(m + i), v4 = *reinterpret_cast<float4*>(v + i);
        update(p4.x, g4.x, m4.x, v4.x, s);
        update(p4.y, g4.y, m4.y, v4.y, s);
        update(p4.z, g4.z, m4.z, v4.z, s);
        update(p4.w, g4.w, m4.w, v4.w, s);
        *reinterpret_cast<float4*>(params + i) = p4;
        *reinterpret_cast<float4*>(m + i) = m4;
        *reinterpret_cast<float4*>(v + i) = v4;
        if (clear) *reinterpret_cast<float4*>(grads + i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    } else {
        for (int k = i; k < n && k < i + 4; k++) {
            update(params[k], grads[k], m[k], v[k], s);
            if (clear) grads[k] = 0.0f;
        }
    }
}

extern "C" __global__ void adamw_update_v3(float* params, float* grads, float* m, float* v, int n, float step,
                                           float root, float rate1, float rate2, float eps, float keep, int clear)
{
    update_four(params, grads, m, v, n, {step, root, rate1, rate2, eps, keep, 1.0f}, clear);
}

// settings: as many floats as Settings has. decayed == 0: these parameters have no weight decay.
extern "C" __global__ void adamw_update_by_v1(float* params, float* grads, float* m, float* v, int n,
                                              const float* settings, int decayed, int clear)
{
    Settings s = *reinterpret_cast<const Settings*>(settings);
    if (isnan(s.factor)) return;  // the norm of the gradients is not finite: see clip_factor in norm.cu
    if (!decayed) s.keep = 1.0f;
    update_four(params, grads, m, v, n, s, clear);
}
