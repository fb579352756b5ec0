// What our products on tensor cores share: result (M, N) = A (M, K) B (K, N), as in matmul.cu, with the macros A_RUNS, B_RUNS
// and ADD; and how a result leaves. number.cuh comes before.

#ifndef A_RUNS
#define A_RUNS true
#define B_RUNS true
#define ADD false
#endif

// Finishes one or two neighbouring sums and writes them; bias (N,), or 0 where there is none.
__device__ void finish(floatX* result, const floatX* bias, float low, float high, int m, int n, int M, int N)
{
    if (m >= M || n >= N) return;
    floatX* place = result + (size_t)m * N + n;
    bool two = n + 1 < N;
    low += (ADD ? widen(place[0]) : 0.0f) + (bias ? widen(bias[n]) : 0.0f);
    if (two) high += (ADD ? widen(place[1]) : 0.0f) + (bias ? widen(bias[n + 1]) : 0.0f);
    if (two && (size_t)place % 4 == 0) {
        *reinterpret_cast<unsigned*>(place) = rounded_pair(low, high);
    } else {
        place[0] = nearest(low);
        if (two) place[1] = nearest(high);
    }
}
