/* The linear layer: out = x wT + b, and its two backward products.

v9  a tile of results for each warp too, and split-K; bias and GELU on the way  in matmul_warp.cu
v10 three products of TF32 numbers, on tensor cores, for one of float32         in matmul_tensor.cu, as is
v11 one product of TF32 numbers: the factors are rounded

v1 to v8, from one thread per result to tiles in registers, are in ladder/matmul.cu and ladder/matmul_tiles.cu.
What llmc multiplies with: see matmul.py.

Shapes: x (N, C_in), w (C_out, C_in), out and dout (N, C_out), with N = B*T.
    matmul_forward          out = x wT        M = N,      columns = C_out,  K = C_in
    matmul_backward_input   dx = dout w       M = N,      columns = C_in,   K = C_out
    matmul_backward_weight  dw += doutT x     M = C_out,  columns = C_in,   K = N
Each product is result (M, N) = A (M, K) B (K, N). Three macros say which: A_RUNS and B_RUNS, whether k is the index
that runs through memory in a and in b, and ADD, whether the result is added to. A fourth one, WORD, is the number of
floats per access to memory: 4 where every row of a, b and the result begins at a multiple of 16 bytes, else 1.

Here is what goes with them:
    matmul_add_parts_v1     result = or += the sum of what v9 has computed in parts, then bias and GELU
    bias_forward_v1         out += b
    bias_gelu_forward_v1    out += b, gelu_out = GELU(out)
    gelu_again_v1           gelu_out = GELU(out) once more, for the backward pass
*/

#ifndef ADD
#define ADD false
#endif

#include "gelu.cuh"

// result (n,), rows of N, = or += the sum of parts (count, n), in a fixed order. bias, gelu_out: 0 where there is none.
extern "C" __global__ void __launch_bounds__(256) matmul_add_parts_v1(float* result, float* gelu_out,
                                                                      const float* parts, const float* bias,
                                                                      int count, int n, int N)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float total = (ADD ? result[i] : 0.0f) + (bias ? bias[i % N] : 0.0f);
        for (int p = 0; p < count; p++) total += parts[(size_t)p * n + i];
        result[i] = total;
        if (gelu_out) gelu_out[i] = gelu(total);
    }
}

extern "C" __global__ void bias_forward_v1(float* out, const float* b, int n, int C)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    bool aligned = C % 4 == 0 && ((size_t)out | (size_t)b) % 16 == 0;  // 128-bit accesses need multiples of 16
    int quads = aligned ? n / 4 : 0;
    for (int q = thread; q < quads; q += threads) {
        float4 x = reinterpret_cast<float4*>(out)[q], y = reinterpret_cast<const float4*>(b)[q % (C / 4)];
        reinterpret_cast<float4*>(out)[q] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    for (int i = 4 * quads + thread; i < n; i += threads) out[i] += b[i % C];
}

extern "C" __global__ void bias_gelu_forward_v1(float* gelu_out, float* out, const float* b, int n, int C)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    bool aligned = C % 4 == 0 && ((size_t)gelu_out | (size_t)out | (size_t)b) % 16 == 0;
    int quads = aligned ? n / 4 : 0;
    for (int q = thread; q < quads; q += threads) {
        float4 x = reinterpret_cast<float4*>(out)[q], y = reinterpret_cast<const float4*>(b)[q % (C / 4)];
        x = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        reinterpret_cast<float4*>(out)[q] = x;
        reinterpret_cast<float4*>(gelu_out)[q] = make_float4(gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w));
    }
    for (int i = 4 * quads + thread; i < n; i += threads) {
        out[i] += b[i % C];
        gelu_out[i] = gelu(out[i]);
    }
}

extern "C" __global__ void gelu_again_v1(float* gelu_out, const float* out, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n && ((size_t)gelu_out | (size_t)out) % 16 == 0) {
        float4 x = *reinterpret_cast<const float4*>(out + i);
        *reinterpret_cast<float4*>(gelu_out + i) = make_float4(gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w));
    } else {
        for (int k = i; k < n && k < i + 4; k++) gelu_out[k] = gelu(out[k]);
    }
}
