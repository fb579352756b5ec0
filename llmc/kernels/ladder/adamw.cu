/* Steps of AdamW before the kernels of ../adamw.cu, which says what it computes.

v1  one thread per parameter
v2  four parameters per thread in 128-bit loads and stores, with a grid-stride loop
v3  the same without the loop, as many threads as there are fours: what llmc uses
*/

#include "../adamw.cu"

extern "C" __global__ void adamw_update_v1(float* params, float* grads, float* m, float* v, int n, float step,
                                           float root, float rate1, float rate2, float eps, float keep, int clear)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        update(params[i], grads[i], m[i], v[i], {step, root, rate1, rate2, eps, keep, 1.0f});
        if (clear) grads[i] = 0.0f;
    }
}

extern "C" __global__ void adamw_update_v2(float* params, float* grads, float* m, float* v, int n, float step,
                                           float root, float rate1, float rate2, float eps, float keep, int clear)
{
    Settings s = {step, root, rate1, rate2, eps, keep, 1.0f};
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
