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

// Turns scores, rows 16 m + 8 n + r, into probabilities relative to top[m][n]. It may grow: then what was summed up so
// far shrinks. scale is that of powers of two.
template <int M, int K, int N>
__device__ void online_softmax(float (&scores)[M][K][4], float (&top)[M][2], float (&total)[M][2],
                               float (&sums)[M][N][4], float scale)
{
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2;
        float higher = top[m][n];
        #pragma unroll
        for (int k = 0; k < 2 * K; k++) higher = fmaxf(higher, scores[m][k / 2][2 * n + k % 2]);
        higher = row_max(higher);
        float old = power_of_two((top[m][n] - higher) * scale), more = 0.0f;
        top[m][n] = higher;
        #pragma unroll
        for (int k = 0; k < 2 * K; k++) {
            float& score = scores[m][k / 2][2 * n + k % 2];
            more += score = power_of_two(score * scale - higher * scale);
        }
        total[m][n] = total[m][n] * old + more;  // of this lane's keys; the four are added at the end
        #pragma unroll
        for (int c = 0; c < N; c++) sums[m][c][2 * n] *= old, sums[m][c][2 * n + 1] *= old;
    }
}
