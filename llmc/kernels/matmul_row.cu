/* out (N,) = w (N, K) x (K,) + b (N,): the linear layer for a single token, as in sampling.

v1  a warp per output, 128-bit loads

Each weight is used once, so the pace is set by reading w: 4 bytes for 2 operations. A library's matrix product, made for
many rows, splits the work into tiles that are nearly empty here. A warp reads a row of w from beginning to end; x is
small and comes from the cache. The 32 partial sums are added in a fixed order. With biased == 0, b is not read.
*/

const unsigned ALL = 0xffffffff;  // all 32 lanes of a warp take part

// K is a multiple of 4, and x and w begin at multiples of 16 bytes. Grid: 8 outputs to a block of 8 warps.
extern "C" __global__ void __launch_bounds__(256) matmul_row_v1(float* out, const float* x, const float* w,
                                                                 const float* b, int N, int K, int biased)
{
    int n = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (n >= N) return;
    const float4* weights = reinterpret_cast<const float4*>(w + (size_t)n * K);  // (K / 4,)
    const float4* inputs = reinterpret_cast<const float4*>(x);                   // (K / 4,)
    float total = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < K / 4; k += 32) {
        float4 y = weights[k], z = inputs[k];
        total += y.x * z.x + y.y * z.y + y.z * z.z + y.w * z.w;
    }
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(ALL, total, gap);
    if (lane == 0) out[n] = biased ? total + b[n] : total;
}
