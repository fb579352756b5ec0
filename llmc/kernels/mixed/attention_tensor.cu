/* Flash attention in 16 bits on tensor cores, since Ampere (compute capability 8.0).

forward v2  a warp owns 32 queries, 16 where heads are large, kept in registers; scores, softmax and sums stay in
            registers too: what tensor cores give back as scores is, rounded to 16 bits, what they take as weights. Keys
            and values come to shared memory 64 at a time, the next tile while the present one is used

Sums, maxima and exponentials are float. v1 is in attention.cu, which also says what the shapes are. hs must be a
multiple of 8 and at most HS; arrays must begin at multiples of 16 bytes.
*/

#include "number.cuh"

#ifndef HS
#define HS 64  // head size, rounded up to a multiple of 32; attention.py defines it
#endif

// A warp owns 16 M queries, a block has WARPS; at least BLOCKS share a multiprocessor.
const int M = HS > 64 ? 1 : 2, WARPS = 4, BLOCKS = 2;
const int KEYS = 64;  // rows of a tile that is copied to shared memory
const int PART = 32;  // keys that a warp treats at once: as many as there are registers for

#include "batches.cuh"
#include "lanes.cuh"
#include "warp_rows.cuh"
#include "mma_16.cuh"
#include "tensor_cores_16.cuh"

// Grid: B * NH in x, tiles of ROWS queries in y, the longest first. Shared memory: two stages of keys and values.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
attention_forward_v2(floatX* out, float* stats, const floatX* qkv, int T, int NH, int hs)
{
    extern __shared__ __align__(16) floatX shared[];
    int b = blockIdx.x / NH, h = blockIdx.x % NH, C = NH * hs, first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = min(first + ROWS, T), q0 = first + (int)threadIdx.x / 32 * OWN;  // the warp's first query
    const floatX* head = qkv + (size_t)b * T * 3 * C + h * hs;
    float top[M][2], total[M][2] = {}, scale = rsqrtf((float)hs);
    floatX *stage = shared, *other = shared + 2 * KEYS * STRIDE;  // keys, then values
    Sums sums = {};
    Rows queries;
    #pragma unroll
    for (int i = 0; i < 2 * M; i++) top[i / 2][i % 2] = LOWEST;

    copy_tile<KEYS>(stage, head + C, 3 * C, 0, T, hs);
    copy_tile<KEYS>(stage + KEYS * STRIDE, head + 2 * C, 3 * C, 0, T, hs);
    static_assert(ROWS <= 2 * KEYS);  // the queries pass through the other stage on their way to registers
    copy_tile<ROWS>(other, head, 3 * C, first, T, hs);
    end_batch();
    wait_but<0>();
    __syncthreads();
    load_rows(queries, other + (q0 - first) * STRIDE);
    for (int k0 = 0; k0 < end; k0 += KEYS) {
        wait_but<0>();
        __syncthreads();  // this stage is there, and all threads are done with the other
        if (k0 + KEYS < end) {
            copy_tile<KEYS>(other, head + C, 3 * C, k0 + KEYS, T, hs);
            copy_tile<KEYS>(other + KEYS * STRIDE, head + 2 * C, 3 * C, k0 + KEYS, T, hs);
            end_batch();
        }
        #pragma unroll 1
        for (int k = k0; k < min(k0 + KEYS, q0 + OWN); k += PART) {
            const floatX *keys = stage + (k - k0) * STRIDE, *values = keys + KEYS * STRIDE;
            float scores[M][PART / 8][4];
            dot_rows(scores, queries, keys);
            if (k + PART > q0 + 1) hide_later<false>(scores, q0, k);  // the warp's first query does not see all
            online_softmax(scores, top, total, sums, scale * LOG2E);
            weigh_rows(sums, scores, values);
        }
        floatX* used = stage;
        stage = other, other = used;
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
