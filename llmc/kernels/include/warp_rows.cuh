// What attention does with the results of tensor cores, whatever they multiply. A result is (16, 8) float32, laid out as
// in lanes.cuh: four lanes share a row. M N of them are (16 M, 8 N).

#include "warp.cuh"

template <int M, int N>
__device__ void set_zero(float (&results)[M][N][4])
{
    #pragma unroll
    for (int i = 0; i < M * N * 4; i++) results[i / 4 / N][i / 4 % N][i % 4] = 0.0f;
}

// Sum and maximum over the four lanes that share a row.
__device__ float row_sum(float v)
{
    v += __shfl_xor_sync(ALL, v, 1);
    return v + __shfl_xor_sync(ALL, v, 2);
}

__device__ float row_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(ALL, v, 1));
    return fmaxf(v, __shfl_xor_sync(ALL, v, 2));
}

// 2^x for x <= 0 to 2 bits of float32, in one instruction; 0 below 2^-126.
__device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
