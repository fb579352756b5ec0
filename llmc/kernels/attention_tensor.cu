/* Flash attention on tensor cores, for small heads.

v6  a warp owns 32 queries; scores, softmax and sums stay in registers: what tensor cores give back as scores is what
    they take as weights. Keys and values come to shared memory some at a time, the next tile while the present one is
    used. Three TF32 products make one of float32 (EXACT)
v7  the same with a single product each: factors are rounded to TF32. There is room for the queries in registers too

Sums, maxima and exponentials are float32 in both. warp_products.cuh shows how a warp multiplies. Shapes as in
attention.cu; hs must be a multiple of 4 and at most HS; arrays must begin at multiples of 16 bytes.
*/

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32
#endif
#ifndef EXACT
#define EXACT 0  // 1: float32 by three products for each, see warp_products.cuh; 0: one, in TF32
#endif

// A block owns ROWS queries, a warp 16 M of them; BLOCKS share a multiprocessor. What was fastest on an H100.
const int ROWS = 128, M = 2, BLOCKS = 2;

#include "lanes.cuh"
#include "warp_products.cuh"
#include "warp_rows.cuh"
#include "tensor_cores.cuh"
#include "async_copy.cuh"

const int KEYS = EXACT ? 32 : 64;  // rows of a tile that is copied to shared memory
const int PART = 32;               // keys that a warp treats at once: as many as there are registers for

// Turns scores (queries 16 m + 8 n + r, keys 8 k + 2 j …) into probabilities relative to top. It may grow: then what was
// summed up so far shrinks. scale is that of powers of two.
__device__ void online_softmax(float (&scores)[M][PART / 8][4], float (&top)[M][2], float (&total)[M][2], Sums& sums,
                               float scale)
{
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2;
        float higher = top[m][n];
        #pragma unroll
        for (int k = 0; k < PART / 4; k++) higher = fmaxf(higher, scores[m][k / 2][2 * n + k % 2]);
        higher = row_max(higher);
        float old = power_of_two((top[m][n] - higher) * scale), more = 0.0f;
        top[m][n] = higher;
        #pragma unroll
        for (int k = 0; k < PART / 4; k++) {
            float& score = scores[m][k / 2][2 * n + k % 2];
            more += score = power_of_two(score * scale - higher * scale);
        }
        total[m][n] = total[m][n] * old + more;  // of this lane's keys; the four are added at the end
        #pragma unroll
        for (int c = 0; c < HS / 8; c++) sums[m][c][2 * n] *= old, sums[m][c][2 * n + 1] *= old;
    }
}

// Grid: B * NH in x, tiles of ROWS queries in y, the longest first.
// Shared memory: two stages of keys and values; ROWS queries, if EXACT.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_forward_v6(float* out, float* stats, const float* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) float shared[];
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = min(first + ROWS, T), q0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first query
    const float* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[M][2], total[M][2] = {}, scale = rsqrtf((float)hs);
    float* stage = shared;  // keys, then values
    Sums sums = {};
    Rows<EXACT> queries(shared + 4 * KEYS * STRIDE);
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) top[i / 2][i % 2] = LOWEST;

    copy_tile<KEYS>(stage, head + C, 3 * C, 0, T, hs);
    copy_tile<KEYS>(stage + KEYS * STRIDE, head + 2 * C, 3 * C, 0, T, hs);
    load_rows(queries, head, 3 * C, q0, T, hs);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        wait_for_copies();
        __syncthreads();  // this stage is there, and all threads are done with the other
        float* next = shared + (stage == shared) * 2 * KEYS * STRIDE;
        if (k0 + KEYS < end) {
            copy_tile<KEYS>(next, head + C, 3 * C, k0 + KEYS, T, hs);
            copy_tile<KEYS>(next + KEYS * STRIDE, head + 2 * C, 3 * C, k0 + KEYS, T, hs);
        }
        #pragma unroll 1
        for (int k = k0; k < min(k0 + KEYS, q0 + OWN); k += PART) {
            const float* keys = stage + (k - k0) * STRIDE;
            float scores[M][PART / 8][4];
            dot_rows(scores, queries, keys);
            hide_later<false>(scores, q0, k);
            online_softmax(scores, top, total, sums, scale * LOG2E);
            weigh_rows(sums, scores, keys + KEYS * STRIDE);
        }
        stage = next;
    }
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) {
        int m = i / 2, n = i % 2, t = q0 + 8 * i + r_of_lane();
        total[m][n] = row_sum(total[m][n]);
        if (j_of_lane() == 0 && t < T) stats[(size_t)blockIdx.x * T + t] = top[m][n] * scale + logf(total[m][n]);
        total[m][n] = 1.0f / total[m][n];
    }
    store_sums(out + (size_t)b * T * C + h * hs, sums, total, C, q0, T, hs);
}
